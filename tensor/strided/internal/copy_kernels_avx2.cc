// The kernels of copy_kernels.h in 32-byte registers. They are called only where the processor has AVX2.

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

#define CASK_TARGET __attribute__((target("avx2")))

namespace tensorcask::internal {
namespace {

// Operands of shuffles.
struct Numbers {
  alignas(32) char numbers[32] = {};
};
template <int kElement>
constexpr Numbers kReversed = [] {  // bytes of a lane: its elements, last one first
  Numbers result;
  for (int i = 0; i < 32; ++i) {
    result.numbers[i] = static_cast<char>(16 - kElement - i % 16 / kElement * kElement + i % kElement);
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
  static constexpr int64_t kBytes = 32;
  __m256i bits;

  CASK_TARGET static Vector Load(const char* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
  }
  CASK_TARGET static void Store(char* to, Vector a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a.bits); }
  CASK_TARGET static void Stream(char* to, Vector a) { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), a.bits); }
  template <int kElement>
  CASK_TARGET static Vector UnpackLow(Vector a, Vector b) {
    return {internal::UnpackLow<kElement>(a.bits, b.bits)};
  }
  template <int kElement>
  CASK_TARGET static Vector UnpackHigh(Vector a, Vector b) {
    return {internal::UnpackHigh<kElement>(a.bits, b.bits)};
  }
  template <int kLane>
  CASK_TARGET void StoreLane(char* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_extracti128_si256(bits, kLane));
  }
  CASK_TARGET static void SplitLines(const char* from, int64_t step, char* to, int64_t to_step) {
    StorePairs(Load(from), Load(from + step), to, to_step);
    StorePairs(Load(from + kBytes), Load(from + step + kBytes), to + 2 * to_step, to_step);
  }
  CASK_TARGET static void StorePairs(Vector a, Vector b, char* to, int64_t step) {
    Store(to, {_mm256_permute2x128_si256(a.bits, b.bits, 0x20)});
    Store(to + step, {_mm256_permute2x128_si256(a.bits, b.bits, 0x31)});
  }
  CASK_TARGET static void StoreLines(Vector a, Vector b, Vector c, Vector d, char* to, int64_t step) {
    Store(to, {_mm256_permute2x128_si256(a.bits, b.bits, 0x20)});
    Store(to + kBytes, {_mm256_permute2x128_si256(c.bits, d.bits, 0x20)});
    Store(to + step, {_mm256_permute2x128_si256(a.bits, b.bits, 0x31)});
    Store(to + step + kBytes, {_mm256_permute2x128_si256(c.bits, d.bits, 0x31)});
  }

  template <int kElement>
  CASK_TARGET static Vector Even(Vector a, Vector b) {
    // First within lanes, which gives the quarters in the order a, b, a, b.
    __m256i quarters = _mm256_setzero_si256();
    if constexpr (kElement == 1) {
      const __m256i low = _mm256_set1_epi16(0x00ff);
      quarters = _mm256_packus_epi16(_mm256_and_si256(a.bits, low), _mm256_and_si256(b.bits, low));
    } else if constexpr (kElement == 2) {
      const __m256i low = _mm256_set1_epi32(0x0000ffff);
      quarters = _mm256_packus_epi32(_mm256_and_si256(a.bits, low), _mm256_and_si256(b.bits, low));
    } else if constexpr (kElement == 4) {
      quarters = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a.bits), _mm256_castsi256_ps(b.bits), 0x88));
    } else {
      quarters = _mm256_unpacklo_epi64(a.bits, b.bits);
    }
    return {_mm256_permute4x64_epi64(quarters, 0xd8)};
  }

  template <int kElement>
  CASK_TARGET static Vector LoadThirds(const char* from) {
    return {_mm256_inserti128_si256(_mm256_castsi128_si256(Lane::LoadThirds<kElement>(from).bits),
                                    Lane::LoadThirds<kElement>(from + 48).bits, 1)};
  }

  template <int kElement>
  CASK_TARGET static Vector Reverse(Vector a) {
    const __m256i lanes =
        _mm256_shuffle_epi8(a.bits, _mm256_load_si256(reinterpret_cast<const __m256i*>(kReversed<kElement>.numbers)));
    return {_mm256_permute2x128_si256(lanes, lanes, 0x01)};
  }

  // The element at `from`, repeated. Loaded through a register: under the address sanitizer of GCC 12, an array on the
  // stack lacks the alignment that the vector load assumes.
  template <int kElement>
  CASK_TARGET static Vector Repeat(const char* from) {
    if constexpr (kElement == 1) return {_mm256_set1_epi8(LoadElement<char>(from))};
    if constexpr (kElement == 2) return {_mm256_set1_epi16(LoadElement<int16_t>(from))};
    if constexpr (kElement == 4) return {_mm256_set1_epi32(LoadElement<int32_t>(from))};
    if constexpr (kElement == 8) return {_mm256_set1_epi64x(LoadElement<int64_t>(from))};
    if constexpr (kElement == 16)
      return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
  }
};

#include "tensorcask/tensor/strided/internal/copy_kernels_vector.inc"
// Behind the one above.
#include "tensorcask/tensor/strided/internal/copy_kernels_stream.inc"

}  // namespace

const CopyKernels kAvx2CopyKernels[5] = {kKernels<1>, kKernels<2>, kKernels<4>, kKernels<8>, kKernels<16>};

}  // namespace tensorcask::internal

#endif  // defined(__x86_64__)
