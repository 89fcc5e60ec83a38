#include "tensorcask/tensor/base/printable_text.h"

#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::internal {

size_t DecodeCharacter(absl::string_view text, uint32_t* code) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  *code = first;
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (text.size() < size || !IsUtf8(text.substr(0, size))) return 0;
  *code = first & (0xff >> (size + 1));
  for (size_t i = 1; i < size; ++i) *code = *code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  return size;
}

size_t PrintableBytes(absl::string_view text) {
  uint32_t code = 0;
  const size_t size = DecodeCharacter(text, &code);
  struct Range {
    uint32_t first, last;
  };
  static constexpr Range kUnsafe[] = {{0, 0x1f},        {0x7f, 0xa0},     {0xad, 0xad},       {0x61c, 0x61c},
                                      {0x200b, 0x200f}, {0x2028, 0x202f}, {0x2060, 0x206f},   {0xd800, 0xf8ff},
                                      {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0x10ffff}};
  for (const Range& range : kUnsafe) {
    if (code >= range.first && code <= range.last) return 0;
  }
  return size;
}

}  // namespace tensorcask::internal
