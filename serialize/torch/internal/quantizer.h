// How the integers of a quantized tensor become numbers: its scheme, scale and zero point, or those of each channel.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_QUANTIZER_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_QUANTIZER_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::torch {

// Adds the attributes torch.qscheme, torch.scale, torch.zero_point and torch.axis of the `parameters`, a tuple, of
// which `read` reads the tensors. Errors: those of `read`.
absl::Status AddQuantizer(const Pickle& pickle, Ref parameters, absl::FunctionRef<absl::StatusOr<Tensor>(Ref)> read,
                          TensorMetadata* metadata);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_QUANTIZER_H_
