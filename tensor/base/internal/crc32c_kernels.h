// The arithmetic of crc32c.h, and its kernels. Internal.
//
// A checksum is a polynomial over GF(2) modulo P = 0x11EDC6F41, written reflected: bit 31 - i is the coefficient of
// x^i. Appending n bytes to a string multiplies what came before by x^(8n).

#ifndef TENSORCASK_TENSOR_BASE_INTERNAL_CRC32C_KERNELS_H_
#define TENSORCASK_TENSOR_BASE_INTERNAL_CRC32C_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::internal {

inline constexpr uint32_t kCrc32cPolynomial = 0x82f63b78;  // P without x^32, reflected

// a * b mod P.
constexpr uint32_t MultiplyModP(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kCrc32cPolynomial : 0);  // b * x
  }
  return product;
}

// x^n mod P.
constexpr uint32_t PowerOfXModP(uint64_t n) {
  uint32_t result = 0x80000000;  // x^0
  uint32_t power = 0x40000000;   // x^1, then x^2, x^4 ...
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) result = MultiplyModP(result, power);
    power = MultiplyModP(power, power);
  }
  return result;
}

// A kernel takes and gives the raw register, without the XORs by 0xFFFFFFFF.
using Crc32cKernel = uint32_t (*)(uint32_t crc, const unsigned char* bytes, size_t count);
// This kind also copies the bytes to `out` with non-temporal stores, for sizes beyond the caches.
using StreamingCrc32cKernel = uint32_t (*)(uint32_t crc, const unsigned char* bytes, size_t count, unsigned char* out);

// Eight tables, eight bytes a step. Any machine.
uint32_t Crc32cPortable(uint32_t crc, const unsigned char* bytes, size_t count);

#if defined(__x86_64__)
// Three interleaved streams of the crc32 instruction. Require CpuFeatures::pclmul.
uint32_t Crc32cSse42(uint32_t crc, const unsigned char* bytes, size_t count);
uint32_t StreamCrc32cSse42(uint32_t crc, const unsigned char* bytes, size_t count, unsigned char* out);

// The crc32 instruction and, beside it, carry-less multiplication in 256-bit registers. Require
// CpuFeatures::vpclmul256.
uint32_t Crc32cAvx2(uint32_t crc, const unsigned char* bytes, size_t count);
uint32_t StreamCrc32cAvx2(uint32_t crc, const unsigned char* bytes, size_t count, unsigned char* out);

// Carry-less multiplication in 512-bit registers. Require CpuFeatures::vpclmul512.
uint32_t Crc32cAvx512(uint32_t crc, const unsigned char* bytes, size_t count);
uint32_t StreamCrc32cAvx512(uint32_t crc, const unsigned char* bytes, size_t count, unsigned char* out);
#elif defined(__aarch64__)
// Three interleaved streams of the crc32 instruction. Requires CpuFeatures::arm_crc32.
uint32_t Crc32cArm(uint32_t crc, const unsigned char* bytes, size_t count);
#endif

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_INTERNAL_CRC32C_KERNELS_H_
