// The kernel of crc32c.h for the crc32 instructions of ARMv8.

#include "tensorcask/tensor/base/internal/crc32c_kernels.h"

#if defined(__aarch64__)

// The header declares its functions for every target of this file only if the instructions are switched on here.
#if defined(__clang__)
#define CASK_TARGET __attribute__((target("crc")))
#else
#define CASK_TARGET __attribute__((target("+crc")))
#endif

#include <arm_acle.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::internal {
namespace {

// Three spans at once: the instruction starts every cycle, but takes two or three to finish.
constexpr size_t kSpan = 2048;  // bytes

// crc * x^(8 kBytes) mod P, one byte of crc at a time.
using Tables = std::array<std::array<uint32_t, 256>, 4>;
template <uint64_t kBytes>
constexpr Tables kShifted = [] {
  constexpr uint32_t kFactor = PowerOfXModP(8 * kBytes);
  Tables tables{};
  for (size_t k = 0; k < 4; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) tables[k][byte] = MultiplyModP(byte << (8 * k), kFactor);
  }
  return tables;
}();
template <uint64_t kBytes>
uint32_t Shifted(uint32_t crc) {
  constexpr const Tables& kTables = kShifted<kBytes>;
  return kTables[0][crc & 0xff] ^ kTables[1][(crc >> 8) & 0xff] ^ kTables[2][(crc >> 16) & 0xff] ^
         kTables[3][crc >> 24];
}

}  // namespace

CASK_TARGET uint32_t Crc32cArm(uint32_t crc, const unsigned char* bytes, size_t count) {
  size_t i = 0;
  for (; count - i >= 3 * kSpan; i += 3 * kSpan) {
    uint32_t a = crc;
    uint32_t b = 0;
    uint32_t c = 0;
    for (size_t j = i; j < i + kSpan; j += 8) {
      a = __crc32cd(a, LoadLittleEndian<uint64_t>(bytes + j));
      b = __crc32cd(b, LoadLittleEndian<uint64_t>(bytes + kSpan + j));
      c = __crc32cd(c, LoadLittleEndian<uint64_t>(bytes + 2 * kSpan + j));
    }
    crc = Shifted<2 * kSpan>(a) ^ Shifted<kSpan>(b) ^ c;
  }
  for (; count - i >= 8; i += 8) crc = __crc32cd(crc, LoadLittleEndian<uint64_t>(bytes + i));
  for (; i < count; ++i) crc = __crc32cb(crc, bytes[i]);
  return crc;
}

}  // namespace tensorcask::internal

#endif  // defined(__aarch64__)
