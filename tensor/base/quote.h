// Text from outside, escaped for an error message.
//
//   Quoted("cuda:-1")      // "cuda:-1", quotes included
//   Quoted("a\x1b[2Jb")    // "a\x1b[2Jb", the escape spelled out
//
// Always short and printable ASCII, whatever the text: a message cannot drive a terminal or fill a log.

#ifndef TENSORCASK_TENSOR_BASE_QUOTE_H_
#define TENSORCASK_TENSOR_BASE_QUOTE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask {

// `text` in double quotes with C escapes, cut after `max_bytes` bytes and then followed by "..." and the length of the
// text.
std::string Quoted(absl::string_view text, size_t max_bytes = 64);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_QUOTE_H_
