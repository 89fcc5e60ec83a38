// Text from outside, escaped for an error message.
//
//   Quoted("cuda:-1")      // "cuda:-1", quotes included
//   Quoted("a\x1b[2Jb")    // "a\x1b[2Jb", the escape spelled out
//
//   Quoted("größe")        // "größe": UTF-8 stays as it is
//
// Always short and well-formed UTF-8 without control characters, line separators, and characters that change the
// direction of text or are invisible: a message cannot drive a terminal or fill a log.

#ifndef TENSORCASK_TENSOR_BASE_QUOTE_H_
#define TENSORCASK_TENSOR_BASE_QUOTE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/cxx17.h"

namespace tensorcask {

// `text` in double quotes with C escapes, cut after `max_bytes` bytes, or at the character of UTF-8 before that, and
// then followed by "..." and the length of the text.
std::string Quoted(absl::string_view text, size_t max_bytes = 64);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_QUOTE_H_
