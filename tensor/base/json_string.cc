#include "tensorcask/tensor/base/json_string.h"

#include <cstddef>

#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::internal {
namespace {

// The character after the backslash; 0 if there is no such escape.
char ShortEscape(char c) {
  switch (c) {
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

}  // namespace

bool AppendJsonString(absl::string_view text, JsonEscapes escapes, std::string* out) {
  constexpr unsigned char kDelete = 0x7f;
  const bool is_short = escapes == JsonEscapes::kShort;
  bool is_exact = true;
  out->push_back('"');
  while (!text.empty()) {
    const char c = text[0];
    const auto byte = static_cast<unsigned char>(c);
    const size_t size = byte < 0x80 ? 1 : Utf8CharacterBytes(text);
    if (size == 0) {
      out->append("\xef\xbf\xbd");
      is_exact = false;
    } else if (c == '"' || c == '\\') {
      out->append({'\\', c});
    } else if (byte < 0x20 || (byte == kDelete && !is_short)) {
      const char escape = is_short ? ShortEscape(c) : '\0';
      if (escape != 0) {
        out->append({'\\', escape});
      } else {
        constexpr char kDigits[] = "0123456789abcdef";
        out->append({'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]});
      }
    } else {
      out->append(text.data(), size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  out->push_back('"');
  return is_exact;
}

}  // namespace tensorcask::internal
