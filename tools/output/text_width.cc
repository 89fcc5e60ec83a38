#include "tensorcask/tools/output/text_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tensorcask/tensor/base/printable_text.h"

namespace tensorcask::tools {
namespace {

struct CodePoints {
  uint32_t first, last;
};

// Blocks of characters that are wide or full-width in Unicode 15, in order.
constexpr CodePoints kWide[] = {{0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},
                                {0x2614, 0x2615},   {0x26a1, 0x26a1},   {0x2705, 0x2705},   {0x274c, 0x274c},
                                {0x2728, 0x2728},   {0x2b50, 0x2b50},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
                                {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
                                {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                                {0xffe0, 0xffe6},   {0x16fe0, 0x18cff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004},
                                {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f64f},
                                {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};

// Blocks of characters that combine with the one before, in order.
constexpr CodePoints kCombining[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x64b, 0x65f},
                                     {0x3099, 0x309a}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff},
                                     {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

bool IsIn(uint32_t code, const CodePoints* begin, const CodePoints* end) {
  return std::any_of(begin, end, [code](const CodePoints& range) { return code >= range.first && code <= range.last; });
}

// The columns of the character that `text` begins with, and its bytes.
size_t FirstWidth(absl::string_view text, size_t* bytes) {
  uint32_t code = 0;
  *bytes = internal::DecodeCharacter(text, &code);
  if (*bytes == 0) {
    *bytes = 1;
    return 1;
  }
  if (code < kCombining[0].first) return 1;
  if (IsIn(code, std::begin(kCombining), std::end(kCombining))) return 0;
  return IsIn(code, std::begin(kWide), std::end(kWide)) ? 2 : 1;
}

}  // namespace

size_t TextWidth(absl::string_view text) {
  size_t width = 0;
  for (size_t bytes = 0; !text.empty(); text.remove_prefix(bytes)) width += FirstWidth(text, &bytes);
  return width;
}

absl::string_view StartOfWidth(absl::string_view text, size_t width) {
  size_t end = 0;
  for (size_t bytes = 0; end < text.size(); end += bytes) {
    const size_t one = FirstWidth(text.substr(end), &bytes);
    if (one > width) break;
    width -= one;
  }
  return text.substr(0, end);
}

absl::string_view EndOfWidth(absl::string_view text, size_t width) {
  size_t left = TextWidth(text);
  size_t bytes = 0;
  const bool is_cut = left > width;
  for (; left > width; text.remove_prefix(bytes)) left -= FirstWidth(text, &bytes);
  // Accents whose character was removed go, too.
  while (is_cut && !text.empty() && FirstWidth(text, &bytes) == 0) text.remove_prefix(bytes);
  return text;
}

}  // namespace tensorcask::tools
