#include "tensorcask/tensor/base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace tensorcask::internal {

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x80) {
      ++i;
      continue;
    }
    // The number of bytes that follow, and the range of the first of them, which rules out longer spellings,
    // surrogates (U+D800 to U+DFFF) and what lies past U+10FFFF.
    size_t followers = 0;
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf) {
      followers = 1;
    } else if (byte >= 0xe0 && byte <= 0xef) {
      followers = 2;
      if (byte == 0xe0) low = 0xa0;
      if (byte == 0xed) high = 0x9f;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
      followers = 3;
      if (byte == 0xf0) low = 0x90;
      if (byte == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    if (text.size() - i <= followers) return false;
    for (size_t k = 1; k <= followers; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if (next < low || next > high) return false;
      low = 0x80;
      high = 0xbf;
    }
    i += followers + 1;
  }
  return true;
}

}  // namespace tensorcask::internal
