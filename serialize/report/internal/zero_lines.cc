#include "tensorcask/serialize/report/internal/zero_lines.h"

#include <cstring>
#include <limits>

namespace tensorcask::report {
namespace {

template <typename Word>
Word Load(const void* data) {
  Word word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

template <typename Word>
bool AllZeroWords(const char* data, size_t count, bool is_float, uint8_t* columns) {
  const Word mask =
      is_float ? static_cast<Word>(std::numeric_limits<Word>::max() >> 1) : std::numeric_limits<Word>::max();
  Word any = 0;
  if (columns == nullptr) {
    for (size_t i = 0; i < count; ++i) any = static_cast<Word>(any | Load<Word>(data + i * sizeof(Word)));
    return (any & mask) == 0;
  }
  for (size_t i = 0; i < count; ++i) {
    const auto word = static_cast<Word>(Load<Word>(data + i * sizeof(Word)) & mask);
    const auto column = static_cast<Word>(Load<Word>(columns + i * sizeof(Word)) | word);
    std::memcpy(columns + i * sizeof(Word), &column, sizeof(Word));
    any = static_cast<Word>(any | word);
  }
  return any == 0;
}

}  // namespace

bool AllZero(const char* data, size_t count, size_t size, bool is_float, uint8_t* columns) {
  switch (size) {
    case 1:
      return AllZeroWords<uint8_t>(data, count, is_float, columns);
    case 2:
      return AllZeroWords<uint16_t>(data, count, is_float, columns);
    case 4:
      return AllZeroWords<uint32_t>(data, count, is_float, columns);
    default:
      return AllZeroWords<uint64_t>(data, count, is_float, columns);
  }
}

uint64_t CountMagnitude16(const char* data, size_t count, uint16_t magnitude) {
  uint64_t found = 0;
  for (size_t i = 0; i < count; ++i) found += (Load<uint16_t>(data + i * 2) & 0x7fff) == magnitude ? 1 : 0;
  return found;
}

}  // namespace tensorcask::report
