// Where the elements of a pickled tensor are, and what has to be done to them.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_STORED_TENSORS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_STORED_TENSORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/torch_file.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::torch {

struct TensorPlace {
  PickledTensor::Form form = PickledTensor::Form::kDense;
  DType dtype = DType::kInvalid;
  std::string dtype_name;            // as PyTorch calls it, if the dtype is kInvalid
  Layout layout;                     // positions from the start of the storage, in elements of the dtype
  uint64_t first_byte = 0;           // where position 0 of the layout is, in the record
  const Storage* storage = nullptr;  // null: there is none
  uint32_t storage_number = 0;
  Ref quantizer = kNoRef;  // the parameters of a quantized tensor
  bool requires_grad = false;
  bool conj = false;
  bool neg = false;

  uint64_t element_bytes = 0;
  // The bytes from the first to the last element.
  uint64_t begin() const { return first_byte + static_cast<uint64_t>(layout.bounds().begin) * element_bytes; }
  uint64_t size_bytes() const {
    return static_cast<uint64_t>(layout.bounds().end - layout.bounds().begin) * element_bytes;
  }
};

// Requires: `object` is a tensor or a storage of the pickle.
TensorPlace PlaceOf(const Pickle& pickle, Ref object);

// Why a tensor there is only listed; OK if it can be read.
absl::Status WhyNotRead(const TensorPlace& place);

// Negates elements (neg) or their imaginary parts (conj) in place. Requires: WhyNotRead is OK.
void ApplyBits(const TensorPlace& place, Tensor* tensor);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_STORED_TENSORS_H_
