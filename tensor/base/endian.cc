#include "tensorcask/tensor/base/endian.h"

#include "tensorcask/tensor/base/check.h"

namespace tensorcask {
namespace {

uint16_t Swapped(uint16_t bits) { return __builtin_bswap16(bits); }
uint32_t Swapped(uint32_t bits) { return __builtin_bswap32(bits); }
uint64_t Swapped(uint64_t bits) { return __builtin_bswap64(bits); }

// Loads and stores by memcpy, so `bytes` need not be aligned; compilers make vector code of it.
template <typename Bits>
void SwapEach(unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    bits = Swapped(bits);
    std::memcpy(bytes + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

}  // namespace

void SwapBytes(void* data, size_t count, size_t item_size) {
  auto* const bytes = static_cast<unsigned char*>(data);
  switch (item_size) {
    case 1:
      return;
    case 2:
      return SwapEach<uint16_t>(bytes, count);
    case 4:
      return SwapEach<uint32_t>(bytes, count);
    case 8:
      return SwapEach<uint64_t>(bytes, count);
    default:
      CASK_CHECK(false, "SwapBytes: item_size is not 1, 2, 4 or 8");
  }
}

}  // namespace tensorcask
