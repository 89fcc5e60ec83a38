// The kernels of copy_kernels.h in 64-byte registers. They are called only where the processor has CpuFeatures::avx512.

#include "tensorcask/tensor/base/simd.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define CASK_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace tensorcask::internal {
namespace {

// Operands of shuffles.
struct Numbers {
  alignas(64) char numbers[64] = {};
};
template <int kElement>
constexpr Numbers kReversed = [] {  // bytes of a lane: its elements, last one first
  Numbers result;
  for (int i = 0; i < 64; ++i) {
    result.numbers[i] = static_cast<char>(16 - kElement - i % 16 / kElement * kElement + i % kElement);
  }
  return result;
}();
template <int kElement>
constexpr Numbers kEven = [] {  // 0, 2, 4 ... as integers of an element's size
  Numbers result;
  for (int64_t i = 0; i < 64 / kElement; ++i) result.numbers[i * kElement] = static_cast<char>(2 * i);
  return result;
}();

// 0, 3, 6 ... as integers of an element's size: of those in two registers, and of those in the register after them,
// where the others stay as they are.
template <int kElement>
constexpr Numbers kThirds = [] {
  Numbers result;
  for (int64_t i = 0; i < 64 / kElement; ++i)
    result.numbers[i * kElement] = static_cast<char>(3 * i % (128 / kElement));
  return result;
}();
template <int kElement>
constexpr Numbers kThirdsBehind = [] {
  Numbers result;
  for (int64_t i = 0; i < 64 / kElement; ++i) {
    const int64_t number = 3 * i;
    const int64_t behind = 128 / kElement;
    result.numbers[i * kElement] = static_cast<char>(number < behind ? i : number - behind + 64 / kElement);
  }
  return result;
}();

template <typename T>
T LoadElement(const char* from) {
  T element;
  std::memcpy(&element, from, sizeof(T));
  return element;
}

#include "tensorcask/tensor/strided/internal/copy_kernels_lane.inc"

struct Vector {
  static constexpr int64_t kBytes = 64;
  __m512i bits;

