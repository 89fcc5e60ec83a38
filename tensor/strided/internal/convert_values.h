// The rules of convert.h for one value. The functions have no branches, so loops over them become vector code.
// Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_VALUES_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_VALUES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/float_types_inl.h"

namespace tensorcask::internal {

// The bits of a float or double.
template <typename Float>
struct FloatBitsOf {
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  static constexpr int kMantissaBits = std::numeric_limits<Float>::digits - 1;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(Float) - 1);
  static constexpr Bits kInfinity = kSign - (Bits{1} << kMantissaBits);
  static constexpr Bits PowerOfTwo(int exponent) {
    return static_cast<Bits>(std::numeric_limits<Float>::max_exponent - 1 + exponent) << kMantissaBits;
  }
};

// `value` or 0, by a mask.
template <typename Bits>
constexpr Bits ZeroUnless(bool condition, Bits value) {
  return value & (condition ? ~Bits{0} : Bits{0});
}

// Rounds towards zero. Values outside the range become the largest or the smallest integer, and NaN becomes 0.
template <typename Int, typename Float>
Int Truncated(Float value) {
  using Layout = FloatBitsOf<Float>;
  using Bits = typename Layout::Bits;
  constexpr Bits kLimit = Layout::PowerOfTwo(std::numeric_limits<Int>::digits);  // the largest Int, and 1
  Bits bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const Bits sign = std::is_signed_v<Int> ? bits & Layout::kSign : 0;
  // As bits, NaN is above infinity, and so is a negative number if the type is unsigned.
  const Bits magnitude = ZeroUnless((bits ^ sign) <= Layout::kInfinity, bits ^ sign);
  const auto number_of = [&](Bits magnitude) {
    const Bits number_bits = sign | magnitude;
    Float number;
    std::memcpy(&number, &number_bits, sizeof(number));
    return number;
  };
  if constexpr (sizeof(Int) < sizeof(int32_t)) {  // there are vector casts to int32
    const auto number = static_cast<int32_t>(number_of(std::min(magnitude, kLimit)));
    return static_cast<Int>(std::min(number, static_cast<int32_t>(std::numeric_limits<Int>::max())));
  } else {
    // Clamped to the largest number that can be cast.
    const auto number = static_cast<Int>(number_of(std::min(magnitude, kLimit - 1)));
    const Int extreme = sign != 0 ? std::numeric_limits<Int>::min() : std::numeric_limits<Int>::max();
    return magnitude >= kLimit ? extreme : number;
  }
}

template <typename To, typename From>
To Saturated(From value) {
  constexpr auto kLargest = static_cast<From>(std::numeric_limits<To>::max());
  constexpr From kSmallest{std::numeric_limits<To>::min()};
  return static_cast<To>(std::min(std::max(value, kSmallest), kLargest));
}

// A float rounded to odd: towards zero, then the last bit set if something was lost. Infinity and NaN stay.
inline float OddFloat(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  const bool exact = back == value || value != value;
  const bool away = std::abs(back) > std::abs(value);  // also of a finite value that became infinite
  const uint32_t bits = FloatBits(nearest);
  return FloatOfBits(Select(exact, bits, (bits - (away ? 1 : 0)) | 1));
}

// A double that is exact, or rounded to odd for targets of at most 50 bits.
template <typename Int>
double OddDouble(Int value) {
  constexpr int kDropped = 11;
  constexpr Int kExact = Int{1} << 53;
  bool large = value > kExact;
  if constexpr (std::is_signed_v<Int>) large |= value < -kExact;
  const Int lost = value & ((Int{1} << kDropped) - 1);
  const Int kept = (value >> kDropped) | static_cast<Int>(lost != 0);
  const Int number = large ? kept : value;
  return static_cast<double>(number) * (large ? double{1 << kDropped} : 1.0);
}

// The nearest small float. A value that is too large becomes infinity if the type has it, else the largest number.
template <typename T>
T NearestSmallFloat(float value) {
  using Format = typename T::Format;
  uint32_t bits = FloatBits(value);
  if constexpr (std::is_same_v<T, bfloat16>) {  // the same in fewer steps: the upper half of a float
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const uint32_t quiet = bits | kFloatQuietBit;
    const bool is_nan = (bits & ~kFloatSignBit) > kFloatInfinity;
    return bfloat16::FromBits(static_cast<uint16_t>(Select(is_nan, quiet, rounded) >> 16));
  }
  if constexpr (Format::kNonFinite == NonFinite::kNanAllOnes || Format::kNonFinite == NonFinite::kNanNegZero) {
    const uint32_t sign = Format::kSigned ? bits & kFloatSignBit : 0;
    const uint32_t magnitude = bits ^ sign;  // the negative of an unsigned type is past infinity
    uint32_t largest_bits = 0xfe;            // e8m0: 0xff is NaN
    if constexpr (Format::kSigned) largest_bits = FloatLayout<Format>::kMaxFinite;
    const uint32_t largest = FloatBits(FloatFromBitsInline<Format>(static_cast<typename Format::Bits>(largest_bits)));
    bits = sign | Select(magnitude <= kFloatInfinity, std::min(magnitude, largest), magnitude);
  }
  return T::FromBits(BitsFromFloatInline<Format>(FloatOfBits(bits)));
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_VALUES_H_
