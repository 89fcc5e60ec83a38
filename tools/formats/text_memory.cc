#include "tensorcask/tools/formats/text_memory.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::tools {
namespace {

struct TextCounts {
  uint64_t messages = 0;
  uint64_t strings = 0;
  uint64_t values = 0;  // at least as many as there are numbers
};

// The position behind the string that begins with the quote at `begin`.
size_t EndOfString(absl::string_view text, size_t begin) {
  const char quote = text[begin];
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote || text[i] == '\n') {  // strings end with their line
      return i + 1;
    }
  }
  return text.size();
}

TextCounts Count(absl::string_view text) {
  TextCounts counts;
  for (size_t i = 0; i < text.size();) {
    switch (text[i]) {
      case '"':
      case '\'':
        ++counts.strings;
        i = EndOfString(text, i);
        continue;
      case '#':
        i = text.find('\n', i);
        if (i == absl::string_view::npos) return counts;
        break;
      case '{':
      case '<':
        ++counts.messages;
        break;
      case ':':
      case ',':
        ++counts.values;
        break;
      default:
        break;
    }
    ++i;
  }
  return counts;
}

}  // namespace

absl::Status CheckTextMemory(absl::string_view text, const DecodeLimits& limits) {
  constexpr uint64_t kPointerBytes = 8 + 16;  // in the list of its parent, which grows; of the allocation
  // The largest of the messages that may be in a tensor.
  constexpr uint64_t kMessageBytes = sizeof(TensorProto) + kPointerBytes;
  constexpr uint64_t kStringBytes = sizeof(std::string) + kPointerBytes;
  constexpr uint64_t kValueBytes = 8;  // four in a list that grows
  const TextCounts counts = Count(text);
  const uint64_t bytes = counts.messages * kMessageBytes + counts.strings * kStringBytes + counts.values * kValueBytes;
  const absl::Status within = DecodeQuota::ForUnbacked(limits, 2 * text.size()).Charge(bytes);
  if (within.ok()) return within;
  return Annotate(within, absl::StrCat("a text of ", counts.messages, " messages, ", counts.strings, " strings and ",
                                       counts.values, " values"));
}

}  // namespace tensorcask::tools
