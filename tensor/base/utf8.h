// UTF-8 as RFC 3629 has it: shortest forms, no surrogates, at most U+10FFFF. proto3's `string` fields must be UTF-8.
//
//   if (!internal::IsUtf8(name)) return absl::InvalidArgumentError("the name is not UTF-8");

#ifndef TENSORCASK_TENSOR_BASE_UTF8_H_
#define TENSORCASK_TENSOR_BASE_UTF8_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tensorcask::internal {

// The size of the character at the start of `text`, 1 to 4; 0 if there is none.
size_t Utf8CharacterBytes(absl::string_view text);

// True if `text` consists of whole characters.
bool IsUtf8(absl::string_view text);

// The beginning of `text` of at most `max_bytes` bytes that cuts no character. Text that is not UTF-8 may be cut
// anywhere.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_UTF8_H_
