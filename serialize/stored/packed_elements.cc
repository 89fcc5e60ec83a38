#include "tensorcask/serialize/stored/packed_elements.h"

#include <cstddef>

namespace tensorcask::stored {

void UnpackElements(int bits, absl::string_view packed, uint64_t first, absl::Span<char> out) {
  const unsigned mask = (1U << bits) - 1;
  uint64_t bit = first * static_cast<uint64_t>(bits);
  for (char& element : out) {
    const auto byte = static_cast<size_t>(bit / 8);
    const auto shift = static_cast<unsigned>(bit % 8);
    unsigned pair = static_cast<uint8_t>(packed[byte]);
    if (shift + static_cast<unsigned>(bits) > 8)
      pair |= static_cast<unsigned>(static_cast<uint8_t>(packed[byte + 1])) << 8;
    element = static_cast<char>((pair >> shift) & mask);
    bit += static_cast<uint64_t>(bits);
  }
}

void ElementPacker::Pack(absl::string_view elements, std::string* out) {
  const unsigned mask = (1U << bits_) - 1;
  for (const char element : elements) {
    pending_ |= (static_cast<uint8_t>(element) & mask) << num_pending_;
    num_pending_ += bits_;
    if (num_pending_ < 8) continue;
    out->push_back(static_cast<char>(pending_ & 0xff));
    pending_ >>= 8;
    num_pending_ -= 8;
  }
}

}  // namespace tensorcask::stored
