// Which of the three forms a message is in, and what it holds (FORMAT.md section 1). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_FORM_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_FORM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

enum class MessageForm : uint8_t { kPlain, kGuarded, kEncoded };

struct FormAndDType {
  MessageForm form = MessageForm::kPlain;
  DType dtype = DType::kInvalid;  // one that the form holds
};

// Errors: InvalidArgument for a mixture of forms, and for a dtype that is none or that the form does not hold;
// Unimplemented for one that is newer than this build.
absl::StatusOr<FormAndDType> FindForm(const TensorFields& fields);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_FORM_H_
