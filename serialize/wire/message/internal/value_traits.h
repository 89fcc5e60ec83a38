// How the elements of each dtype are stored in the typed fields of TensorProto (FORMAT.md section 2.2). Internal.
//
// ValueTraits<T> for the element type T of each of TensorFlow's fixed-size dtypes has
//
//   Scalar          what an element is in memory; complex numbers are kScalars = 2 of them
//   Value           the C++ type of the field
//   kField, kForm   the field with the values, and their form on the wire
//   FromVarint(n)   the value that protobuf makes of a number on the wire
//   kAllFit         whether the dtype has every value; else it has those from kLeast to kMost
//   FromValue(v)    the scalar; the low bits of a value that does not fit
//   ToValue(s)      the inverse
//
// Floats are handled as bits, so that no NaN passes through a floating-point register, which could change its bits.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_INTERNAL_VALUE_TRAITS_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_INTERNAL_VALUE_TRAITS_H_

#include <complex>
#include <cstdint>
#include <type_traits>

#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

enum class ValueForm : uint8_t { kFixed, kVarint, kByte };

// Scalars with the same bits as the values of the field.
template <typename Bits, ValueField kFieldValue, ValueForm kFormValue, int kScalarsValue = 1>
struct PlainTraits {
  using Scalar = Bits;
  using Value = Bits;
  static constexpr ValueField kField = kFieldValue;
  static constexpr ValueForm kForm = kFormValue;
  static constexpr int kScalars = kScalarsValue;
  static constexpr bool kAllFit = true;
  static constexpr Value FromVarint(uint64_t number) { return static_cast<Value>(number); }
  static constexpr Scalar FromValue(Value value) { return value; }
  static constexpr Value ToValue(Scalar scalar) { return scalar; }
};

// Integers of kBits bits, in a field of int32.
template <typename Int, int kBits, ValueField kFieldValue = ValueField::kInt>
struct NarrowTraits {
  using Scalar = Int;
  using Value = int32_t;
  static constexpr ValueField kField = kFieldValue;
  static constexpr ValueForm kForm = ValueForm::kVarint;
  static constexpr int kScalars = 1;
  static constexpr bool kAllFit = false;
  static constexpr Value FromVarint(uint64_t number) { return static_cast<Value>(number); }
  static constexpr Value kLeast = std::is_signed_v<Int> ? -(1 << (kBits - 1)) : 0;
  static constexpr Value kMost = kLeast + (1 << kBits) - 1;
  // The low bits, sign-extended.
  static constexpr Scalar FromValue(Value value) {
    constexpr int kUnused = 32 - kBits;
    const uint32_t shifted = static_cast<uint32_t>(value) << kUnused;
    if constexpr (std::is_signed_v<Int>) {
      return static_cast<Int>(static_cast<int32_t>(shifted) >> kUnused);
    } else {
      return static_cast<Int>(shifted >> kUnused);
    }
  }
  static constexpr Value ToValue(Scalar scalar) { return FromValue(scalar); }
};

// True if kLeast and kMost are the ends of what FromValue leaves as it is.
template <typename Traits>
constexpr bool HasRange() {
  const auto fits = [](int32_t value) { return Traits::FromValue(value) == value; };
  return fits(Traits::kLeast) && !fits(Traits::kLeast - 1) && fits(Traits::kMost) && !fits(Traits::kMost + 1);
}
static_assert(HasRange<NarrowTraits<int16_t, 16>>() && HasRange<NarrowTraits<uint16_t, 16>>());
static_assert(HasRange<NarrowTraits<int8_t, 8>>() && HasRange<NarrowTraits<uint8_t, 8>>());
static_assert(HasRange<NarrowTraits<int8_t, 4>>() && HasRange<NarrowTraits<uint8_t, 4>>());
static_assert(HasRange<NarrowTraits<int8_t, 2>>() && HasRange<NarrowTraits<uint8_t, 2>>());

