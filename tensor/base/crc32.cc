#include "tensorcask/tensor/base/crc32.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/internal/crc_math.h"

#if defined(__x86_64__)
// GCC 12 reports the deliberately undefined registers inside its own intrinsics (its bug 105593).
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace tensorcask {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320;
constexpr internal::CrcTables kTables = internal::MakeCrcTables(kPolynomial);  // made by the compiler
constexpr internal::CrcPowers kPowers = internal::MakeCrcPowers(kPolynomial);

// A chunk is copied, and then still in the first-level cache when its checksum is taken.
constexpr size_t kChunkBytes = size_t{8} << 10;

#if defined(__x86_64__)

#define CASK_TARGET_PCLMUL __attribute__((target("sse4.2,pclmul")))

// Bytes that the kernel takes at once; shorter texts are for the tables.
constexpr size_t kFoldBytes = 64;

CASK_TARGET_PCLMUL inline __m128i Load(const char* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// Moves the 128 bits of `state` forward by the distance of `factors`, and adds `next`.
CASK_TARGET_PCLMUL inline __m128i Fold(__m128i state, __m128i factors, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(state, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(state, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// The factors that move 128 bits forward by 128, as two 64-bit lanes (Gopal et al., "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ", Intel 2009; the constants are those of the reflected polynomial).
CASK_TARGET_PCLMUL inline __m128i By128() { return _mm_set_epi64x(0x00ccaa009e, 0x01751997d0); }

// The end of all kernels: folds the rest of the bytes into the 128 bits of `state`, and reduces them to the inverted
// checksum. Requires: `count` is a multiple of 16.
CASK_TARGET_PCLMUL inline uint32_t FinishState(__m128i state, const char* bytes, size_t count) {
  const __m128i by_128 = By128();
  for (; count >= 16; bytes += 16, count -= 16) state = Fold(state, by_128, Load(bytes));
  const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
  // 128 bits to 96, to 64.
  state = _mm_xor_si128(_mm_srli_si128(state, 8), _mm_clmulepi64_si128(state, by_128, 0x10));
  state = _mm_xor_si128(_mm_srli_si128(state, 4),
                        _mm_clmulepi64_si128(_mm_and_si128(state, low_words), _mm_set_epi64x(0, 0x0163cd6124), 0x00));
  // Barrett reduction to 32.
  const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(state, low_words), polynomial, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), polynomial, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(state, quotient), 1));
}

// The same for four streams of 128 bits, one after the other.
CASK_TARGET_PCLMUL inline uint32_t FinishLanes(const __m128i (&lanes)[4], const char* bytes, size_t count) {
  return FinishState(Fold(Fold(Fold(lanes[0], By128(), lanes[1]), By128(), lanes[2]), By128(), lanes[3]), bytes, count);
}

// Four streams of 128 bits, folded by 512 bits, then by 128. Requires: `count` is a multiple of 16 and at least
// kFoldBytes. `state` is the inverted checksum, and so is the result.
CASK_TARGET_PCLMUL uint32_t FoldBlocks(uint32_t state, const char* bytes, size_t count) {
  const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  __m128i a = _mm_xor_si128(Load(bytes), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = Load(bytes + 16);
  __m128i c = Load(bytes + 32);
  __m128i d = Load(bytes + 48);
  bytes += kFoldBytes;
  count -= kFoldBytes;
  for (; count >= kFoldBytes; bytes += kFoldBytes, count -= kFoldBytes) {
    a = Fold(a, by_512, Load(bytes));
    b = Fold(b, by_512, Load(bytes + 16));
    c = Fold(c, by_512, Load(bytes + 32));
    d = Fold(d, by_512, Load(bytes + 48));
  }
  const __m128i lanes[4] = {a, b, c, d};
  return FinishLanes(lanes, bytes, count);
}

#define CASK_TARGET_VPCLMUL512 __attribute__((target("sse4.2,pclmul,avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq")))

// Bytes that the wide kernels take at once.
constexpr size_t kWideBytes = 256;

CASK_TARGET_VPCLMUL512 inline __m512i LoadWide(const char* bytes) { return _mm512_loadu_si512(bytes); }

// As Fold, four times: in each 128-bit lane.
CASK_TARGET_VPCLMUL512 inline __m512i FoldWide(__m512i state, __m512i factors, __m512i next) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(state, factors, 0x00),
                                   _mm512_clmulepi64_epi128(state, factors, 0x11), next, kXorOfThree);
}

// Sixteen streams of 128 bits in four registers, folded by 2048 bits, then by 512, then by 128. Requires: `count` is a
// multiple of 16 and at least kWideBytes. `state` is the inverted checksum, and so is the result.
CASK_TARGET_VPCLMUL512 uint32_t FoldWideBlocks(uint32_t state, const char* bytes, size_t count) {
  const __m512i by_2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01322d1430, 0x011542778a));
  const __m512i by_512 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01c6e41596, 0x0154442bd4));
  __m512i a = _mm512_xor_si512(LoadWide(bytes), _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, static_cast<int64_t>(state)));
  __m512i b = LoadWide(bytes + 64);
  __m512i c = LoadWide(bytes + 128);
  __m512i d = LoadWide(bytes + 192);
  bytes += kWideBytes;
  count -= kWideBytes;
  for (; count >= kWideBytes; bytes += kWideBytes, count -= kWideBytes) {
    a = FoldWide(a, by_2048, LoadWide(bytes));
    b = FoldWide(b, by_2048, LoadWide(bytes + 64));
    c = FoldWide(c, by_2048, LoadWide(bytes + 128));
    d = FoldWide(d, by_2048, LoadWide(bytes + 192));
  }
  a = FoldWide(FoldWide(FoldWide(a, by_512, b), by_512, c), by_512, d);
  for (; count >= 64; bytes += 64, count -= 64) a = FoldWide(a, by_512, LoadWide(bytes));
  __m128i lanes[4];
  std::memcpy(lanes, &a, sizeof(lanes));
  return FinishLanes(lanes, bytes, count);
}

