// The floating-point and small integer element types that C++ lacks. Each is a struct around its bits, as wide in
// memory as a whole number of bytes; types under a byte take one byte, value in the low bits.
//
//   bfloat16 b(1.0f);                  // round to nearest, ties to even
//   float f = static_cast<float>(b);   // exact: every value of these types is a float
//   float8_e4m3fn::FromBits(0x7f)      // NaN
//
// Names say exponent and mantissa bits; suffixes: f = finite (no infinity), n = own NaN encoding, uz = no negative
// zero, u = unsigned. Conversions to float are exact; those from float give the nearest number, ties to even.
//
//   from float           with infinity (f16, bf16,   with NaN only (fn, fnuz,   float6, float4    e8m0fnu
//                        e5m2, e4m3, e3m4)           e5m2fnuz)
//   too large, infinity  infinity                    NaN                        largest number    NaN
//   NaN                  NaN                         NaN                        -0 (0x20, 0x08)   NaN
//   -0                   -0                          -0; fnuz: +0               -0                NaN
//
// "Too large" means: rounded past the largest number. 464 becomes 448 in float8_e4m3fn, 464.1 becomes NaN. A NaN keeps
// its sign and leading payload bits if the type has room for them, and becomes quiet (bfloat16 to float: bits
// unchanged). float8_e8m0fnu holds 2^-127 to 2^127 and NaN, but no zero and no sign: zero and negative numbers give
// NaN, positive numbers below 2^-127 give 2^-127. These are the rules of ml_dtypes and TensorFlow, except for sign and
// payload of a NaN, and for e8m0fnu between 2^-127 and 2^-126: ml_dtypes gives 2^-126, this library the nearer number.
//
// Sources: IEEE 754; "FP8 Formats for Deep Learning" (arXiv 2209.05433) for e5m2 and e4m3fn; "8-bit Numerical
// Formats" (arXiv 2206.02915) for fnuz; OCP Microscaling Formats 1.0 for e8m0, float6, float4; ml_dtypes (float8.h,
// mxfloat.h) for cases that these leave open.

#ifndef TENSORCASK_TENSOR_FLOAT_TYPES_H_
#define TENSORCASK_TENSOR_FLOAT_TYPES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <type_traits>

namespace tensorcask {

// How a type encodes NaN and infinity.
enum class NonFinite {
  kIeee,        // the largest exponent holds infinities and NaNs
  kNanAllOnes,  // fn: only the pattern of all ones (either sign) is NaN; no infinity
  kNanNegZero,  // fnuz: the bits of negative zero are NaN; no infinity
  kNone,        // neither NaN nor infinity
};

// The geometry of a type. `bias` is subtracted from the stored exponent.
template <typename BitsType, int kExponent, int kMantissa, int kBiasValue, NonFinite kNonFiniteStyle, bool kSign = true>
struct FloatFormat {
  using Bits = BitsType;
  static constexpr int kExponentBits = kExponent;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kBias = kBiasValue;
  static constexpr NonFinite kNonFinite = kNonFiniteStyle;
  static constexpr bool kSigned = kSign;
};

namespace internal {
// Correctly rounded conversion, for every format below (float_types.cc).
template <typename Format>
typename Format::Bits BitsFromFloat(float value);
template <typename Format>
float FloatFromBits(typename Format::Bits bits);
}  // namespace internal

// A number of format `Format`. Trivial: copied as bytes; SmallFloat() has bits 0. Compared by value, as floats.
template <typename FormatType>
class SmallFloat {
 public:
  using Format = FormatType;
  using Bits = typename Format::Bits;
  SmallFloat() = default;
  explicit SmallFloat(float value) : bits_(internal::BitsFromFloat<Format>(value)) {}
  static constexpr SmallFloat FromBits(Bits bits) {
    SmallFloat number{};
    number.bits_ = bits;
    return number;
  }
  constexpr Bits bits() const { return bits_; }
  explicit operator float() const { return internal::FloatFromBits<Format>(bits_); }
  friend bool operator==(SmallFloat a, SmallFloat b) { return static_cast<float>(a) == static_cast<float>(b); }
  friend bool operator!=(SmallFloat a, SmallFloat b) { return !(a == b); }

