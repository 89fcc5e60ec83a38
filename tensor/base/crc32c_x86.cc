// The vector kernels of crc32c.h. Each is compiled for its instructions by attribute, and called only where the
// processor has them.
//
// Where kStream is true, a function also copies what it reads to `out`, with stores that go past the caches and want
// `out` aligned to 64 bytes; where it is false, `out` is null and not used.

#include "tensorcask/tensor/base/internal/crc32c_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define CASK_TARGET_SSE42 __attribute__((target("sse4.2,pclmul")))
#define CASK_TARGET_AVX2 __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))
#define CASK_TARGET_AVX512 __attribute__((target("sse4.2,pclmul,avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq")))

namespace tensorcask::internal {
namespace {

uint64_t Load64(const unsigned char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// One stream: for what is too short for more.
CASK_TARGET_SSE42 uint32_t OneStream(uint32_t crc, const unsigned char* bytes, size_t count) {
  uint64_t state = crc;
  size_t i = 0;
  for (; count - i >= 8; i += 8) state = _mm_crc32_u64(state, Load64(bytes + i));
  crc = static_cast<uint32_t>(state);
  for (; i < count; ++i) crc = _mm_crc32_u8(crc, bytes[i]);
  return crc;
}

// The bytes to copy one by one until `out` is aligned to 64 bytes.
size_t BytesToAlignment(const unsigned char* out, size_t count) {
  return std::min(count, static_cast<size_t>(-reinterpret_cast<uintptr_t>(out) % 64));
}

// crc * x^(8 kBytes), as a word which the crc32 instruction takes for data: the instruction multiplies by x^32, and the
// reflected product of two 32-bit numbers lies one bit, a factor of x, too high.
template <uint64_t kBytes>
CASK_TARGET_SSE42 inline uint64_t ShiftedAsData(uint64_t crc) {
  constexpr uint32_t kFactor = PowerOfXModP(8 * kBytes - 33);
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(crc)),
                                               _mm_cvtsi32_si128(static_cast<int32_t>(kFactor)), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}

// Three spans of kSpan bytes at once: the crc32 instruction starts every cycle, but takes three to finish, so that
// three chains keep it busy. (Spelled out: GCC keeps arrays of chains in memory.)
template <size_t kSpan>
CASK_TARGET_SSE42 inline uint32_t ThreeSpans(uint32_t crc, const unsigned char* bytes) {
  static_assert(kSpan % 8 == 0);
  uint64_t a = crc;
  uint64_t b = 0;
  uint64_t c = 0;
  for (size_t i = 0; i < kSpan; i += 8) {
    a = _mm_crc32_u64(a, Load64(bytes + i));
    b = _mm_crc32_u64(b, Load64(bytes + kSpan + i));
    c = _mm_crc32_u64(c, Load64(bytes + 2 * kSpan + i));
  }
  return static_cast<uint32_t>(_mm_crc32_u64(0, ShiftedAsData<2 * kSpan>(a) ^ ShiftedAsData<kSpan>(b)) ^ c);
}

// Copies with stores that go past the caches, one line after the other. (Stores to three pages in turns, as the words
// are read above, are written out before a line is full: 0.7 GB/s on an AMD EPYC, which does 10 so.)
CASK_TARGET_SSE42 inline void StreamLines(const unsigned char* bytes, size_t count, unsigned char* out) {
  for (size_t i = 0; i < count; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i)));
  }
}

// Copies all of the bytes, those of whole blocks of kBlock bytes past the caches, after the first ones that align
// `out`. Extends *crc by `block` up to the end of the last of these blocks, and returns where that is.
template <size_t kBlock, uint32_t (*block)(uint32_t crc, const unsigned char* bytes)>
CASK_TARGET_SSE42 size_t StreamBlocks(uint32_t* crc, const unsigned char* bytes, size_t count, unsigned char* out) {
  static_assert(kBlock % 64 == 0);
  size_t i = BytesToAlignment(out, count);
  std::memcpy(out, bytes, i);
  *crc = OneStream(*crc, bytes, i);
  for (; count - i >= kBlock; i += kBlock) {
    *crc = block(*crc, bytes + i);
    StreamLines(bytes + i, kBlock, out + i);  // they are in the first-level cache
  }
  _mm_sfence();  // these stores keep no order with others unless told to
  std::memcpy(out + i, bytes + i, count - i);
  return i;
}

