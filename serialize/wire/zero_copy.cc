#include "tensorcask/serialize/wire/zero_copy.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_encoder.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/copy.h"

namespace tensorcask {
absl::StatusOr<uint64_t> EncodedTensorBytes(const TensorView& view, const TensorMetadata& metadata,
                                            const EncodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(const internal::MessagePlan plan, internal::PlanMessage(view, metadata, options));
  return plan.total_bytes;
}

absl::StatusOr<uint64_t> EncodedTensorBytes(const TensorView& view, const EncodeOptions& options) {
  return EncodedTensorBytes(view, TensorMetadata(), options);
}

absl::Status EncodeTensorTo(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                            absl::Span<char> out) {
  CASK_ASSIGN_OR_RETURN(const internal::MessagePlan plan, internal::PlanMessage(view, metadata, options));
  internal::WriteMessage(plan, out);
  return absl::OkStatus();
}

absl::Status EncodeTensorTo(const TensorView& view, const EncodeOptions& options, absl::Span<char> out) {
  return EncodeTensorTo(view, TensorMetadata(), options, out);
}

absl::StatusOr<Tensor> DecodeTensorBytes(absl::string_view message, const DecodeOptions& options) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  return internal::TensorDecoder(fields, options).Decode();
}

absl::StatusOr<DecodedTensor> DecodeTensorBytesWithMetadata(absl::string_view message, const DecodeOptions& options) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  return internal::TensorDecoder(fields, options).DecodeWithMetadata();
}

absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, Tensor* out) {
  TensorView view(*out);
  return DecodeTensorInto(message, options, &view);
}

absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, TensorView* out) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  internal::TensorDecoder decoder(fields, options);
  CASK_RETURN_IF_ERROR(decoder.Check());
  if (decoder.dtype() != out->dtype() || decoder.shape() != out->shape()) {
    return absl::InvalidArgumentError(absl::StrCat("the message holds ", DTypeName(decoder.dtype()), " ",
                                                   decoder.shape().ToString(), "; the tensor to fill is ",
                                                   DTypeName(out->dtype()), " ", out->shape().ToString()));
  }
  CASK_RETURN_IF_ERROR(out->CheckWritable());
  // A delta reads elements of its base while others are written.
  const bool is_base = options.base != nullptr && options.base->SharesBufferWith(*out);
  if (decoder.is_encoded() && !is_base) return decoder.WritePayload(out);
  if (!decoder.is_encoded() && out->IsContiguous() && decoder.is_row_major()) {
    CASK_ASSIGN_OR_RETURN(Tensor same_memory, out->ToTensor());
    return decoder.Write(&same_memory);
  }
  CASK_ASSIGN_OR_RETURN(const TensorView dense, decoder.DecodeView());
  return Copy(dense, out);
}

}  // namespace tensorcask