 private:
  Bits bits_;
};

// A quantized integer: a separate type, so that it is not confused with a plain integer.
template <typename Int, int kTagValue>
struct TaggedInt {
  Int value;
  TaggedInt() = default;
  constexpr explicit TaggedInt(Int v) : value(v) {}
  friend constexpr bool operator==(TaggedInt a, TaggedInt b) { return a.value == b.value; }
  friend constexpr bool operator!=(TaggedInt a, TaggedInt b) { return a.value != b.value; }
};

// An integer of kBits bits in the low bits of a byte, in two's complement. The upper bits are zero in values made here,
// and ignored in bytes from outside (as in ml_dtypes' intn.h, TensorFlow's type): -1 as int4 is 0x0f.
template <typename Int, int kBitsValue>
class SubByteInt {
 public:
  static constexpr int kBits = kBitsValue;
  SubByteInt() = default;
  constexpr explicit SubByteInt(Int value) : byte_(static_cast<uint8_t>(static_cast<uint8_t>(value) & kMask)) {}
  static constexpr SubByteInt FromBits(uint8_t bits) { return SubByteInt(static_cast<Int>(bits)); }
  constexpr uint8_t bits() const { return static_cast<uint8_t>(byte_ & kMask); }
  constexpr Int value() const {
    const int sign = std::is_signed_v<Int> ? 1 << (kBits - 1) : 0;
    return static_cast<Int>((bits() ^ sign) - sign);
  }
  friend constexpr bool operator==(SubByteInt a, SubByteInt b) { return a.bits() == b.bits(); }
  friend constexpr bool operator!=(SubByteInt a, SubByteInt b) { return !(a == b); }

 private:
  static constexpr int kMask = (1 << kBits) - 1;
  uint8_t byte_;
};

using float16 = SmallFloat<FloatFormat<uint16_t, 5, 10, 15, NonFinite::kIeee>>;
using bfloat16 = SmallFloat<FloatFormat<uint16_t, 8, 7, 127, NonFinite::kIeee>>;
using BFloat16 = bfloat16;  // another spelling of the same type
using float8_e5m2 = SmallFloat<FloatFormat<uint8_t, 5, 2, 15, NonFinite::kIeee>>;
using float8_e4m3 = SmallFloat<FloatFormat<uint8_t, 4, 3, 7, NonFinite::kIeee>>;
using float8_e3m4 = SmallFloat<FloatFormat<uint8_t, 3, 4, 3, NonFinite::kIeee>>;
using float8_e4m3fn = SmallFloat<FloatFormat<uint8_t, 4, 3, 7, NonFinite::kNanAllOnes>>;
using float8_e4m3fnuz = SmallFloat<FloatFormat<uint8_t, 4, 3, 8, NonFinite::kNanNegZero>>;
using float8_e4m3b11fnuz = SmallFloat<FloatFormat<uint8_t, 4, 3, 11, NonFinite::kNanNegZero>>;
using float8_e5m2fnuz = SmallFloat<FloatFormat<uint8_t, 5, 2, 16, NonFinite::kNanNegZero>>;
using float8_e8m0fnu = SmallFloat<FloatFormat<uint8_t, 8, 0, 127, NonFinite::kNanAllOnes, /*kSign=*/false>>;
using float6_e2m3 = SmallFloat<FloatFormat<uint8_t, 2, 3, 1, NonFinite::kNone>>;
using float6_e3m2 = SmallFloat<FloatFormat<uint8_t, 3, 2, 3, NonFinite::kNone>>;
using float4_e2m1 = SmallFloat<FloatFormat<uint8_t, 2, 1, 1, NonFinite::kNone>>;

using qint8 = TaggedInt<int8_t, 11>;
using quint8 = TaggedInt<uint8_t, 12>;
using qint32 = TaggedInt<int32_t, 13>;
using qint16 = TaggedInt<int16_t, 15>;
using quint16 = TaggedInt<uint16_t, 16>;
using int4 = SubByteInt<int8_t, 4>;    // -8 ... 7
using uint4 = SubByteInt<uint8_t, 4>;  // 0 ... 15
using int2 = SubByteInt<int8_t, 2>;    // -2 ... 1
using uint2 = SubByteInt<uint8_t, 2>;  // 0 ... 3

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_FLOAT_TYPES_H_