// A page, so that each chain has its own prefetcher.
constexpr size_t kPage = 4096;

// Below, 128 bits of a message that was folded are a lane.

// A lane times x^(8 kBytes): moved to where the lane kBytes further back is. The low half of a lane holds the higher
// powers; the reflected product of 64 by 32 bits lies 33 bits too high in 128.
template <uint64_t kBytes>
constexpr uint32_t kLowFactor = PowerOfXModP(8 * kBytes + 64 - 33);
template <uint64_t kBytes>
constexpr uint32_t kHighFactor = PowerOfXModP(8 * kBytes - 33);

template <uint64_t kBytes>
CASK_TARGET_SSE42 inline __m128i Shifted(__m128i lane) {
  const __m128i factors = _mm_set_epi64x(kHighFactor<kBytes>, kLowFactor<kBytes>);
  return _mm_xor_si128(_mm_clmulepi64_si128(lane, factors, 0x00), _mm_clmulepi64_si128(lane, factors, 0x11));
}

template <uint64_t kBytes>
CASK_TARGET_AVX2 inline __m256i Shifted(__m256i lanes) {
  const __m256i factors =
      _mm256_set_epi64x(kHighFactor<kBytes>, kLowFactor<kBytes>, kHighFactor<kBytes>, kLowFactor<kBytes>);
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(lanes, factors, 0x00),
                          _mm256_clmulepi64_epi128(lanes, factors, 0x11));
}

template <uint64_t kBytes>
CASK_TARGET_AVX512 inline __m512i Shifted(__m512i lanes) {
  const __m512i factors =
      _mm512_set_epi64(kHighFactor<kBytes>, kLowFactor<kBytes>, kHighFactor<kBytes>, kLowFactor<kBytes>,
                       kHighFactor<kBytes>, kLowFactor<kBytes>, kHighFactor<kBytes>, kLowFactor<kBytes>);
  return _mm512_xor_si512(_mm512_clmulepi64_epi128(lanes, factors, 0x00),
                          _mm512_clmulepi64_epi128(lanes, factors, 0x11));
}

// The checksum of four lanes, one after the other.
CASK_TARGET_SSE42 inline uint32_t Crc32cOfLanes(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m128i lane = _mm_xor_si128(_mm_xor_si128(Shifted<48>(a), Shifted<32>(b)), _mm_xor_si128(Shifted<16>(c), d));
  const uint64_t crc = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(lane)));
  return static_cast<uint32_t>(_mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(lane, 1))));
}

// The bytes of MixedBlock, a multiple of 64: what StreamBlocks wants.
constexpr size_t kMixedBlock = 4 * kPage;

