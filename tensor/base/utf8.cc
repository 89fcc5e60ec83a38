#include "tensorcask/tensor/base/utf8.h"

#include <cstdint>

namespace tensorcask::internal {

size_t Utf8CharacterBytes(absl::string_view text) {
  if (text.empty()) return 0;
  const auto byte = static_cast<uint8_t>(text[0]);
  if (byte < 0x80) return 1;
  // The number of bytes that follow, and the range of the first of them, which rules out longer spellings, surrogates
  // (U+D800 to U+DFFF) and what lies past U+10FFFF.
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
    return 0;
  }
  if (text.size() <= followers) return 0;
  for (size_t k = 1; k <= followers; ++k) {
    const auto next = static_cast<uint8_t>(text[k]);
    if (next < low || next > high) return 0;
    low = 0x80;
    high = 0xbf;
  }
  return followers + 1;
}

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const size_t bytes = Utf8CharacterBytes(text.substr(i));
    if (bytes == 0) return false;
    i += bytes;
  }
  return true;
}

absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes) {
  constexpr size_t kMostContinuations = 3;
  if (text.size() <= max_bytes) return text;
  for (size_t back = 0; back <= kMostContinuations && back <= max_bytes; ++back) {
    if ((static_cast<unsigned char>(text[max_bytes - back]) & 0xc0) != 0x80) return text.substr(0, max_bytes - back);
  }
  return text.substr(0, max_bytes);
}

}  // namespace tensorcask::internal
