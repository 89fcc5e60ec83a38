// Arrays, scalars and dtypes of NumPy in a pickle, as functions of NumPy describe them.
//
// An array of plain numbers becomes row-major and little-endian, however the file has it. As a value it is a list of
// lists of numbers, as ndarray.tolist() makes it. Each number has the width of the dtype (Value::bits).

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_NUMPY_VALUES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_NUMPY_VALUES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/torch/internal/call_arguments.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::torch {

// Errors of all: DataLoss for arguments that the function does not take, or bytes that are not those of the shape.
absl::StatusOr<Ref> MakeNumpyDType(const CallArguments& call);
absl::StatusOr<Ref> MakeNumpyScalar(const CallArguments& call);
absl::StatusOr<Ref> MakeNumpyArray(const CallArguments& call);            // _reconstruct: its state has the numbers
absl::StatusOr<Ref> MakeNumpyArrayFromBuffer(const CallArguments& call);  // _frombuffer: has them itself
// A tensor of another device, which PyTorch stores as an array: (array, dtype, device, requires_grad). Errors: also
// Unimplemented if the dtype is not that of the array, unless it is bfloat16, which PyTorch stores as float32.
absl::StatusOr<Ref> MakeTensorFromNumpy(const CallArguments& call);

// The states of an array and of a dtype. Errors: DataLoss for another state than NumPy's.
absl::Status SetArray(Ref array, Ref state, PickleBuilder* builder);
absl::Status SetNumpyDType(Ref dtype, Ref state, PickleBuilder* builder);

// An array of plain numbers, as a value: a list; with more than 1024 items an object numpy.ndarray, whose arguments are
// the dtype, the size and the bytes. Requires: array.dtype is not kInvalid.
ValueTree::Id AddArray(const Pickle& pickle, const NumpyArray& array, ValueTree* tree);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_NUMPY_VALUES_H_