  CASK_TARGET static Vector Load(const char* from) { return {_mm512_loadu_si512(from)}; }
  CASK_TARGET static void Store(char* to, Vector a) { _mm512_storeu_si512(to, a.bits); }
  CASK_TARGET static void Stream(char* to, Vector a) { _mm512_stream_si512(reinterpret_cast<__m512i*>(to), a.bits); }
  template <int kElement>
  CASK_TARGET static Vector UnpackLow(Vector a, Vector b) {
    if constexpr (kElement == 1) return {_mm512_unpacklo_epi8(a.bits, b.bits)};
    if constexpr (kElement == 2) return {_mm512_unpacklo_epi16(a.bits, b.bits)};
    if constexpr (kElement == 4) return {_mm512_unpacklo_epi32(a.bits, b.bits)};
    if constexpr (kElement == 8) return {_mm512_unpacklo_epi64(a.bits, b.bits)};
  }
  template <int kElement>
  CASK_TARGET static Vector UnpackHigh(Vector a, Vector b) {
    if constexpr (kElement == 1) return {_mm512_unpackhi_epi8(a.bits, b.bits)};
    if constexpr (kElement == 2) return {_mm512_unpackhi_epi16(a.bits, b.bits)};
    if constexpr (kElement == 4) return {_mm512_unpackhi_epi32(a.bits, b.bits)};
    if constexpr (kElement == 8) return {_mm512_unpackhi_epi64(a.bits, b.bits)};
  }
  template <int kLane>
  CASK_TARGET void StoreLane(char* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_extracti32x4_epi32(bits, kLane));
  }
  CASK_TARGET static void SplitLines(const char* from, int64_t step, char* to, int64_t to_step) {
    StoreLines(Load(from), Load(from + step), Load(from + 2 * step), Load(from + 3 * step), to, to_step);
  }
  CASK_TARGET static void StorePairs(Vector a, Vector b, char* to, int64_t step) {
    const __m512i low = _mm512_permutex2var_epi64(a.bits, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), b.bits);
    const __m512i high = _mm512_permutex2var_epi64(a.bits, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), b.bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(low));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + step), _mm512_extracti64x4_epi64(low, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * step), _mm512_castsi512_si256(high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 3 * step), _mm512_extracti64x4_epi64(high, 1));
  }
  CASK_TARGET static void StoreLines(Vector a, Vector b, Vector c, Vector d, char* to, int64_t step) {
    const __m512i ab_even = _mm512_shuffle_i32x4(a.bits, b.bits, 0x88);
    const __m512i ab_odd = _mm512_shuffle_i32x4(a.bits, b.bits, 0xdd);
    const __m512i cd_even = _mm512_shuffle_i32x4(c.bits, d.bits, 0x88);
    const __m512i cd_odd = _mm512_shuffle_i32x4(c.bits, d.bits, 0xdd);
    Store(to, {_mm512_shuffle_i32x4(ab_even, cd_even, 0x88)});
    Store(to + step, {_mm512_shuffle_i32x4(ab_odd, cd_odd, 0x88)});
    Store(to + 2 * step, {_mm512_shuffle_i32x4(ab_even, cd_even, 0xdd)});
    Store(to + 3 * step, {_mm512_shuffle_i32x4(ab_odd, cd_odd, 0xdd)});
  }

  template <int kElement>
  CASK_TARGET static Vector Even(Vector a, Vector b) {
    if constexpr (kElement == 1) {
      return {
          _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(a.bits)), _mm512_cvtepi16_epi8(b.bits), 1)};
    } else {
      const __m512i even = _mm512_load_si512(kEven<kElement>.numbers);
      if constexpr (kElement == 2) return {_mm512_permutex2var_epi16(a.bits, even, b.bits)};
      if constexpr (kElement == 4) return {_mm512_permutex2var_epi32(a.bits, even, b.bits)};
      if constexpr (kElement == 8) return {_mm512_permutex2var_epi64(a.bits, even, b.bits)};
    }
  }

  CASK_TARGET static __m256i LoadThirdsOfBytes(const char* from) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(Lane::LoadThirds<1>(from).bits),
                                   Lane::LoadThirds<1>(from + 48).bits, 1);
  }
  template <int kElement>
  CASK_TARGET static Vector LoadThirds(const char* from) {
    if constexpr (kElement == 1) {
      const __m512i low = _mm512_castsi256_si512(LoadThirdsOfBytes(from));
      return {_mm512_inserti64x4(low, LoadThirdsOfBytes(from + 96), 1)};
    } else {
      const __m512i first = _mm512_load_si512(kThirds<kElement>.numbers);
      const __m512i behind = _mm512_load_si512(kThirdsBehind<kElement>.numbers);
      const __m512i a = Load(from).bits;
      const __m512i b = Load(from + kBytes).bits;
      const __m512i c = Load(from + 2 * kBytes).bits;
      if constexpr (kElement == 2) {
        return {_mm512_permutex2var_epi16(_mm512_permutex2var_epi16(a, first, b), behind, c)};
      } else if constexpr (kElement == 4) {
        return {_mm512_permutex2var_epi32(_mm512_permutex2var_epi32(a, first, b), behind, c)};
      } else {
        return {_mm512_permutex2var_epi64(_mm512_permutex2var_epi64(a, first, b), behind, c)};
      }
    }
  }

  template <int kElement>
  CASK_TARGET static Vector Reverse(Vector a) {
    const __m512i lanes = _mm512_shuffle_epi8(a.bits, _mm512_load_si512(kReversed<kElement>.numbers));
    return {_mm512_shuffle_i64x2(lanes, lanes, 0x1b)};
  }

  // The element at `from`, repeated. Loaded through a register: under the address sanitizer of GCC 12, an array on the
  // stack lacks the alignment that the vector load assumes.
  template <int kElement>
  CASK_TARGET static Vector Repeat(const char* from) {
    if constexpr (kElement == 1) return {_mm512_set1_epi8(LoadElement<char>(from))};
    if constexpr (kElement == 2) return {_mm512_set1_epi16(LoadElement<int16_t>(from))};
    if constexpr (kElement == 4) return {_mm512_set1_epi32(LoadElement<int32_t>(from))};
    if constexpr (kElement == 8) return {_mm512_set1_epi64(LoadElement<int64_t>(from))};
    if constexpr (kElement == 16)
      return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
  }
};

#include "tensorcask/tensor/strided/internal/copy_kernels_vector.inc"
// Behind the one above.
#include "tensorcask/tensor/strided/internal/copy_kernels_stream.inc"

}  // namespace

const CopyKernels kAvx512CopyKernels[5] = {kKernels<1>, kKernels<2>, kKernels<4>, kKernels<8>, kKernels<16>};

}  // namespace tensorcask::internal

#endif  // defined(__x86_64__)
