#include "tensorcask/serialize/wire/zero_copy.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_encoder.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

absl::StatusOr<uint64_t> EncodedTensorBytes(const Tensor& tensor, const EncodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(const internal::MessageLayout layout, internal::LayOutMessage(tensor, options));
  return layout.total_bytes;
}

absl::Status EncodeTensorTo(const Tensor& tensor, const EncodeOptions& options, absl::Span<char> out) {
  CASK_ASSIGN_OR_RETURN(const internal::MessageLayout layout, internal::LayOutMessage(tensor, options));
  internal::WriteMessage(tensor, options, layout, out);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> DecodeTensorBytes(absl::string_view message, const DecodeOptions& options) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  return internal::TensorDecoder(fields, options).Decode();
}

absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, Tensor* out) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  internal::TensorDecoder decoder(fields, options);
  CASK_RETURN_IF_ERROR(decoder.Check());
  if (decoder.dtype() != out->dtype() || decoder.shape() != out->shape()) {
    return absl::InvalidArgumentError(absl::StrCat("the message holds ", DTypeName(decoder.dtype()), " ",
                                                   decoder.shape().ToString(), "; the tensor to fill is ",
                                                   DTypeName(out->dtype()), " ", out->shape().ToString()));
  }
  return decoder.Write(out);
}

}  // namespace tensorcask
