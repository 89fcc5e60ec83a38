// Text as a string of JSON.
//
//   internal::AppendJsonString("a\"b\n", internal::JsonEscapes::kShort, &out);   // "a\"b\n", in quotes

#ifndef TENSORCASK_TENSOR_BASE_JSON_STRING_H_
#define TENSORCASK_TENSOR_BASE_JSON_STRING_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::internal {

// How control characters are written.
enum class JsonEscapes : uint8_t {
  kShort,    // \n, \t and so on where there is such an escape, DEL as it is: as serde_json writes strings
  kUnicode,  // \u000a, also for DEL
};

// Appends `text` in quotes. Bytes that are no UTF-8 become U+FFFD each. Returns false if there were any.
bool AppendJsonString(absl::string_view text, JsonEscapes escapes, std::string* out);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_JSON_STRING_H_