CASK_TARGET_AVX2 inline __m256i Load256(const unsigned char* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// The crc32 instruction and carry-less multiplication use different units of the processor, so that both at once are
// half as fast again as either (AMD Zen 3: 34 GB/s instead of 23 and 25 in the second-level cache). The multiplication
// takes the first kFolded bytes, 64 a step in two chains; the instruction takes three spans after them, 24 of each a
// step.
CASK_TARGET_AVX2 uint32_t MixedBlock(uint32_t crc, const unsigned char* bytes) {
  constexpr size_t kSteps = 120;
  constexpr size_t kFolded = 64 * (kSteps + 1);
  constexpr size_t kSpan = 24 * kSteps;
  static_assert(kFolded + 3 * kSpan == kMixedBlock);
  __m256i low = _mm256_xor_si256(Load256(bytes), _mm256_set_epi64x(0, 0, 0, static_cast<int64_t>(crc)));
  __m256i high = Load256(bytes + 32);
  const unsigned char* span = bytes + kFolded;
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  for (size_t i = 64; i < kFolded; i += 64) {
    low = _mm256_xor_si256(Shifted<64>(low), Load256(bytes + i));
    high = _mm256_xor_si256(Shifted<64>(high), Load256(bytes + i + 32));
    for (size_t end = 0; end < 24; end += 8) {
      a = _mm_crc32_u64(a, Load64(span + end));
      b = _mm_crc32_u64(b, Load64(span + kSpan + end));
      c = _mm_crc32_u64(c, Load64(span + 2 * kSpan + end));
    }
    span += 24;
  }
  const uint32_t folded = Crc32cOfLanes(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1),
                                        _mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  return static_cast<uint32_t>(
      _mm_crc32_u64(0, ShiftedAsData<3 * kSpan>(folded) ^ ShiftedAsData<2 * kSpan>(a) ^ ShiftedAsData<kSpan>(b)) ^ c);
}

// `lanes` moved on by kBytes, to where bytes + i lies, and joined with the 64 bytes there.
template <uint64_t kBytes, bool kStream>
CASK_TARGET_AVX512 inline __m512i Fold(__m512i lanes, const unsigned char* bytes, unsigned char* out, size_t i) {
  const __m512i data = _mm512_loadu_si512(bytes + i);
  if constexpr (kStream) _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), data);
  return _mm512_xor_si512(Shifted<kBytes>(lanes), data);
}

template <uint64_t kBytes>
CASK_TARGET_AVX512 inline __m512i Fold(__m512i lanes, const unsigned char* bytes) {
  return Fold<kBytes, false>(lanes, bytes, nullptr, 0);
}

// Four lanes, each kSpan bytes after the one before, in one.
template <uint64_t kSpan>
CASK_TARGET_AVX512 inline __m512i Join(__m512i a, __m512i b, __m512i c, __m512i d) {
  return _mm512_xor_si512(_mm512_xor_si512(Shifted<3 * kSpan>(a), Shifted<2 * kSpan>(b)),
                          _mm512_xor_si512(Shifted<kSpan>(c), d));
}

// Below, `state` stands for all that came before `bytes`: it is what the last 64 bytes would be if they alone had the
// same checksum. Four chains run at once, for the same reason as above.

// Four pages.
template <bool kStream>
CASK_TARGET_AVX512 inline __m512i FourPages(__m512i state, const unsigned char* bytes, unsigned char* out) {
  __m512i a = state;
  __m512i b = _mm512_setzero_si512();
  __m512i c = _mm512_setzero_si512();
  __m512i d = _mm512_setzero_si512();
  for (size_t i = 0; i < kPage; i += 64) {
    a = Fold<64, kStream>(a, bytes, out, i);
    b = Fold<64, kStream>(b, bytes, out, kPage + i);
    c = Fold<64, kStream>(c, bytes, out, 2 * kPage + i);
    d = Fold<64, kStream>(d, bytes, out, 3 * kPage + i);
  }
  return Join<kPage>(a, b, c, d);
}

// `count` bytes, a multiple of 256, not 0.
CASK_TARGET_AVX512 inline __m512i Steps(__m512i state, const unsigned char* bytes, size_t count) {
  __m512i a = Fold<64>(state, bytes);
  __m512i b = _mm512_loadu_si512(bytes + 64);
  __m512i c = _mm512_loadu_si512(bytes + 128);
  __m512i d = _mm512_loadu_si512(bytes + 192);
  for (size_t i = 256; i < count; i += 256) {
    a = Fold<256>(a, bytes + i);
    b = Fold<256>(b, bytes + i + 64);
    c = Fold<256>(c, bytes + i + 128);
    d = Fold<256>(d, bytes + i + 192);
  }
  return Join<64>(a, b, c, d);
}

