#include "tensorcask/serialize/wire/variant_codec.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/message/object_decoder.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
#include "tensorcask/serialize/wire/message/proto_fields.h"
#include "tensorcask/serialize/wire/tensor_message.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype_visit.h"

namespace tensorcask {

absl::Status EncodeVariant(const Variant& variant, VariantTensorDataProto* out) {
  out->Clear();
  CASK_ASSIGN_OR_RETURN(const uint64_t bytes, EncodedVariantBytes(variant));
  if (bytes > internal::kMaxProtobufBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the variant takes ", bytes, " bytes; a protobuf message holds ",
                                                   internal::kMaxProtobufBytes, ": use EncodeVariantTo"));
  }
  absl::Status status = internal::AddObject(variant, out);
  if (!status.ok()) out->Clear();
  return status;
}

absl::StatusOr<Variant> DecodeVariant(const VariantTensorDataProto& proto, const DecodeOptions& options) {
  CASK_RETURN_IF_ERROR(internal::CheckVariantMessage(proto, options.limits.max_depth));
  CASK_RETURN_IF_ERROR(internal::CheckSize(proto, "the variant"));
  return DecodeVariantBytes(proto.SerializeAsString(), options);
}

absl::StatusOr<uint64_t> EncodedVariantBytes(const Variant& variant) {
  return internal::MeasureObject(variant, internal::kMaxWrittenDepth);
}

absl::Status EncodeVariantTo(const Variant& variant, absl::Span<char> out) {
  CASK_ASSIGN_OR_RETURN(const uint64_t bytes, EncodedVariantBytes(variant));
  CASK_CHECK(out.size() == bytes, "EncodeVariantTo: the span is not EncodedVariantBytes long");
  internal::WriteObject(variant, out.data());
  return absl::OkStatus();
}

absl::StatusOr<Variant> DecodeVariantBytes(absl::string_view message, const DecodeOptions& options) {
  MessageQuota quota(options.limits);
  const internal::ObjectDecoding decoding = {options, options.limits.max_depth, /*is_checked=*/false, &quota};
  CASK_RETURN_IF_ERROR(internal::CheckObject(TypeTag<Variant>(), message, decoding));
  Variant variant;
  CASK_RETURN_IF_ERROR(internal::DecodeObject(message, decoding, &variant));
  return variant;
}

}  // namespace tensorcask
