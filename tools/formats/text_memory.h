// Bounds the memory that protobuf takes for a message in text form, before the text is parsed: a message of three bytes
// in the text takes some hundred in memory.

#ifndef TENSORCASK_TOOLS_FORMATS_TEXT_MEMORY_H_
#define TENSORCASK_TOOLS_FORMATS_TEXT_MEMORY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::tools {

// Counts the messages, strings and numbers of a TensorProto in text form, in time with the text and without memory.
// Errors: ResourceExhausted if they may take more than max_memory_beyond_input and twice the text. Text that is not
// valid may pass: the parser refuses it.
absl::Status CheckTextMemory(absl::string_view text, const DecodeLimits& limits);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_TEXT_MEMORY_H_
