// Arithmetic on the numbers of a 32-byte register, for planes_x86.cc. Numbers have kBytes bytes: 1, 2, 4 or 8.
// Internal.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_AVX2_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_AVX2_H_

#include "tensorcask/serialize/payload/codec/planes.h"
#include "tensorcask/tensor/base/simd.h"

#if defined(__x86_64__)

#include <cstdint>

#define CASK_AVX2 __attribute__((target("avx2,popcnt")))

namespace tensorcask::internal {

using payload::NumberOrder;

CASK_AVX2 inline __m256i LoadBytes(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
CASK_AVX2 inline void StoreBytes(uint8_t* to, __m256i a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a); }

template <int kBytes>
CASK_AVX2 inline __m256i Add(__m256i a, __m256i b) {
  if constexpr (kBytes == 1) return _mm256_add_epi8(a, b);
  if constexpr (kBytes == 2) return _mm256_add_epi16(a, b);
  if constexpr (kBytes == 4) return _mm256_add_epi32(a, b);
  if constexpr (kBytes == 8) return _mm256_add_epi64(a, b);
}
template <int kBytes>
CASK_AVX2 inline __m256i Subtract(__m256i a, __m256i b) {
  if constexpr (kBytes == 1) return _mm256_sub_epi8(a, b);
  if constexpr (kBytes == 2) return _mm256_sub_epi16(a, b);
  if constexpr (kBytes == 4) return _mm256_sub_epi32(a, b);
  if constexpr (kBytes == 8) return _mm256_sub_epi64(a, b);
}
// All bits where a > b, as signed integers; else none.
template <int kBytes>
CASK_AVX2 inline __m256i Greater(__m256i a, __m256i b) {
  if constexpr (kBytes == 1) return _mm256_cmpgt_epi8(a, b);
  if constexpr (kBytes == 2) return _mm256_cmpgt_epi16(a, b);
  if constexpr (kBytes == 4) return _mm256_cmpgt_epi32(a, b);
  if constexpr (kBytes == 8) return _mm256_cmpgt_epi64(a, b);
}
template <int kBytes>
CASK_AVX2 inline __m256i IsZero(__m256i a) {
  const __m256i zero = _mm256_setzero_si256();
  if constexpr (kBytes == 1) return _mm256_cmpeq_epi8(a, zero);
  if constexpr (kBytes == 2) return _mm256_cmpeq_epi16(a, zero);
  if constexpr (kBytes == 4) return _mm256_cmpeq_epi32(a, zero);
  if constexpr (kBytes == 8) return _mm256_cmpeq_epi64(a, zero);
}
template <int kBytes>
CASK_AVX2 inline __m256i IsNegative(__m256i a) {
  return Greater<kBytes>(_mm256_setzero_si256(), a);
}
template <int kBytes>
CASK_AVX2 inline __m256i TopBit() {
  if constexpr (kBytes == 1) return _mm256_set1_epi8(INT8_MIN);
  if constexpr (kBytes == 2) return _mm256_set1_epi16(INT16_MIN);
  if constexpr (kBytes == 4) return _mm256_set1_epi32(INT32_MIN);
  if constexpr (kBytes == 8) return _mm256_set1_epi64x(INT64_MIN);
}
// Shifted right by one bit.
template <int kBytes>
CASK_AVX2 inline __m256i Halved(__m256i a) {
  if constexpr (kBytes == 1) return _mm256_and_si256(_mm256_srli_epi16(a, 1), _mm256_set1_epi8(0x7f));
  if constexpr (kBytes == 2) return _mm256_srli_epi16(a, 1);
  if constexpr (kBytes == 4) return _mm256_srli_epi32(a, 1);
  if constexpr (kBytes == 8) return _mm256_srli_epi64(a, 1);
}
// The lowest bit where the highest was, and no others.
template <int kBytes>
CASK_AVX2 inline __m256i LowestOnTop(__m256i a) {
  if constexpr (kBytes == 1) return _mm256_and_si256(_mm256_slli_epi16(a, 7), TopBit<1>());
  if constexpr (kBytes == 2) return _mm256_slli_epi16(a, 15);
  if constexpr (kBytes == 4) return _mm256_slli_epi32(a, 31);
  if constexpr (kBytes == 8) return _mm256_slli_epi64(a, 63);
}

template <int kBytes>
CASK_AVX2 inline __m256i RotateLeft(__m256i a) {
  return Subtract<kBytes>(Add<kBytes>(a, a), IsNegative<kBytes>(a));
}
template <int kBytes>
CASK_AVX2 inline __m256i RotateRight(__m256i a) {
  return _mm256_or_si256(Halved<kBytes>(a), LowestOnTop<kBytes>(a));
}

// FORMAT.md section 4: o(x), zigzag(d) and their inverses.
template <int kBytes, NumberOrder kOrder>
CASK_AVX2 inline __m256i Ordered(__m256i a) {
  if constexpr (kOrder == NumberOrder::kInteger) return a;
  return _mm256_xor_si256(a, _mm256_or_si256(IsNegative<kBytes>(a), TopBit<kBytes>()));
}
template <int kBytes, NumberOrder kOrder>
CASK_AVX2 inline __m256i Unordered(__m256i a) {
  if constexpr (kOrder == NumberOrder::kInteger) return a;
  const __m256i top_is_0 = Greater<kBytes>(a, _mm256_set1_epi8(-1));
  return _mm256_xor_si256(a, _mm256_or_si256(top_is_0, TopBit<kBytes>()));
}
template <int kBytes>
CASK_AVX2 inline __m256i Zigzag(__m256i a) {
  return _mm256_xor_si256(Add<kBytes>(a, a), IsNegative<kBytes>(a));
}
template <int kBytes>
CASK_AVX2 inline __m256i Unzigzag(__m256i a) {
  return _mm256_xor_si256(Halved<kBytes>(a), IsNegative<kBytes>(LowestOnTop<kBytes>(a)));
}

}  // namespace tensorcask::internal

#endif  // defined(__x86_64__)

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_AVX2_H_
