// Loop unrolling, registers that stay loaded and interleaving of registers, for vector kernels in .cc files that choose
// their instructions by `target`.
//
//   #define CASK_TARGET __attribute__((target("avx2")))
//   CASK_DEFINE_INTERLEAVE(CASK_TARGET)        // in the unnamed namespace of the file
//   ...
//   CASK_UNROLL
//   for (int stage = 1; stage < kRows; stage *= 2) Interleave<Vector, /*kElement=*/1, kRows>(rows);
//
// GCC inlines a function only into functions of the same instructions, so each file defines Interleave for its own.

#ifndef TENSORCASK_TENSOR_BASE_SIMD_H_
#define TENSORCASK_TENSOR_BASE_SIMD_H_

// Unrolls a loop of a constant number of iterations, at most 16.
#if defined(__clang__)
#define CASK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CASK_UNROLL _Pragma("GCC unroll 16")
#endif

// Keeps what was loaded in its register. Otherwise compilers load it again in each instruction that can read memory.
#if defined(__x86_64__)
#define CASK_KEEP_IN_REGISTER(bits) asm("" : "+v"(bits))
#elif defined(__aarch64__)
#define CASK_KEEP_IN_REGISTER(bits) asm("" : "+w"(bits))
#endif

#if defined(__x86_64__)

// GCC 12 reports the deliberately undefined registers inside its own intrinsics (its bug 105593).
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace tensorcask::internal {

// In each 16-byte lane: the elements, of kElement bytes, of the low or the high halves of a and b, alternating.
template <int kElement>
inline __m128i UnpackLow(__m128i a, __m128i b) {
  if constexpr (kElement == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (kElement == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (kElement == 4) return _mm_unpacklo_epi32(a, b);
  if constexpr (kElement == 8) return _mm_unpacklo_epi64(a, b);
}
template <int kElement>
inline __m128i UnpackHigh(__m128i a, __m128i b) {
  if constexpr (kElement == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (kElement == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (kElement == 4) return _mm_unpackhi_epi32(a, b);
  if constexpr (kElement == 8) return _mm_unpackhi_epi64(a, b);
}
template <int kElement>
__attribute__((target("avx2"))) inline __m256i UnpackLow(__m256i a, __m256i b) {
  if constexpr (kElement == 1) return _mm256_unpacklo_epi8(a, b);
  if constexpr (kElement == 2) return _mm256_unpacklo_epi16(a, b);
  if constexpr (kElement == 4) return _mm256_unpacklo_epi32(a, b);
  if constexpr (kElement == 8) return _mm256_unpacklo_epi64(a, b);
}
template <int kElement>
__attribute__((target("avx2"))) inline __m256i UnpackHigh(__m256i a, __m256i b) {
  if constexpr (kElement == 1) return _mm256_unpackhi_epi8(a, b);
  if constexpr (kElement == 2) return _mm256_unpackhi_epi16(a, b);
  if constexpr (kElement == 4) return _mm256_unpackhi_epi32(a, b);
  if constexpr (kElement == 8) return _mm256_unpackhi_epi64(a, b);
}

}  // namespace tensorcask::internal

#elif defined(__aarch64__)

#include <arm_neon.h>

namespace tensorcask::internal {

// The same in one lane.
template <int kElement>
inline uint8x16_t UnpackLow(uint8x16_t a, uint8x16_t b) {
  if constexpr (kElement == 1) return vzip1q_u8(a, b);
  if constexpr (kElement == 2)
    return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  if constexpr (kElement == 4)
    return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  if constexpr (kElement == 8)
    return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
template <int kElement>
inline uint8x16_t UnpackHigh(uint8x16_t a, uint8x16_t b) {
  if constexpr (kElement == 1) return vzip2q_u8(a, b);
  if constexpr (kElement == 2)
    return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  if constexpr (kElement == 4)
    return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  if constexpr (kElement == 8)
    return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}

}  // namespace tensorcask::internal

#endif

// Interleave<V, kElement, kLength>(list) interleaves the first half of a list of registers with the second half. That
// moves the highest bit of each element's position in the list to the lowest place; log2(n) times it transposes n rows
// of n elements, in each lane. V has UnpackLow<kElement> and UnpackHigh<kElement> as static members.
#define CASK_DEFINE_INTERLEAVE(target)                                                     \
  template <typename V, int kElement, int kLength>                                         \
  target inline void Interleave(V* list) {                                                 \
    V mixed[kLength];                                                                      \
    CASK_UNROLL                                                                            \
    for (int i = 0; i < kLength / 2; ++i) {                                                \
      mixed[2 * i] = V::template UnpackLow<kElement>(list[i], list[i + kLength / 2]);      \
      mixed[2 * i + 1] = V::template UnpackHigh<kElement>(list[i], list[i + kLength / 2]); \
    }                                                                                      \
    CASK_UNROLL                                                                            \
    for (int i = 0; i < kLength; ++i) list[i] = mixed[i];                                  \
  }

#endif  // TENSORCASK_TENSOR_BASE_SIMD_H_
