// The characters of UTF-8 text, and which of them are safe to print.
//
//   for (size_t i = 0; i < text.size();) {
//     const size_t bytes = internal::PrintableBytes(text.substr(i));
//     ... bytes > 0: print them; 0: escape text[i] ...
//     i += std::max<size_t>(bytes, 1);
//   }

#ifndef TENSORCASK_TENSOR_BASE_PRINTABLE_TEXT_H_
#define TENSORCASK_TENSOR_BASE_PRINTABLE_TEXT_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask::internal {

// The number of bytes of the character that `text` begins with, and its code point in *code.
// 0 if `text` is empty or does not begin with well-formed UTF-8.
size_t DecodeCharacter(absl::string_view text, uint32_t* code);

// The number of bytes of the character that `text` begins with; 0 if `text` is empty, does not begin with well-formed
// UTF-8, or begins with a character that is not safe to print: a control character (C0, DEL, C1), a line or paragraph
// separator, one that changes the direction of text or is invisible, a private or unassigned one.
size_t PrintableBytes(absl::string_view text);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_PRINTABLE_TEXT_H_
