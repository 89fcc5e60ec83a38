// Finds the form and the dtype of a message (FORMAT.md section 1). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_MESSAGE_FORM_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_MESSAGE_FORM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

enum class MessageForm : uint8_t { kPlain, kExtensionOnly, kEncoded };

struct FormAndDType {
  MessageForm form = MessageForm::kPlain;
  DType dtype = DType::kInvalid;  // a dtype that the form allows
};

// Errors: InvalidArgument for a mixture of forms, and for a dtype that does not exist or that the form does not allow;
// Unimplemented for a dtype that is newer than this build.
absl::StatusOr<FormAndDType> FindForm(const TensorFields& fields);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_MESSAGE_FORM_H_
