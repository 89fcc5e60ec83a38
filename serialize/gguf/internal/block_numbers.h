// What the decoders of blocks share: halves, little-endian integers, and the loop over blocks.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_BLOCK_NUMBERS_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_BLOCK_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::gguf {

// GCC unrolls short loops before it looks for vectors in them, and then finds none.
#if defined(__clang__)
#define CASK_KEEP_LOOP
#else
#define CASK_KEEP_LOOP _Pragma("GCC unroll 1")
#endif

// The value of half-precision bits. float16 (tensor/float_types.h) gives the same; this one is compiled into the loops
// of the decoders.
inline float HalfValue(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  uint32_t result;
  if (magnitude >= 0x7c00) {  // infinity or NaN, which becomes quiet
    result = 0x7f800000 | (magnitude & 0x3ff) << 13 | (magnitude > 0x7c00 ? 0x400000 : 0);
  } else if (magnitude >= 0x400) {
    result = (magnitude << 13) + (uint32_t{127 - 15} << 23);
  } else {  // below the normal numbers: a multiple of 2^-24, exact in float32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    std::memcpy(&result, &value, sizeof result);
  }
  result |= sign;
  float value;
  std::memcpy(&value, &result, sizeof value);
  return value;
}

inline float HalfAt(const uint8_t* bytes) { return HalfValue(LoadLittleEndian<uint16_t>(bytes)); }

inline float SignedByte(uint8_t byte) { return static_cast<float>(static_cast<int8_t>(byte)); }

#if defined(__x86_64__)
// ForEachBlock with registers of 32 bytes. All that `one` calls is inlined, so the compiler makes both loops of the
// same text: the numbers have the same bits, because no multiplication is fused with an addition.
template <size_t kBytes, size_t kElements, typename One>
__attribute__((target("avx2"), flatten, noinline)) void ForEachBlockAvx2(const uint8_t* blocks, size_t count,
                                                                         float* out, One one) {
  for (size_t i = 0; i < count; ++i) one(blocks + i * kBytes, out + i * kElements);
}
#endif

// Calls one(block, out) for each of `count` blocks of kBytes bytes and kElements elements.
template <size_t kBytes, size_t kElements, typename One>
inline void ForEachBlock(const uint8_t* blocks, size_t count, float* out, One one) {
#if defined(__x86_64__)
  if (GetCpuFeatures().avx2) return ForEachBlockAvx2<kBytes, kElements>(blocks, count, out, one);
#endif
  for (size_t i = 0; i < count; ++i) one(blocks + i * kBytes, out + i * kElements);
}

// The values of the codes of iq4_nl and iq4_xs.
inline constexpr int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Twice the values of the codes of a float4 (E2M1), as ggml has them: code 8 is +0.
inline constexpr int8_t kTwiceFloat4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_BLOCK_NUMBERS_H_
