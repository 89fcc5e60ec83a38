#include "tensorcask/serialize/zip/crc32.h"

#include <zlib.h>

#include <cstddef>

#include "tensorcask/tensor/base/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tensorcask {
namespace {

#if defined(__x86_64__)

#define CASK_TARGET_PCLMUL __attribute__((target("sse4.2,pclmul")))

// Bytes that the kernel takes at once; shorter texts are for zlib.
constexpr size_t kBlockBytes = 64;

CASK_TARGET_PCLMUL inline __m128i Load(const char* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// Moves the 128 bits of `state` forward by the distance of `factors`, and adds `next`.
CASK_TARGET_PCLMUL inline __m128i Fold(__m128i state, __m128i factors, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(state, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(state, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Four streams of 128 bits, folded by 512 bits, then by 128, then reduced (Gopal et al., "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ", Intel 2009; the constants are those of the reflected polynomial).
// Requires: `count` is a multiple of 16 and at least kBlockBytes. `state` is the inverted checksum, and so is the
// result.
CASK_TARGET_PCLMUL uint32_t FoldBlocks(uint32_t state, const char* bytes, size_t count) {
  const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i a = _mm_xor_si128(Load(bytes), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = Load(bytes + 16);
  __m128i c = Load(bytes + 32);
  __m128i d = Load(bytes + 48);
  bytes += kBlockBytes;
  count -= kBlockBytes;
  for (; count >= kBlockBytes; bytes += kBlockBytes, count -= kBlockBytes) {
    a = Fold(a, by_512, Load(bytes));
    b = Fold(b, by_512, Load(bytes + 16));
    c = Fold(c, by_512, Load(bytes + 32));
    d = Fold(d, by_512, Load(bytes + 48));
  }
  a = Fold(Fold(Fold(a, by_128, b), by_128, c), by_128, d);
  for (; count >= 16; bytes += 16, count -= 16) a = Fold(a, by_128, Load(bytes));

  const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
  // 128 bits to 96, to 64.
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
  a = _mm_xor_si128(_mm_srli_si128(a, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(a, low_words), _mm_set_epi64x(0, 0x0163cd6124), 0x00));
  // Barrett reduction to 32.
  const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), polynomial, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), polynomial, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(a, quotient), 1));
}

#endif

}  // namespace

uint32_t ExtendCrc32(uint32_t crc, absl::string_view bytes) {
#if defined(__x86_64__)
  if (bytes.size() >= kBlockBytes && GetCpuFeatures().pclmul) {
    const size_t count = bytes.size() / 16 * 16;
    crc = ~FoldBlocks(~crc, bytes.data(), count);
    bytes.remove_prefix(count);
  }
#endif
  if (bytes.empty()) return crc;  // zlib answers 0 for a null pointer
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace tensorcask
