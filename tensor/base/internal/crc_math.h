// The arithmetic of checksums that are remainders of polynomials (CRC): crc32.h, crc32c.h. Internal.
//
// A checksum is a polynomial over GF(2) modulo P, written reflected: bit 31 - i is the coefficient of x^i. Appending n
// bytes to a string multiplies what came before by x^(8n). `polynomial` is P without x^32, reflected.

#ifndef TENSORCASK_TENSOR_BASE_INTERNAL_CRC_MATH_H_
#define TENSORCASK_TENSOR_BASE_INTERNAL_CRC_MATH_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::internal {

// a * b mod P.
constexpr uint32_t MultiplyMod(uint32_t a, uint32_t b, uint32_t polynomial) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0);  // b * x
  }
  return product;
}

// x^n mod P.
constexpr uint32_t PowerOfXMod(uint64_t n, uint32_t polynomial) {
  uint32_t result = 0x80000000;  // x^0
  uint32_t power = 0x40000000;   // x^1, then x^2, x^4 ...
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) result = MultiplyMod(result, power, polynomial);
    power = MultiplyMod(power, power, polynomial);
  }
  return result;
}

// [k][b]: what byte b contributes when k more bytes follow it.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeCrcTables(uint32_t polynomial) {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

// Eight bytes a step. Takes and gives the raw register, without the XORs by 0xFFFFFFFF.
inline uint32_t ExtendByTables(const CrcTables& tables, uint32_t crc, const unsigned char* bytes, size_t count) {
  size_t i = 0;
  for (; count - i >= 8; i += 8) {
    const uint32_t low = crc ^ LoadLittleEndian<uint32_t>(bytes + i);
    const uint32_t high = LoadLittleEndian<uint32_t>(bytes + i + 4);
    crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^ tables[4][low >> 24] ^
          tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff] ^ tables[1][(high >> 16) & 0xff] ^
          tables[0][high >> 24];
  }
  for (; i < count; ++i) crc = (crc >> 8) ^ tables[0][(crc ^ bytes[i]) & 0xff];
  return crc;
}

// x^(8 2^k) mod P: appends 2^k zero bytes.
using CrcPowers = std::array<uint32_t, 64>;

constexpr CrcPowers MakeCrcPowers(uint32_t polynomial) {
  CrcPowers powers{};
  powers[0] = PowerOfXMod(8, polynomial);
  for (size_t k = 1; k < powers.size(); ++k) powers[k] = MultiplyMod(powers[k - 1], powers[k - 1], polynomial);
  return powers;
}

// The checksum of A followed by B, where B has `b_bytes` bytes. The XORs by 0xFFFFFFFF cancel.
inline uint32_t CombineCrcs(const CrcPowers& powers, uint32_t polynomial, uint32_t a, uint32_t b, uint64_t b_bytes) {
  for (size_t k = 0; b_bytes != 0; ++k, b_bytes >>= 1) {
    if ((b_bytes & 1) != 0) a = MultiplyMod(a, powers[k], polynomial);
  }
  return a ^ b;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_INTERNAL_CRC_MATH_H_
