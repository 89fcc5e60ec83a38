#include "tensorcask/serialize/wire/zero_copy.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_encoder.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/maybe_owned.h"

namespace tensorcask {
namespace {

absl::Status CheckFits(internal::TensorDecoder& decoder, DType dtype, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(decoder.Check());
  if (decoder.dtype() == dtype && decoder.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the message holds ", DTypeName(decoder.dtype()), " ",
                                                 decoder.shape().ToString(), "; the tensor to fill is ",
                                                 DTypeName(dtype), " ", shape.ToString()));
}

}  // namespace

absl::StatusOr<uint64_t> EncodedTensorBytes(const TensorView& tensor, const EncodeOptions& options) {
  CASK_ASSIGN_OR_RETURN(const MaybeOwned<TensorView> ready, internal::ReadyToEncode(tensor, options));
  CASK_ASSIGN_OR_RETURN(const internal::MessageLayout layout, internal::LayOutMessage(*ready, options));
  return layout.total_bytes;
}

absl::Status EncodeTensorTo(const TensorView& tensor, const EncodeOptions& options, absl::Span<char> out) {
  CASK_ASSIGN_OR_RETURN(const MaybeOwned<TensorView> ready, internal::ReadyToEncode(tensor, options));
  CASK_ASSIGN_OR_RETURN(const internal::MessageLayout layout, internal::LayOutMessage(*ready, options));
  internal::WriteMessage(*ready, options, layout, out);
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
  CASK_RETURN_IF_ERROR(CheckFits(decoder, out->dtype(), out->shape()));
  return decoder.Write(out);
}

absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, TensorView* out) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  internal::TensorDecoder decoder(fields, options);
  CASK_RETURN_IF_ERROR(CheckFits(decoder, out->dtype(), out->shape()));
  CASK_RETURN_IF_ERROR(out->CheckWritable());
  if (out->IsContiguous()) {
    CASK_ASSIGN_OR_RETURN(Tensor same_memory, out->ToTensor());
    return decoder.Write(&same_memory);
  }
  CASK_ASSIGN_OR_RETURN(const Tensor dense, decoder.Decode());
  return Copy(dense, out);
}

}  // namespace tensorcask
