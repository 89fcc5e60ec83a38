#include "tensorcask/serialize/wire/serialized_tensor.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_encoder.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {

absl::StatusOr<uint64_t> EncodedSize(const TensorView& view, const TensorMetadata& metadata,
                                     const EncodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(const internal::MessagePlan plan, internal::PlanMessage(view, metadata, options));
  return plan.total_bytes;
}

absl::StatusOr<uint64_t> EncodedSize(const TensorView& view, const EncodeOptions& options) {
  return EncodedSize(view, TensorMetadata(), options);
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

absl::StatusOr<Tensor> DecodeSerializedTensor(absl::string_view message, const DecodeOptions& options) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  return internal::TensorDecoder(fields, options).Decode();
}

absl::StatusOr<DecodedTensor> DecodeSerializedTensorWithMetadata(absl::string_view message,
                                                                 const DecodeOptions& options) {
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
  if (internal::IsOnDevice(*out)) {
    CASK_ASSIGN_OR_RETURN(const TensorView on_host, decoder.DecodeView());
    return internal::CopyFromHost(on_host, out);
  }
  // Decoding a delta reads elements of its base while it writes others.
  if (decoder.is_encoded() && !decoder.HasBaseIn(*out)) return decoder.WritePayload(out);
  if (!decoder.is_encoded() && out->IsContiguous() && decoder.is_row_major()) {
    CASK_ASSIGN_OR_RETURN(Tensor same_memory, out->ToTensor());
    return decoder.Write(&same_memory);
  }
  CASK_ASSIGN_OR_RETURN(const TensorView dense, decoder.DecodeView());
  return Copy(dense, out);
}

}  // namespace tensorcask
