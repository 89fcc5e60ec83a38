// The kernels of planes_kernels.h for AArch64, in registers of 16 bytes. The compiler takes operators of C++ on them.

#include "tensorcask/serialize/payload/codec/planes_kernels.h"
#include "tensorcask/serialize/payload/codec/planes_zeros.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/simd.h"

#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tensorcask::internal {
namespace {

using payload::NumberOrder;

// A register of numbers of kBytes bytes, without a sign and with one.
template <int kBytes>
struct Numbers;
template <>
struct Numbers<1> {
  using Unsigned = uint8x16_t;
  using Signed = int8x16_t;
};
template <>
struct Numbers<2> {
  using Unsigned = uint16x8_t;
  using Signed = int16x8_t;
};
template <>
struct Numbers<4> {
  using Unsigned = uint32x4_t;
  using Signed = int32x4_t;
};
template <>
struct Numbers<8> {
  using Unsigned = uint64x2_t;
  using Signed = int64x2_t;
};
template <int kBytes>
using Unsigned = typename Numbers<kBytes>::Unsigned;
template <int kBytes>
using Signed = typename Numbers<kBytes>::Signed;

// The same bits.
template <typename To, typename From>
To As(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <int kBytes>
Unsigned<kBytes> LoadNumbers(const uint8_t* from) {
  return As<Unsigned<kBytes>>(vld1q_u8(from));
}
template <typename Any>
void StoreBytes(uint8_t* to, Any a) {
  vst1q_u8(to, As<uint8x16_t>(a));
}

template <int kBytes>
constexpr int kTopShift = 8 * kBytes - 1;

// All bits where the highest is 1; else none.
template <int kBytes>
Unsigned<kBytes> IsNegative(Unsigned<kBytes> a) {
  return As<Unsigned<kBytes>>(As<Signed<kBytes>>(a) >> kTopShift<kBytes>);
}
template <int kBytes>
Unsigned<kBytes> TopBit() {
  return (Unsigned<kBytes>{} + 1) << kTopShift<kBytes>;
}
template <int kBytes>
Unsigned<kBytes> RotateLeft(Unsigned<kBytes> a) {
  return (a << 1) | (a >> kTopShift<kBytes>);
}
template <int kBytes>
Unsigned<kBytes> RotateRight(Unsigned<kBytes> a) {
  return (a >> 1) | (a << kTopShift<kBytes>);
}

// FORMAT.md section 4: o(x), zigzag(d) and their inverses.
template <int kBytes, NumberOrder kOrder>
Unsigned<kBytes> Ordered(Unsigned<kBytes> a) {
  if constexpr (kOrder == NumberOrder::kInteger) return a;
  return a ^ (IsNegative<kBytes>(a) | TopBit<kBytes>());
}
template <int kBytes, NumberOrder kOrder>
Unsigned<kBytes> Unordered(Unsigned<kBytes> a) {
  if constexpr (kOrder == NumberOrder::kInteger) return a;
  return a ^ (~IsNegative<kBytes>(a) | TopBit<kBytes>());
}
template <int kBytes>
Unsigned<kBytes> Zigzag(Unsigned<kBytes> a) {
  return (a << 1) ^ IsNegative<kBytes>(a);
}
template <int kBytes>
Unsigned<kBytes> Unzigzag(Unsigned<kBytes> a) {
  return (a >> 1) ^ IsNegative<kBytes>(a << kTopShift<kBytes>);
}

// ---- Differences ----------------------------------------------------------------------------------------------------

template <int kBytes, NumberOrder kOrder>
size_t ComputeDifferences(const uint8_t* numbers, const uint8_t* base, size_t count, uint8_t* differences) {
  constexpr size_t kNumbers = 16 / kBytes;
  size_t done = 0;
  for (; count - done >= kNumbers; done += kNumbers) {
    const auto number = Ordered<kBytes, kOrder>(LoadNumbers<kBytes>(numbers + done * kBytes));
    const auto from = Ordered<kBytes, kOrder>(LoadNumbers<kBytes>(base + done * kBytes));
    StoreBytes(differences + done * kBytes, Zigzag<kBytes>(number - from));
  }
  return done;
}

template <int kBytes, NumberOrder kOrder>
size_t AddDifferences(const uint8_t* differences, const uint8_t* base, size_t count, uint8_t* numbers) {
  constexpr size_t kNumbers = 16 / kBytes;
  size_t done = 0;
  for (; count - done >= kNumbers; done += kNumbers) {
    const auto difference = Unzigzag<kBytes>(LoadNumbers<kBytes>(differences + done * kBytes));
    const auto from = Ordered<kBytes, kOrder>(LoadNumbers<kBytes>(base + done * kBytes));
    StoreBytes(numbers + done * kBytes, Unordered<kBytes, kOrder>(from + difference));
  }
  return done;
}

// ---- Planes ---------------------------------------------------------------------------------------------------------

// The numbers of a block fill kBytes registers; afterwards each register has the 16 bytes of a plane.
constexpr size_t kBlock = 16;

struct Register {
  uint8x16_t bits;

  template <int kElement>
  static Register UnpackLow(Register a, Register b) {
    return {internal::UnpackLow<kElement>(a.bits, b.bits)};
  }
  template <int kElement>
  static Register UnpackHigh(Register a, Register b) {
    return {internal::UnpackHigh<kElement>(a.bits, b.bits)};
  }
};
CASK_DEFINE_INTERLEAVE()

// Byte 0 of the numbers, then byte 1 of each ...
template <int kBytes>
uint8x16_t GroupBytes(uint8x16_t a) {
  constexpr int kNumbers = 16 / kBytes;
  alignas(16) static constexpr auto kOrder = [] {
    struct {
      uint8_t bytes[16] = {};
    } order;
    for (int i = 0; i < 16; ++i) order.bytes[i] = static_cast<uint8_t>(i % kNumbers * kBytes + i / kNumbers);
    return order;
  }();
  return vqtbl1q_u8(a, vld1q_u8(kOrder.bytes));
}

template <int kBytes, bool kRotate>
size_t Split(const uint8_t* numbers, size_t count, uint8_t* planes) {
  size_t done = 0;
  for (; count - done >= kBlock; done += kBlock) {
    Register list[kBytes];
    CASK_UNROLL
    for (int i = 0; i < kBytes; ++i) {
      list[i].bits = vld1q_u8(numbers + done * kBytes + i * 16);
      if constexpr (kRotate) {
        list[i].bits = As<uint8x16_t>(RotateLeft<kBytes>(As<Unsigned<kBytes>>(list[i].bits)));
      }
      if constexpr (kBytes > 1) list[i].bits = GroupBytes<kBytes>(list[i].bits);
    }
    if constexpr (kBytes > 1) {
      CASK_UNROLL
      for (int stage = 1; stage < kBytes; stage *= 2) Interleave<Register, 16 / kBytes, kBytes>(list);
    }
    CASK_UNROLL
    for (int i = 0; i < kBytes; ++i) vst1q_u8(planes + i * count + done, list[i].bits);
  }
  return done;
}

template <int kBytes, bool kRotated>
size_t Join(const PlaneSource* planes, size_t count, uint8_t* numbers) {
  size_t done = 0;
  for (; count - done >= kBlock; done += kBlock) {
    Register list[kBytes];
    CASK_UNROLL
    for (int i = 0; i < kBytes; ++i) {
      list[i].bits = planes[i].bytes == nullptr ? vdupq_n_u8(planes[i].constant) : vld1q_u8(planes[i].bytes + done);
    }
    if constexpr (kBytes > 1) {
      CASK_UNROLL
      for (int stage = 1; stage < kBytes; stage *= 2) Interleave<Register, 1, kBytes>(list);
    }
    CASK_UNROLL
    for (int i = 0; i < kBytes; ++i) {
      if constexpr (kRotated) {
        list[i].bits = As<uint8x16_t>(RotateRight<kBytes>(As<Unsigned<kBytes>>(list[i].bits)));
      }
      vst1q_u8(numbers + done * kBytes + i * 16, list[i].bits);
    }
  }
  return done;
}

// ---- Zero bitmap ----------------------------------------------------------------------------------------------------

constexpr uint8_t kBitOf[8] = {1, 2, 4, 8, 16, 32, 64, 128};

// A bit for each of eight numbers: 1 if it is not 0.
template <int kBytes>
uint32_t NonzeroBits(const uint8_t* numbers) {
  uint8x8_t nonzero;
  if constexpr (kBytes == 1) {
    const uint8x8_t eight = vld1_u8(numbers);
    nonzero = vtst_u8(eight, eight);
  } else if constexpr (kBytes == 2) {
    const uint16x8_t eight = LoadNumbers<2>(numbers);
    nonzero = vmovn_u16(vtstq_u16(eight, eight));
  } else if constexpr (kBytes == 4) {
    const uint32x4_t low = LoadNumbers<4>(numbers);
    const uint32x4_t high = LoadNumbers<4>(numbers + 16);
    nonzero = vmovn_u16(vcombine_u16(vmovn_u32(vtstq_u32(low, low)), vmovn_u32(vtstq_u32(high, high))));
  } else {
    const auto two = [&](int i) {
      const uint64x2_t pair = LoadNumbers<8>(numbers + i * 16);
      return vmovn_u64(vtstq_u64(pair, pair));
    };
    nonzero = vmovn_u16(vcombine_u16(vmovn_u32(vcombine_u32(two(0), two(1))), vmovn_u32(vcombine_u32(two(2), two(3)))));
  }
  return vaddv_u8(vand_u8(nonzero, vld1_u8(kBitOf)));
}

// Moves eight numbers as `row` says. Reads and writes that many.
template <int kBytes>
void Arrange(const uint8_t* from, const uint8_t* row, uint8_t* to) {
  if constexpr (kBytes == 1) {
    vst1_u8(to, vtbl1_u8(vld1_u8(from), vld1_u8(row)));
  } else {
    constexpr int kRegisters = kBytes / 2;
    uint8x16_t numbers[kRegisters];
    CASK_UNROLL
    for (int i = 0; i < kRegisters; ++i) numbers[i] = vld1q_u8(from + i * 16);
    const uint8x16_t places = vcombine_u8(vld1_u8(row), vld1_u8(row));
    CASK_UNROLL
    for (int i = 0; i < kRegisters; ++i) {
      // For each byte of the register: the place of its number, and then that of the byte. kEmpty stays beyond them
      // all.
      alignas(16) uint8_t number_of[16];
      alignas(16) uint8_t byte_of[16];
      CASK_UNROLL
      for (int j = 0; j < 16; ++j) {
        number_of[j] = static_cast<uint8_t>(i * (16 / kBytes) + j / kBytes);
        byte_of[j] = static_cast<uint8_t>(j % kBytes);
      }
      const uint8x16_t bytes =
          vqtbl1q_u8(places, vld1q_u8(number_of)) * static_cast<uint8_t>(kBytes) + vld1q_u8(byte_of);
      uint8x16_t moved;
      if constexpr (kBytes == 2) moved = vqtbl1q_u8(numbers[0], bytes);
      if constexpr (kBytes == 4) moved = vqtbl2q_u8({{numbers[0], numbers[1]}}, bytes);
      if constexpr (kBytes == 8) moved = vqtbl4q_u8({{numbers[0], numbers[1], numbers[2], numbers[3]}}, bytes);
      vst1q_u8(to + i * 16, moved);
    }
  }
}

template <int kSize>
struct Step {
  static constexpr size_t kBytes = kSize;
  static constexpr size_t kNumbers = 8;

  static size_t Compact(const uint8_t* numbers, uint8_t* mask, uint8_t* dense) {
    const uint32_t bits = NonzeroBits<kSize>(numbers);
    *mask = static_cast<uint8_t>(bits);
    Arrange<kSize>(numbers, kDense.rows[bits], dense);
    return static_cast<size_t>(__builtin_popcount(bits));
  }
  static size_t PutBack(const uint8_t* mask, const uint8_t* dense, uint8_t* numbers) {
    Arrange<kSize>(dense, kSparse.rows[*mask], numbers);
    return static_cast<size_t>(__builtin_popcount(*mask));
  }
};

template <int kBytes>
CountedBlocks CompactNonzeros(const uint8_t* numbers, size_t count, uint8_t* mask, uint8_t* dense) {
  return CompactSteps<Step<kBytes>>(numbers, count, mask, dense);
}
template <int kBytes>
CountedBlocks ExpandZeros(const uint8_t* mask, const uint8_t* dense, size_t dense_count, size_t count,
                          uint8_t* numbers) {
  return PutSteps<Step<kBytes>>(mask, dense, dense_count, count, numbers);
}

template <int kBytes>
CountedBlocks CountZeros(const uint8_t* numbers, size_t count) {
  constexpr size_t kNumbers = 16 / kBytes;
  size_t zero_bytes = 0;
  size_t done = 0;
  for (; count - done >= kNumbers; done += kNumbers) {
    const auto is_zero = As<uint8x16_t>(LoadNumbers<kBytes>(numbers + done * kBytes) == 0);
    zero_bytes += vaddvq_u8(is_zero & 1);
  }
  return {done, done - zero_bytes / kBytes};
}

// ---- Bits -----------------------------------------------------------------------------------------------------------

size_t PackBools(const uint8_t* bools, size_t count, uint8_t* bits, uint8_t* seen) {
  const uint8x8_t bit_of = vld1_u8(kBitOf);
  uint8x8_t all = vdup_n_u8(0);
  size_t done = 0;
  for (; count - done >= 8; done += 8) {
    const uint8x8_t bytes = vld1_u8(bools + done);
    all = vorr_u8(all, bytes);
    bits[done / 8] = vaddv_u8(vand_u8(vtst_u8(bytes, vdup_n_u8(1)), bit_of));
  }
  uint8_t each[8];
  vst1_u8(each, all);
  for (const uint8_t byte : each) *seen |= byte;
  return done;
}

size_t UnpackBools(const uint8_t* bits, size_t count, uint8_t* bools) {
  const uint8x8_t bit_of = vld1_u8(kBitOf);
  size_t done = 0;
  for (; count - done >= 8; done += 8) {
    vst1_u8(bools + done, vshr_n_u8(vtst_u8(vdup_n_u8(bits[done / 8]), bit_of), 7));
  }
  return done;
}

size_t CountBits(const uint8_t* bytes, size_t size) {
  size_t bits = 0;
  size_t done = 0;
  for (; size - done >= 16; done += 16) bits += vaddlvq_u8(vcntq_u8(vld1q_u8(bytes + done)));
  for (; done < size; ++done) bits += static_cast<size_t>(__builtin_popcount(bytes[done]));
  return bits;
}

// ---- Choice ---------------------------------------------------------------------------------------------------------

constexpr NumberOrder kFloat = NumberOrder::kFloat;
constexpr NumberOrder kInteger = NumberOrder::kInteger;
template <int kBytes>
constexpr BlockKernels kKernels = {
    {Split<kBytes, false>, Split<kBytes, true>},
    {{Join<kBytes, false>, Join<kBytes, false>}, {Join<kBytes, true>, Join<kBytes, true>}},
    CompactNonzeros<kBytes>,
    ExpandZeros<kBytes>,
    CountZeros<kBytes>,
    {ComputeDifferences<kBytes, kFloat>, ComputeDifferences<kBytes, kInteger>},
    {AddDifferences<kBytes, kFloat>, AddDifferences<kBytes, kInteger>},
    PackBools,
    UnpackBools,
    CountBits,
};
constexpr BlockKernels kAllKernels[4] = {kKernels<1>, kKernels<2>, kKernels<4>, kKernels<8>};

}  // namespace

const BlockKernels* FindBlockKernels(int number_bytes) {
  if (!GetCpuFeatures().neon) return nullptr;
  return &kAllKernels[__builtin_ctz(static_cast<unsigned>(number_bytes))];
}

}  // namespace tensorcask::internal

#endif  // defined(__aarch64__)
