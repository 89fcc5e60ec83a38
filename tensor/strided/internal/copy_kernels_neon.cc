// The kernels of copy_kernels.h for AArch64, in registers of 16 bytes.

#include "tensorcask/tensor/base/simd.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"

#if defined(__aarch64__)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define CASK_TARGET  // every processor has these instructions

namespace tensorcask::internal {
namespace {

// The bytes of elements with the numbers 0, 3, 6 ...
template <int kElement>
constexpr std::array<uint8_t, 16> kThirds = [] {
  std::array<uint8_t, 16> bytes = {};
  for (size_t i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(i / kElement * 3 * kElement + i % kElement);
  return bytes;
}();

// The bytes of three registers, one after the other, whose elements take turns in three others.
template <int kElement>
constexpr std::array<uint8_t, 48> kTurns = [] {
  std::array<uint8_t, 48> bytes = {};
  for (size_t i = 0; i < 48; ++i) {
    const size_t element = i / kElement;
    bytes[i] = static_cast<uint8_t>(element % 3 * 16 + element / 3 * kElement + i % kElement);
  }
  return bytes;
}();

struct Vector {
  static constexpr int64_t kBytes = 16;
  uint8x16_t bits;

  static Vector Load(const char* from) { return {vld1q_u8(reinterpret_cast<const uint8_t*>(from))}; }
  // The first kPiece bytes; the others are zeros.
  template <int kPiece>
  static Vector LoadPiece(const char* from) {
    if constexpr (kPiece == 16) return Load(from);
    uint64_t piece = 0;
    std::memcpy(&piece, from, kPiece <= 8 ? kPiece : 8);
    return {vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(piece), vcreate_u64(0)))};
  }
  static void Store(char* to, Vector a) { vst1q_u8(reinterpret_cast<uint8_t*>(to), a.bits); }
  template <int kElement>
  static Vector UnpackLow(Vector a, Vector b) {
    return {internal::UnpackLow<kElement>(a.bits, b.bits)};
  }
  template <int kElement>
  static Vector UnpackHigh(Vector a, Vector b) {
    return {internal::UnpackHigh<kElement>(a.bits, b.bits)};
  }
  template <int kLane>
  void StoreLane(char* to) const {
    static_assert(kLane == 0);
    Store(to, *this);
  }
  // Bytes i * kPiece and on.
  template <int kPiece, int i>
  void StorePiece(char* to) const {
    if constexpr (kPiece == 4) {
      const uint32_t piece = vgetq_lane_u32(vreinterpretq_u32_u8(bits), i);
      std::memcpy(to, &piece, sizeof(piece));
    }
    if constexpr (kPiece == 16) Store(to, *this);
    if constexpr (kPiece == 8) {
      const uint64_t piece = vgetq_lane_u64(vreinterpretq_u64_u8(bits), i);
      std::memcpy(to, &piece, sizeof(piece));
    }
  }
  static void StorePairs(Vector a, Vector b, char* to, int64_t) {
    Store(to, a);
    Store(to + kBytes, b);
  }
  static void StoreLines(Vector a, Vector b, Vector c, Vector d, char* to, int64_t) {
    Store(to, a);
    Store(to + kBytes, b);
    Store(to + 2 * kBytes, c);
    Store(to + 3 * kBytes, d);
  }

  template <int kElement>
  static Vector Even(Vector a, Vector b) {
    if constexpr (kElement == 1) return {vuzp1q_u8(a.bits, b.bits)};
    if constexpr (kElement == 2) {
      return {vreinterpretq_u8_u16(vuzp1q_u16(vreinterpretq_u16_u8(a.bits), vreinterpretq_u16_u8(b.bits)))};
    }
    if constexpr (kElement == 4) {
      return {vreinterpretq_u8_u32(vuzp1q_u32(vreinterpretq_u32_u8(a.bits), vreinterpretq_u32_u8(b.bits)))};
    }
    if constexpr (kElement == 8) {
      return {vreinterpretq_u8_u64(vuzp1q_u64(vreinterpretq_u64_u8(a.bits), vreinterpretq_u64_u8(b.bits)))};
    }
  }

  template <int kElement>
  static void StoreTurns(Vector a, Vector b, Vector c, char* to) {
    const uint8x16x3_t all = {{a.bits, b.bits, c.bits}};
    CASK_UNROLL
    for (int i = 0; i < 3; ++i) Store(to + 16 * i, {vqtbl3q_u8(all, vld1q_u8(kTurns<kElement>.data() + 16 * i))});
  }
  template <int kElement>
  static Vector LoadThirds(const char* from) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(from);
    if constexpr (kElement == 1) return {vld3q_u8(bytes).val[0]};
    // As bytes, because typed loads assume the alignment of their type.
    const uint8x16x3_t all = {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32)}};
    return {vqtbl3q_u8(all, vld1q_u8(kThirds<kElement>.data()))};
  }

  template <int kElement>
  static Vector Reverse(Vector a) {
    if constexpr (kElement == 16) return a;
    // In each half, then the halves.
    uint8x16_t halves = a.bits;
    if constexpr (kElement == 1) halves = vrev64q_u8(halves);
    if constexpr (kElement == 2) halves = vreinterpretq_u8_u16(vrev64q_u16(vreinterpretq_u16_u8(halves)));
    if constexpr (kElement == 4) halves = vreinterpretq_u8_u32(vrev64q_u32(vreinterpretq_u32_u8(halves)));
    return {vextq_u8(halves, halves, 8)};
  }

  template <int kElement>
  static Vector Repeat(const char* from) {
    const auto load = [from](auto element) {
      std::memcpy(&element, from, sizeof(element));
      return element;
    };
    if constexpr (kElement == 1) return {vdupq_n_u8(load(uint8_t{}))};
    if constexpr (kElement == 2) return {vreinterpretq_u8_u16(vdupq_n_u16(load(uint16_t{})))};
    if constexpr (kElement == 4) return {vreinterpretq_u8_u32(vdupq_n_u32(load(uint32_t{})))};
    if constexpr (kElement == 8) return {vreinterpretq_u8_u64(vdupq_n_u64(load(uint64_t{})))};
    if constexpr (kElement == 16) return Load(from);
  }
};

#include "tensorcask/tensor/strided/internal/copy_kernels_vector.inc"

template <int kElement>
constexpr CopyKernels kKernels = {
    CopyElements<kElement>, Transpose<kElement>, Gather<kElement>, Rows, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

const CopyKernels kNeonCopyKernels[5] = {kKernels<1>, kKernels<2>, kKernels<4>, kKernels<8>, kKernels<16>};

}  // namespace tensorcask::internal

#endif  // defined(__aarch64__)
