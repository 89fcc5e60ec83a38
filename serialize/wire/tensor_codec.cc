#include "tensorcask/serialize/wire/tensor_codec.h"

#include "tensorcask/serialize/wire/tensor_message.h"

namespace tensorcask {

absl::Status EncodeTensor(const TensorView& view, const EncodeOptions& options, TensorProto* out) {
  return internal::EncodeMessage(view, TensorMetadata(), options, out);
}

absl::Status EncodeTensor(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                          TensorProto* out) {
  return internal::EncodeMessage(view, metadata, options, out);
}

absl::StatusOr<Tensor> DecodeTensor(const TensorProto& proto, const DecodeOptions& options) {
  return internal::DecodeMessage(proto, options);
}

absl::StatusOr<DecodedTensor> DecodeTensorWithMetadata(const TensorProto& proto, const DecodeOptions& options) {
  return internal::DecodeMessageWithMetadata(proto, options);
}

}  // namespace tensorcask
