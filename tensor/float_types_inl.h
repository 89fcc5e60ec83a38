// Bodies of the conversions declared in float_types.h, for code that converts many numbers in a loop. Inlined, they
// have selections but no branches, so the loops become vector code. Other code uses the types.
//
// Requires the default rounding mode (to nearest). Flushing of subnormal numbers to zero does no harm.

#ifndef TENSORCASK_TENSOR_FLOAT_TYPES_INL_H_
#define TENSORCASK_TENSOR_FLOAT_TYPES_INL_H_

#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/float_types.h"

namespace tensorcask::internal {

inline constexpr uint32_t kFloatInfinity = 0x7f800000;
inline constexpr uint32_t kFloatQuietBit = 0x00400000;
inline constexpr uint32_t kFloatSignBit = 0x80000000;

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// 2^exponent, as the bits of a float. Requires: -126 <= exponent <= 127.
constexpr uint32_t FloatBitsOfPowerOfTwo(int exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }

// condition ? a : b. By a mask: compilers turn ?: into a branch when one side was computed in floating point.
constexpr uint32_t Select(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = condition ? ~uint32_t{0} : 0;
  return (a & mask) | (b & ~mask);
}

// The constants of a signed format: the bits of sign, infinity and NaN, and the largest finite number.
template <typename Format>
struct FloatLayout {
  static constexpr int kSignShift = Format::kExponentBits + Format::kMantissaBits;
  static constexpr uint32_t kMagnitudeMask = (1u << kSignShift) - 1;
  static constexpr uint32_t kExponentMask = ((1u << Format::kExponentBits) - 1) << Format::kMantissaBits;
  // As wide an exponent as float: subnormals of the format are then subnormals of float, with the same bits.
  static constexpr bool kFloatExponent = Format::kExponentBits == 8 && Format::kBias == 127;
  static constexpr uint32_t kMaxFinite = Format::kNonFinite == NonFinite::kIeee         ? kExponentMask - 1
                                         : Format::kNonFinite == NonFinite::kNanAllOnes ? kMagnitudeMask - 1
                                                                                        : kMagnitudeMask;
};

// The nearest number of a signed format, ties to even. float_types.h defines the results for NaN and for large numbers.
template <typename Format>
uint32_t SignedBitsFromFloat(float value) {
  using Layout = FloatLayout<Format>;
  constexpr int kDropped = 23 - Format::kMantissaBits;  // mantissa bits that the format lacks
  const uint32_t bits = FloatBits(value);
  const uint32_t sign = (bits >> 31) << Layout::kSignShift;
  const uint32_t magnitude = bits & ~kFloatSignBit;

  // Rounds in the integer: a carry out of the mantissa raises the exponent, as it should.
  const uint32_t odd = (magnitude >> kDropped) & 1;
  uint32_t rounded = ((magnitude + ((1u << (kDropped - 1)) - 1) + odd) >> kDropped) -
                     (static_cast<uint32_t>(127 - Format::kBias) << Format::kMantissaBits);
  if constexpr (!Layout::kFloatExponent) {
    // Below the smallest normal number: added to a number whose last bit is worth one step of the format's
    // subnormals, the value is rounded to such steps by the processor.
    constexpr uint32_t kSmallestNormal = FloatBitsOfPowerOfTwo(1 - Format::kBias);
    constexpr uint32_t kStepper = FloatBitsOfPowerOfTwo(24 - Format::kBias - Format::kMantissaBits);
    const uint32_t steps = FloatBits(FloatOfBits(magnitude) + FloatOfBits(kStepper)) - kStepper;
    rounded = Select(magnitude < kSmallestNormal, steps, rounded);
  }

  if constexpr (Format::kNonFinite == NonFinite::kIeee) {
    constexpr uint32_t kQuietBit = 1u << (Format::kMantissaBits - 1);
    const uint32_t nan = Layout::kExponentMask | kQuietBit | ((magnitude & 0x007fffff) >> kDropped);
    const uint32_t finite_or_infinite = Select(rounded > Layout::kMaxFinite, Layout::kExponentMask, rounded);
    return sign | Select(magnitude > kFloatInfinity, nan, finite_or_infinite);
  } else if constexpr (Format::kNonFinite == NonFinite::kNanAllOnes) {
    return sign | Select(rounded > Layout::kMaxFinite, Layout::kMagnitudeMask, rounded);
  } else if constexpr (Format::kNonFinite == NonFinite::kNanNegZero) {
    constexpr uint32_t kNan = 1u << Layout::kSignShift;
    const uint32_t finite = Select(rounded == 0, 0, sign | rounded);  // there is no negative zero
    return Select(rounded > Layout::kMaxFinite, kNan, finite);
  } else {
    constexpr uint32_t kNegativeZero = 1u << Layout::kSignShift;
    const uint32_t saturated = sign | Select(rounded > Layout::kMaxFinite, Layout::kMaxFinite, rounded);
    return Select(magnitude > kFloatInfinity, kNegativeZero, saturated);
  }
}

// The same for e8m0, whose bits are the exponent of a float: no sign, no zero, no mantissa.
inline uint32_t PowerOfTwoBitsFromFloat(float value) {
  constexpr uint32_t kNan = 0xff;
  const uint32_t bits = FloatBits(value);
  const uint32_t odd = (bits >> 23) & 1;
  const uint32_t nearest = (bits + 0x003fffff + odd) >> 23;
  // 0 stands for 2^-127, a subnormal float; 1.5 x 2^-127 is the tie between 0 and 1.
  const uint32_t smallest = bits > 0x00600000 ? 1 : 0;
  const uint32_t finite = Select(bits < 0x00800000, smallest, nearest);
  const bool positive = bits - 1 < kFloatInfinity - 1;  // neither zero nor negative, infinite or NaN
  return Select(positive, finite, kNan);                // rounding up past 2^127 gives 0xff by itself
}

template <typename Format>
inline typename Format::Bits BitsFromFloatInline(float value) {
  using Bits = typename Format::Bits;
  if constexpr (Format::kSigned) {
    return static_cast<Bits>(SignedBitsFromFloat<Format>(value));
  } else {
    static_assert(Format::kExponentBits == 8 && Format::kMantissaBits == 0 && Format::kBias == 127,
                  "e8m0 is the only unsigned format");
    return static_cast<Bits>(PowerOfTwoBitsFromFloat(value));
  }
}

template <typename Format>
inline float FloatFromBitsInline(typename Format::Bits bits) {
  using Layout = FloatLayout<Format>;
  if constexpr (!Format::kSigned) {
    const uint32_t power = bits == 0 ? kFloatQuietBit : static_cast<uint32_t>(bits) << 23;  // 2^-127 is subnormal
    return FloatOfBits(bits == 0xff ? kFloatInfinity | kFloatQuietBit : power);
  } else if constexpr (Layout::kFloatExponent) {
    return FloatOfBits(static_cast<uint32_t>(bits) << (23 - Format::kMantissaBits));
  } else {
    const uint32_t magnitude = bits & Layout::kMagnitudeMask;
    const uint32_t sign = static_cast<uint32_t>((bits >> Layout::kSignShift) & 1) << 31;
    const uint32_t mantissa = magnitude << (23 - Format::kMantissaBits);
    const uint32_t normal = mantissa + (static_cast<uint32_t>(127 - Format::kBias) << 23);
    // A count of the smallest steps, exact in float.
    constexpr uint32_t kStep = FloatBitsOfPowerOfTwo(1 - Format::kBias - Format::kMantissaBits);
    const uint32_t subnormal = FloatBits(static_cast<float>(static_cast<int32_t>(magnitude)) * FloatOfBits(kStep));
    const uint32_t finite = sign | Select(magnitude < (1u << Format::kMantissaBits), subnormal, normal);
    constexpr uint32_t kNan = kFloatInfinity | kFloatQuietBit;
    if constexpr (Format::kNonFinite == NonFinite::kIeee) {
      const uint32_t quiet = Select(magnitude > Layout::kExponentMask, kFloatQuietBit, 0);
      const uint32_t non_finite = sign | kFloatInfinity | quiet | (mantissa & 0x007fffff);
      return FloatOfBits(Select(magnitude > Layout::kMaxFinite, non_finite, finite));
    } else if constexpr (Format::kNonFinite == NonFinite::kNanAllOnes) {
      return FloatOfBits(Select(magnitude > Layout::kMaxFinite, sign | kNan, finite));
    } else if constexpr (Format::kNonFinite == NonFinite::kNanNegZero) {
      return FloatOfBits(Select(finite == kFloatSignBit, kNan, finite));
    } else {
      return FloatOfBits(finite);
    }
  }
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_FLOAT_TYPES_INL_H_
