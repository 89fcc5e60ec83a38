// The kernels of crc32c.h. Internal. P is 0x11EDC6F41 (crc_math.h).

#ifndef TENSORCASK_TENSOR_BASE_INTERNAL_CRC32C_KERNELS_H_
#define TENSORCASK_TENSOR_BASE_INTERNAL_CRC32C_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/internal/crc_math.h"

namespace tensorcask::internal {

inline constexpr uint32_t kCrc32cPolynomial = 0x82f63b78;  // P without x^32, reflected

constexpr uint32_t MultiplyModP(uint32_t a, uint32_t b) { return MultiplyMod(a, b, kCrc32cPolynomial); }
constexpr uint32_t PowerOfXModP(uint64_t n) { return PowerOfXMod(n, kCrc32cPolynomial); }

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
