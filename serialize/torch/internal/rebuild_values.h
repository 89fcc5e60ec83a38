// Plain values, as functions of Python and NumPy describe them.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_VALUES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_VALUES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/call_arguments.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"

namespace tensorcask::torch {

// Errors of all: DataLoss for arguments that the function does not take.
absl::StatusOr<Ref> MakeDict(const CallArguments& call);
absl::StatusOr<Ref> MakeBytes(const CallArguments& call);
absl::StatusOr<Ref> MakeDevice(const CallArguments& call);
absl::StatusOr<Ref> MakePath(const CallArguments& call, absl::string_view name);  // of the class
absl::StatusOr<Ref> MakeComplex(const CallArguments& call);
absl::StatusOr<Ref> MakeNumpyDType(const CallArguments& call);
absl::StatusOr<Ref> MakeNumpyScalar(const CallArguments& call);

// The states of an array and of a dtype of NumPy. Errors: DataLoss for another state than NumPy's.
absl::Status SetArray(Ref array, Ref state, PickleBuilder* builder);
absl::Status SetNumpyDType(Ref dtype, Ref state, PickleBuilder* builder);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_VALUES_H_