#define CASK_TARGET_VPCLMUL256 __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))

// 512 bits where the registers have 256.
struct Pair {
  __m256i low;
  __m256i high;
};

CASK_TARGET_VPCLMUL256 inline Pair LoadPair(const char* bytes) {
  const auto* const words = reinterpret_cast<const __m256i*>(bytes);
  return {_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
}

// As Fold, twice: in each 128-bit lane.
CASK_TARGET_VPCLMUL256 inline __m256i FoldHalf(__m256i state, __m256i factors, __m256i next) {
  return _mm256_xor_si256(
      _mm256_xor_si256(_mm256_clmulepi64_epi128(state, factors, 0x00), _mm256_clmulepi64_epi128(state, factors, 0x11)),
      next);
}

CASK_TARGET_VPCLMUL256 inline Pair FoldPair(const Pair& state, __m256i factors, const Pair& next) {
  return {FoldHalf(state.low, factors, next.low), FoldHalf(state.high, factors, next.high)};
}

// As FoldWideBlocks, with two registers for each of its own.
CASK_TARGET_VPCLMUL256 uint32_t FoldPairBlocks(uint32_t state, const char* bytes, size_t count) {
  const __m256i by_2048 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x01322d1430, 0x011542778a));
  const __m256i by_512 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x01c6e41596, 0x0154442bd4));
  Pair a = LoadPair(bytes);
  a.low = _mm256_xor_si256(a.low, _mm256_set_epi64x(0, 0, 0, static_cast<int64_t>(state)));
  Pair b = LoadPair(bytes + 64);
  Pair c = LoadPair(bytes + 128);
  Pair d = LoadPair(bytes + 192);
  bytes += kWideBytes;
  count -= kWideBytes;
  for (; count >= kWideBytes; bytes += kWideBytes, count -= kWideBytes) {
    a = FoldPair(a, by_2048, LoadPair(bytes));
    b = FoldPair(b, by_2048, LoadPair(bytes + 64));
    c = FoldPair(c, by_2048, LoadPair(bytes + 128));
    d = FoldPair(d, by_2048, LoadPair(bytes + 192));
  }
  a = FoldPair(FoldPair(FoldPair(a, by_512, b), by_512, c), by_512, d);
  for (; count >= 64; bytes += 64, count -= 64) a = FoldPair(a, by_512, LoadPair(bytes));
  __m128i lanes[4];
  std::memcpy(lanes, &a, sizeof(lanes));
  return FinishLanes(lanes, bytes, count);
}

#endif

}  // namespace

uint32_t ExtendCrc32(uint32_t crc, absl::string_view bytes) {
#if defined(__x86_64__)
  const size_t count = bytes.size() / 16 * 16;
  if (count >= kWideBytes && GetCpuFeatures().vpclmul512) {
    crc = ~FoldWideBlocks(~crc, bytes.data(), count);
    bytes.remove_prefix(count);
  } else if (count >= kWideBytes && GetCpuFeatures().vpclmul256) {
    crc = ~FoldPairBlocks(~crc, bytes.data(), count);
    bytes.remove_prefix(count);
  } else if (count >= kFoldBytes && GetCpuFeatures().pclmul) {
    crc = ~FoldBlocks(~crc, bytes.data(), count);
    bytes.remove_prefix(count);
  }
#endif
  return ~internal::ExtendByTables(kTables, ~crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t CombineCrc32(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes) {
  return internal::CombineCrcs(kPowers, kPolynomial, crc_a, crc_b, b_bytes);
}

uint32_t CopyAndExtendCrc32(uint32_t crc, const void* source, void* destination, size_t bytes) {
  const auto* const from = static_cast<const char*>(source);
  auto* const to = static_cast<char*>(destination);
  for (size_t i = 0; i < bytes; i += kChunkBytes) {
    const size_t n = std::min(kChunkBytes, bytes - i);
    std::memcpy(to + i, from + i, n);
    crc = ExtendCrc32(crc, absl::string_view(from + i, n));
  }
  return crc;
}

}  // namespace tensorcask
