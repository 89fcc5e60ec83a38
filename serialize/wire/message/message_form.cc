#include "tensorcask/serialize/wire/message/message_form.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::internal {
namespace {

// TensorFlow's reference dtypes: the number of a dtype plus 100.
bool IsReference(int32_t number) { return number >= 101 && number <= 132; }

absl::StatusOr<FormAndDType> FindPlain(const TensorFields& fields) {
  const ExtensionFields& extension = fields.extension;
  if (extension.dtype != 0 || extension.num_strides > 0 || extension.storage_offset != 0 || extension.has_payload) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is ", fields.dtype,
                     ", as in the plain form, but the extension has fields of the extension-only or the encoded form"));
  }
  if (IsReference(fields.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("dtype is ", fields.dtype, ", a reference; wanted 1 to 32"));
  }
  const std::optional<DType> dtype = DTypeFromNumber(fields.dtype);
  if (!dtype || fields.dtype >= kFirstOwnDTypeNumber) {
    return absl::InvalidArgumentError(absl::StrCat("dtype is ", fields.dtype, "; wanted one of TensorFlow's, 1 to 32"));
  }
  return FormAndDType{MessageForm::kPlain, *dtype};
}

// The form of a message whose dtype is 0.
absl::StatusOr<MessageForm> FindOwnForm(const TensorFields& fields) {
  const ExtensionFields& extension = fields.extension;
  if (extension.dtype == 0) return absl::InvalidArgumentError("dtype is 0; wanted one of TensorFlow's, 1 to 32");
  bool has_values = false;
  for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
    has_values = has_values || fields.count(static_cast<ValueField>(number)) > 0;
  }
  const bool has_strides = extension.num_strides > 0;
  const bool is_encoded =
      extension.has_payload && fields.content.empty() && !has_strides && extension.storage_offset == 0;
  const bool is_extension_only = !extension.has_payload && (has_strides || extension.dtype >= kFirstOwnDTypeNumber) &&
                                 (has_strides || extension.storage_offset == 0);
  if (has_values || extension.dtype < 0 || is_encoded == is_extension_only) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is 0 and the extension's dtype is ", extension.dtype,
                     ", but the other fields are those of neither the extension-only nor the encoded form"));
  }
  return is_encoded ? MessageForm::kEncoded : MessageForm::kExtensionOnly;
}

}  // namespace

absl::StatusOr<FormAndDType> FindForm(const TensorFields& fields) {
  if (fields.dtype != 0) return FindPlain(fields);
  CASK_ASSIGN_OR_RETURN(const MessageForm form, FindOwnForm(fields));
  const int32_t number = fields.extension.dtype;
  const std::optional<DType> dtype = DTypeFromNumber(number);
  if (!dtype && number >= kFirstOwnDTypeNumber && !IsReference(number)) {
    return absl::UnimplementedError(absl::StrCat("extension: dtype is ", number, ", which this build does not know"));
  }
  const bool is_encoded = form == MessageForm::kEncoded;
  if (!dtype || !(is_encoded ? PayloadHeader::Supports(*dtype) : IsFixedSize(*dtype))) {
    return absl::InvalidArgumentError(absl::StrCat("extension: dtype is ", number, "; the ",
                                                   is_encoded
                                                       ? "encoded form holds elements of a fixed size, and strings"
                                                       : "extension-only form holds elements of a fixed size"));
  }
  return FormAndDType{form, *dtype};
}

}  // namespace tensorcask::internal