// The state after `crc` and 64 bytes: the checksum is added to the first four.
CASK_TARGET_AVX512 inline __m512i FirstState(uint32_t crc, const unsigned char* bytes) {
  return _mm512_xor_si512(_mm512_loadu_si512(bytes), _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, static_cast<int64_t>(crc)));
}

CASK_TARGET_AVX512 inline uint32_t Crc32cOfState(__m512i state) {
  __m128i lanes[4];
  std::memcpy(lanes, &state, sizeof(lanes));
  return Crc32cOfLanes(lanes[0], lanes[1], lanes[2], lanes[3]);
}

}  // namespace

CASK_TARGET_SSE42 uint32_t Crc32cSse42(uint32_t crc, const unsigned char* bytes, size_t count) {
  constexpr size_t kShort = 128;
  size_t i = 0;
  for (; count - i >= 3 * kPage; i += 3 * kPage) crc = ThreeSpans<kPage>(crc, bytes + i);
  for (; count - i >= 3 * kShort; i += 3 * kShort) crc = ThreeSpans<kShort>(crc, bytes + i);
  return OneStream(crc, bytes + i, count - i);
}

CASK_TARGET_SSE42 uint32_t StreamCrc32cSse42(uint32_t crc, const unsigned char* bytes, size_t count,
                                             unsigned char* out) {
  const size_t done = StreamBlocks<3 * kPage, ThreeSpans<kPage>>(&crc, bytes, count, out);
  return Crc32cSse42(crc, bytes + done, count - done);
}

CASK_TARGET_AVX2 uint32_t Crc32cAvx2(uint32_t crc, const unsigned char* bytes, size_t count) {
  size_t i = 0;
  for (; count - i >= kMixedBlock; i += kMixedBlock) crc = MixedBlock(crc, bytes + i);
  return Crc32cSse42(crc, bytes + i, count - i);
}

CASK_TARGET_AVX2 uint32_t StreamCrc32cAvx2(uint32_t crc, const unsigned char* bytes, size_t count, unsigned char* out) {
  const size_t done = StreamBlocks<kMixedBlock, MixedBlock>(&crc, bytes, count, out);
  return Crc32cSse42(crc, bytes + done, count - done);
}

CASK_TARGET_AVX512 uint32_t Crc32cAvx512(uint32_t crc, const unsigned char* bytes, size_t count) {
  if (count < 256) return OneStream(crc, bytes, count);
  __m512i state = FirstState(crc, bytes);
  size_t i = 64;
  for (; count - i >= 4 * kPage; i += 4 * kPage) state = FourPages<false>(state, bytes + i, nullptr);
  if (const size_t n = (count - i) / 256 * 256; n > 0) {
    state = Steps(state, bytes + i, n);
    i += n;
  }
  for (; count - i >= 64; i += 64) state = Fold<64>(state, bytes + i);
  return OneStream(Crc32cOfState(state), bytes + i, count - i);
}

CASK_TARGET_AVX512 uint32_t StreamCrc32cAvx512(uint32_t crc, const unsigned char* bytes, size_t count,
                                               unsigned char* out) {
  size_t i = BytesToAlignment(out, count);
  if (count - i >= 64) {
    std::memcpy(out, bytes, i + 64);
    __m512i state = FirstState(OneStream(crc, bytes, i), bytes + i);
    i += 64;
    for (; count - i >= 4 * kPage; i += 4 * kPage) state = FourPages<true>(state, bytes + i, out + i);
    _mm_sfence();  // these stores keep no order with others unless told to
    crc = Crc32cOfState(state);
  } else {
    i = 0;
  }
  std::memcpy(out + i, bytes + i, count - i);
  return Crc32cAvx512(crc, bytes + i, count - i);
}

}  // namespace tensorcask::internal

#endif  // defined(__x86_64__)