// An element smaller than a byte: the low bits of the value. The unused bits of its byte, which may be anything, are
// ignored.
template <typename Int, int kBits>
struct SubByteTraits : NarrowTraits<Int, kBits> {
  using Scalar = uint8_t;
  using typename NarrowTraits<Int, kBits>::Value;
  static constexpr Scalar FromValue(Value value) { return static_cast<Scalar>(value & ((1 << kBits) - 1)); }
  static constexpr Value ToValue(Scalar scalar) { return NarrowTraits<Int, kBits>::FromValue(scalar); }
};

struct BoolTraits : PlainTraits<uint8_t, ValueField::kBool, ValueForm::kVarint> {
  static constexpr Value FromVarint(uint64_t number) { return number != 0; }
  static constexpr Value ToValue(Scalar scalar) { return scalar != 0; }
};

using BitsTraits = NarrowTraits<uint16_t, 16, ValueField::kHalf>;
using ByteTraits = PlainTraits<uint8_t, ValueField::kFloat8, ValueForm::kByte>;

template <typename T>
struct ValueTraits {};  // empty for dtypes that TensorFlow does not have
template <>
struct ValueTraits<float> : PlainTraits<uint32_t, ValueField::kFloat, ValueForm::kFixed> {};
template <>
struct ValueTraits<double> : PlainTraits<uint64_t, ValueField::kDouble, ValueForm::kFixed> {};
template <>
struct ValueTraits<std::complex<float>> : PlainTraits<uint32_t, ValueField::kScomplex, ValueForm::kFixed, 2> {};
template <>
struct ValueTraits<std::complex<double>> : PlainTraits<uint64_t, ValueField::kDcomplex, ValueForm::kFixed, 2> {};
template <>
struct ValueTraits<int64_t> : PlainTraits<int64_t, ValueField::kInt64, ValueForm::kVarint> {};
template <>
struct ValueTraits<uint64_t> : PlainTraits<uint64_t, ValueField::kUint64, ValueForm::kVarint> {};
template <>
struct ValueTraits<uint32_t> : PlainTraits<uint32_t, ValueField::kUint32, ValueForm::kVarint> {};
template <>
struct ValueTraits<int32_t> : PlainTraits<int32_t, ValueField::kInt, ValueForm::kVarint> {};
template <>
struct ValueTraits<qint32> : PlainTraits<int32_t, ValueField::kInt, ValueForm::kVarint> {};
template <>
struct ValueTraits<int16_t> : NarrowTraits<int16_t, 16> {};
template <>
struct ValueTraits<qint16> : NarrowTraits<int16_t, 16> {};
template <>
struct ValueTraits<uint16_t> : NarrowTraits<uint16_t, 16> {};
template <>
struct ValueTraits<quint16> : NarrowTraits<uint16_t, 16> {};
template <>
struct ValueTraits<int8_t> : NarrowTraits<int8_t, 8> {};
template <>
struct ValueTraits<qint8> : NarrowTraits<int8_t, 8> {};
template <>
struct ValueTraits<uint8_t> : NarrowTraits<uint8_t, 8> {};
template <>
struct ValueTraits<quint8> : NarrowTraits<uint8_t, 8> {};
template <>
struct ValueTraits<int4> : SubByteTraits<int8_t, 4> {};
template <>
struct ValueTraits<uint4> : SubByteTraits<uint8_t, 4> {};
template <>
struct ValueTraits<int2> : SubByteTraits<int8_t, 2> {};
template <>
struct ValueTraits<uint2> : SubByteTraits<uint8_t, 2> {};
template <>
struct ValueTraits<bool> : BoolTraits {};
template <>
struct ValueTraits<float16> : BitsTraits {};
template <>
struct ValueTraits<bfloat16> : BitsTraits {};
template <>
struct ValueTraits<float8_e5m2> : ByteTraits {};
template <>
struct ValueTraits<float8_e4m3fn> : ByteTraits {};
template <>
struct ValueTraits<float8_e4m3fnuz> : ByteTraits {};
template <>
struct ValueTraits<float8_e4m3b11fnuz> : ByteTraits {};
template <>
struct ValueTraits<float8_e5m2fnuz> : ByteTraits {};

template <typename T>
inline constexpr bool kHasValueTraits = static_cast<int>(kDTypeOf<T>) < kFirstOwnDTypeNumber;

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_INTERNAL_VALUE_TRAITS_H_
