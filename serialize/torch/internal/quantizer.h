// How the integers of a quantized tensor become numbers: its scheme, scale and zero point, or those of each channel. A
// reader gives them as attributes of the tensor (JSON), and a writer takes these:
//
//   torch.qscheme "torch.per_tensor_affine", torch.scale "0.5", torch.zero_point "3"
//   torch.qscheme "torch.per_channel_affine", torch.scale "[0.5,0.25]", torch.zero_point "[3,0]", torch.axis "0"

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_QUANTIZER_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_QUANTIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::torch {

struct Quantizer {
  std::string scheme;  // "torch.per_tensor_affine"
  bool per_channel = false;
  std::vector<double> scales;  // one, or one for each channel
  // As many: integers, or numbers of channels (torch.per_channel_affine_float_qparams).
  std::vector<int64_t> zero_points;
  std::vector<double> float_zero_points;
  int64_t axis = 0;  // the axis of the channels
};

// Adds the attributes torch.qscheme, torch.scale, torch.zero_point and torch.axis of the `parameters` of a tensor of
// this shape: a tuple of 3 or 4 items, of which `read` reads the tensors. Errors: DataLoss if these do not have one
// number for each channel; those of `read`.
absl::Status AddQuantizer(const Pickle& pickle, Ref parameters, const TensorShape& shape,
                          absl::FunctionRef<absl::StatusOr<Tensor>(Ref)> read, TensorMetadata* metadata);

// The inverse, for a tensor of this shape. Errors: InvalidArgument if an attribute is missing or is none of these, or
// the channels are not those of the axis.
absl::StatusOr<Quantizer> ParseQuantizer(const TensorMetadata& metadata, const TensorShape& shape);
// True for the names of these attributes.
bool IsOfQuantizer(absl::string_view attribute);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_QUANTIZER_H_
