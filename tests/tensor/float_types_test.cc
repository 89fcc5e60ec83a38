#include "tensorcask/tensor/float_types.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// What the specifications say about a type, written out by hand.
template <typename T>
struct Facts;
#define CASK_FACTS(T, bits_value, largest_value, smallest_value, one_value, nan_patterns) \
  template <>                                                                             \
  struct Facts<T> {                                                                       \
    static constexpr int kBits = bits_value;            /* with the sign */               \
    static constexpr double kLargest = largest_value;   /* finite */                      \
    static constexpr double kSmallest = smallest_value; /* positive */                    \
    static constexpr uint32_t kOne = one_value;         /* the bits of 1.0 */             \
    static constexpr int kNanPatterns = nan_patterns;                                     \
  }
CASK_FACTS(float16, 16, 65504.0, 0x1p-24, 0x3c00, 2 * 1023);
CASK_FACTS(bfloat16, 16, 0x1.fep127, 0x1p-133, 0x3f80, 2 * 127);
CASK_FACTS(float8_e5m2, 8, 57344.0, 0x1p-16, 0x3c, 2 * 3);
CASK_FACTS(float8_e4m3, 8, 240.0, 0x1p-9, 0x38, 2 * 7);
CASK_FACTS(float8_e3m4, 8, 15.5, 0x1p-6, 0x30, 2 * 15);
CASK_FACTS(float8_e4m3fn, 8, 448.0, 0x1p-9, 0x38, 2);
CASK_FACTS(float8_e4m3fnuz, 8, 240.0, 0x1p-10, 0x40, 1);
CASK_FACTS(float8_e4m3b11fnuz, 8, 30.0, 0x1p-13, 0x58, 1);
CASK_FACTS(float8_e5m2fnuz, 8, 57344.0, 0x1p-17, 0x40, 1);
CASK_FACTS(float8_e8m0fnu, 8, 0x1p127, 0x1p-127, 0x7f, 1);
CASK_FACTS(float6_e2m3, 6, 7.5, 0.125, 0x08, 0);
CASK_FACTS(float6_e3m2, 6, 28.0, 0.0625, 0x0c, 0);
CASK_FACTS(float4_e2m1, 4, 6.0, 0.5, 0x02, 0);
#undef CASK_FACTS

template <typename T>
class SmallFloatTest : public ::testing::Test {
 protected:
  using Bits = typename T::Bits;
  using Format = typename T::Format;
  static constexpr uint32_t kPatterns = 1u << Facts<T>::kBits;
  static constexpr uint32_t kSignBit = Format::kSigned ? kPatterns / 2 : 0;

  struct Value {
    double value;
    uint32_t bits;
  };

  static float Decode(uint32_t bits) { return static_cast<float>(T::FromBits(static_cast<Bits>(bits))); }
  static uint32_t Encode(float value) { return T(value).bits(); }

  // The positive finite numbers and zero, by value. Decoded by the definition: sign, exponent, mantissa, bias.
  static std::vector<Value> Values() {
    std::vector<Value> values;
    const uint32_t num_magnitudes = Format::kSigned ? kPatterns / 2 : kPatterns;
    for (uint32_t bits = 0; bits < num_magnitudes; ++bits) {
      const uint32_t exponent = bits >> Format::kMantissaBits;
      const uint32_t mantissa = bits & ((1u << Format::kMantissaBits) - 1);
      const bool top = exponent == (1u << Format::kExponentBits) - 1;
      if (Format::kNonFinite == NonFinite::kIeee && top) continue;
      if (Format::kNonFinite == NonFinite::kNanAllOnes && bits == num_magnitudes - 1) continue;
      const double unit = std::ldexp(1.0, -Format::kMantissaBits);
      // e8m0 has no subnormals: its exponent 0 is 2^-127.
      const bool subnormal = exponent == 0 && Format::kSigned;
      const double significand = (subnormal ? 0.0 : 1.0) + mantissa * unit;
      values.push_back({std::ldexp(significand, (subnormal ? 1 : static_cast<int>(exponent)) - Format::kBias), bits});
    }
    std::sort(values.begin(), values.end(), [](const Value& a, const Value& b) { return a.value < b.value; });
    return values;
  }

  // The bits for `value`, found by search: slow and without tricks.
  static uint32_t Expected(const std::vector<Value>& values, float value) {
    const uint32_t sign = std::signbit(value) ? kSignBit : 0;
    const uint32_t largest_bits = values.back().bits;
    uint32_t nan = largest_bits + 1;
    uint32_t infinity = nan | sign;
    if (Format::kNonFinite == NonFinite::kIeee) nan = values.back().bits + 1 + (1u << (Format::kMantissaBits - 1));
    if (Format::kNonFinite == NonFinite::kNanNegZero) nan = infinity = kSignBit;
    if (Format::kNonFinite == NonFinite::kNone) {
      nan = kSignBit;
      infinity = largest_bits | sign;
    }
    if (std::isnan(value)) return nan;
    if (!Format::kSigned && (std::signbit(value) || value == 0)) return nan;
    if (std::isinf(value)) return infinity;
    const double magnitude = std::fabs(static_cast<double>(value));
    const auto above =
        std::lower_bound(values.begin(), values.end(), magnitude, [](const Value& a, double b) { return a.value < b; });
    uint32_t bits = 0;
    if (above == values.begin()) {
      bits = above->bits;
    } else if (above == values.end()) {
      // One step further than the largest would stand the next number, were there one; its bits would be one more.
      const double largest = values.back().value;
      const double next = Format::kMantissaBits == 0 ? 2 * largest : 2 * largest - values[values.size() - 2].value;
      const double middle = largest + (next - largest) / 2;
      if (magnitude > middle || (magnitude == middle && largest_bits % 2 == 1)) return infinity;
      bits = largest_bits;
    } else {
      const Value& high = *above;
      const Value& low = *(above - 1);
      const double middle = low.value + (high.value - low.value) / 2;  // exact in double
      const bool up = magnitude > middle || (magnitude == middle && low.bits % 2 == 1);
      bits = up ? high.bits : low.bits;
    }
    if (Format::kNonFinite == NonFinite::kNanNegZero && bits == 0) return 0;
    return bits | sign;
  }

  // Compares by bits, NaN by being one. `values` as above.
  static void ExpectRounds(const std::vector<Value>& values, float value) {
    const uint32_t got = Encode(value);
    if (std::isnan(value) && Facts<T>::kNanPatterns > 0) {
      ASSERT_TRUE(std::isnan(Decode(got))) << std::hex << got;
      return;
    }
    ASSERT_EQ(got, Expected(values, value)) << std::hexfloat << value;
  }
};

using SmallFloats =
    ::testing::Types<float16, bfloat16, float8_e5m2, float8_e4m3, float8_e3m4, float8_e4m3fn, float8_e4m3fnuz,
                     float8_e4m3b11fnuz, float8_e5m2fnuz, float8_e8m0fnu, float6_e2m3, float6_e3m2, float4_e2m1>;
TYPED_TEST_SUITE(SmallFloatTest, SmallFloats);

TYPED_TEST(SmallFloatTest, IsTrivialAndSmall) {
  static_assert(std::is_trivial_v<TypeParam> && std::is_standard_layout_v<TypeParam>);
  static_assert(sizeof(TypeParam) == (Facts<TypeParam>::kBits > 8 ? 2 : 1));
  static_assert(TypeParam::FromBits(3).bits() == 3);
  EXPECT_EQ(TypeParam().bits(), 0);
}

TYPED_TEST(SmallFloatTest, HasTheSpecifiedRange) {
  const auto values = this->Values();
  const auto positive = std::find_if(values.begin(), values.end(), [](const auto& v) { return v.value > 0; });
  EXPECT_EQ(values.back().value, Facts<TypeParam>::kLargest);
  EXPECT_EQ(positive->value, Facts<TypeParam>::kSmallest);
  EXPECT_EQ(this->Encode(1.0f), Facts<TypeParam>::kOne);
  EXPECT_EQ(this->Decode(Facts<TypeParam>::kOne), 1.0f);
  int nans = 0;
  for (uint32_t bits = 0; bits < this->kPatterns; ++bits) nans += std::isnan(this->Decode(bits)) ? 1 : 0;
  EXPECT_EQ(nans, Facts<TypeParam>::kNanPatterns);
}

TYPED_TEST(SmallFloatTest, EveryPatternIsExactAndComesBack) {
  std::vector<bool> finite(this->kPatterns, false);
  for (const auto& v : this->Values()) {
    for (uint32_t sign : {0u, this->kSignBit}) {
      if (sign != 0 && v.bits == 0 && TypeParam::Format::kNonFinite == NonFinite::kNanNegZero) continue;
      finite[v.bits | sign] = true;
      const float decoded = this->Decode(v.bits | sign);
      ASSERT_EQ(static_cast<double>(decoded), sign != 0 ? -v.value : v.value) << v.bits;
      ASSERT_EQ(std::signbit(decoded), sign != 0) << v.bits;
      ASSERT_EQ(this->Encode(decoded), v.bits | sign);
    }
  }
  for (uint32_t bits = 0; bits < this->kPatterns; ++bits) {
    if (finite[bits]) continue;
    const float decoded = this->Decode(bits);
    ASSERT_FALSE(std::isfinite(decoded)) << bits;
    if (std::isinf(decoded)) {
      ASSERT_EQ(TypeParam::Format::kNonFinite, NonFinite::kIeee);
      ASSERT_EQ(this->Encode(decoded), bits);
      ASSERT_EQ(std::signbit(decoded), (bits & this->kSignBit) != 0);
    } else {
      const uint32_t again = this->Encode(decoded);
      ASSERT_TRUE(std::isnan(this->Decode(again))) << bits;
      // The sign and all of the payload come back, apart from the bit that makes it quiet.
      const uint32_t quiet = TypeParam::Format::kNonFinite == NonFinite::kIeee
                                 ? 1u << std::max(0, TypeParam::Format::kMantissaBits - 1)
                                 : 0;
      ASSERT_EQ(again, bits | quiet);
    }
  }
}

TYPED_TEST(SmallFloatTest, RoundsToNearestEvenAroundEveryValueAndMidpoint) {
  const auto values = this->Values();
  for (size_t i = 0; i < values.size(); ++i) {
    const double low = values[i].value;
    const double high = i + 1 < values.size() ? values[i + 1].value : 2 * low;
    // Midpoints are floats, too: the types have fewer bits.
    for (const double center : {low, low + (high - low) / 2, low + (high - low) / 4}) {
      if (center > std::numeric_limits<float>::max()) continue;
      const uint32_t bits = BitsOfFloat(static_cast<float>(center));
      for (uint32_t near : {bits - 2, bits - 1, bits, bits + 1, bits + 2}) {
        if (bits < 2 && near > 0x80000000) continue;  // below zero
        for (uint32_t sign : {0u, 0x80000000u})
          ASSERT_NO_FATAL_FAILURE(this->ExpectRounds(values, FloatOfBits(near | sign)));
      }
    }
  }
}

TYPED_TEST(SmallFloatTest, RoundsEveryKindOfFloat) {
  const auto values = this->Values();
  // Evenly over all patterns of float (an odd step: every low bit occurs), then at random.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 40503) {
    ASSERT_NO_FATAL_FAILURE(this->ExpectRounds(values, FloatOfBits(static_cast<uint32_t>(bits))));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    ASSERT_NO_FATAL_FAILURE(this->ExpectRounds(values, FloatOfBits(static_cast<uint32_t>(random()))));
  }
  // Between the smallest and the largest number of the type, where the fewest of the above fall.
  std::uniform_real_distribution<double> exponent(std::log2(Facts<TypeParam>::kSmallest) - 2,
                                                  std::min(127.9, std::log2(Facts<TypeParam>::kLargest) + 1));
  for (int i = 0; i < 100000; ++i) {
    const float value = static_cast<float>(std::exp2(exponent(random)));
    ASSERT_NO_FATAL_FAILURE(this->ExpectRounds(values, i % 2 == 0 ? value : -value));
  }
}

TYPED_TEST(SmallFloatTest, ComparesByValue) {
  const TypeParam one(1.0f);
  EXPECT_TRUE(one == TypeParam::FromBits(Facts<TypeParam>::kOne));
  EXPECT_TRUE(one != TypeParam(2.0f));
  if (Facts<TypeParam>::kNanPatterns > 0) {
    const TypeParam nan(kNan);
    EXPECT_TRUE(nan != nan);
  }
  if (TypeParam::Format::kSigned) {
    EXPECT_TRUE(TypeParam(0.0f) == TypeParam(-0.0f));
  }
}

template <typename T>
struct ValueCase {
  const char* name;
  float value;
  uint32_t bits;
};

template <typename T>
void ExpectBits(std::initializer_list<ValueCase<T>> cases) {
  for (const ValueCase<T>& c : cases) EXPECT_EQ(T(c.value).bits(), c.bits) << c.name;
}

// The table in the header, by example.
TEST(SmallFloat, OverflowAndNonFiniteValues) {
  ExpectBits<float16>({{"LastThatRoundsDown", 65519.996f, 0x7bff},
                       {"FirstThatOverflows", 65520.0f, 0x7c00},
                       {"MinusInfinity", -kInfinity, 0xfc00},
                       {"QuietNan", kNan, 0x7e00},
                       {"SignallingNan", FloatOfBits(0x7f800001), 0x7e00},
                       {"NegativeNanWithPayload", FloatOfBits(0xff802000), 0xfe01},
                       {"TieToZero", 0x1p-25f, 0x0000},
                       {"MinusTieToZero", -0x1p-25f, 0x8000},
                       {"AboveTie", 0x1.000002p-25f, 0x0001}});
  ExpectBits<bfloat16>({{"LargestFloat", std::numeric_limits<float>::max(), 0x7f80},
                        {"TieToEven", FloatOfBits(0x3f808000), 0x3f80},
                        {"TieToEvenUp", FloatOfBits(0x3f818000), 0x3f82},
                        {"SmallestFloat", FloatOfBits(1), 0x0000},
                        {"NanOfLowBits", FloatOfBits(0x7f800001), 0x7fc0},
                        {"NanOfAllOnes", FloatOfBits(0xffffffff), 0xffff}});
  ExpectBits<float8_e5m2>({{"Largest", 57344.0f, 0x7b},
                           {"TieBelowInfinity", 61440.0f, 0x7c},
                           {"BelowTie", 61439.996f, 0x7b},
                           {"MinusInfinity", -kInfinity, 0xfc},
                           {"Nan", kNan, 0x7e}});
  ExpectBits<float8_e4m3fn>({{"Largest", 448.0f, 0x7e},
                             {"TieAboveLargest", 464.0f, 0x7e},
                             {"AboveTie", 464.1f, 0x7f},
                             {"Infinity", kInfinity, 0x7f},
                             {"MinusInfinity", -kInfinity, 0xff},
                             {"NegativeNan", -kNan, 0xff},
                             {"MinusZero", -0.0f, 0x80}});
  ExpectBits<float8_e4m3fnuz>({{"Largest", 240.0f, 0x7f},
                               {"TieAboveLargest", 248.0f, 0x80},
                               {"BelowTie", 247.9f, 0x7f},
                               {"MinusInfinity", -kInfinity, 0x80},
                               {"MinusZero", -0.0f, 0x00},
                               {"NegativeUnderflow", -0x1p-12f, 0x00},
                               {"NegativeSmallest", -0x1p-10f, 0x81}});
  ExpectBits<float8_e5m2fnuz>({{"Infinity", kInfinity, 0x80}, {"MinusLargest", -57344.0f, 0xff}});
  ExpectBits<float8_e8m0fnu>({{"Zero", 0.0f, 0xff},
                              {"MinusZero", -0.0f, 0xff},
                              {"MinusOne", -1.0f, 0xff},
                              {"Infinity", kInfinity, 0xff},
                              {"Nan", kNan, 0xff},
                              {"NegativeNan", -kNan, 0xff},
                              {"SmallestFloat", FloatOfBits(1), 0x00},
                              {"Smallest", 0x1p-127f, 0x00},
                              {"TieToEvenDown", 0x1.8p-127f, 0x00},
                              {"NextUp", 0x1.800008p-127f, 0x01},
                              {"TieToEven", 1.5f, 0x80},
                              {"TieToEvenOther", 3.0f, 0x80},
                              {"Largest", 0x1p127f, 0xfe},
                              {"TieAboveLargest", 0x1.8p127f, 0xfe},
                              {"AboveTie", 0x1.800002p127f, 0xff}});
  ExpectBits<float6_e2m3>({{"Infinity", kInfinity, 0x1f},
                           {"MinusLarge", -1e30f, 0x3f},
                           {"Nan", kNan, 0x20},
                           {"NegativeNan", -kNan, 0x20},
                           {"MinusZero", -0.0f, 0x20}});
  ExpectBits<float6_e3m2>({{"Infinity", kInfinity, 0x1f}, {"Nan", kNan, 0x20}});
  ExpectBits<float4_e2m1>({{"Infinity", kInfinity, 0x07},
                           {"MinusInfinity", -kInfinity, 0x0f},
                           {"Nan", kNan, 0x08},
                           {"TieToEven", 2.5f, 0x04},
                           {"TieToEvenUp", 3.5f, 0x06},
                           {"TieToZero", 0.25f, 0x00}});
}

// bfloat16 is the upper half of a float: widening changes no bit, NaN included.
TEST(SmallFloat, Bfloat16WidensUnchanged) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_EQ(BitsOfFloat(static_cast<float>(bfloat16::FromBits(static_cast<uint16_t>(bits)))), bits << 16);
  }
}

// The bits above a narrow type's own are not looked at.
TEST(SmallFloat, NarrowTypesIgnoreHighBits) {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    EXPECT_EQ(BitsOfFloat(static_cast<float>(float6_e2m3::FromBits(byte))),
              BitsOfFloat(static_cast<float>(float6_e2m3::FromBits(byte & 0x3f))));
    EXPECT_EQ(BitsOfFloat(static_cast<float>(float4_e2m1::FromBits(byte))),
              BitsOfFloat(static_cast<float>(float4_e2m1::FromBits(byte & 0x0f))));
  }
}

template <typename T>
void ExpectEveryByteReadsAsItsLowBits(int lowest) {
  constexpr int kCount = 1 << T::kBits;
  for (int byte = 0; byte < 256; ++byte) {
    T number;  // as if the byte came from a file
    const auto raw = static_cast<uint8_t>(byte);
    std::memcpy(&number, &raw, 1);
    const int low = byte % kCount;
    EXPECT_EQ(number.value(), low >= kCount + lowest ? low - kCount : low) << byte;
    EXPECT_EQ(number, T::FromBits(static_cast<uint8_t>(low)));
  }
  for (int value = lowest; value < lowest + kCount; ++value) {
    const T number(static_cast<decltype(number.value())>(value));
    EXPECT_EQ(number.value(), value);
    uint8_t byte = 0xff;
    std::memcpy(&byte, &number, 1);
    EXPECT_EQ(byte, number.bits());
    EXPECT_LT(byte, kCount);
  }
}

TEST(SubByteInt, KeepsItsValueInTheLowBits) {
  static_assert(std::is_trivial_v<int4> && sizeof(int2) == 1 && !std::is_convertible_v<int8_t, int4>);
  static_assert(int4(-1).bits() == 0x0f && int4(-8).value() == -8 && uint4(3) != uint4(4));
  ExpectEveryByteReadsAsItsLowBits<int4>(-8);
  ExpectEveryByteReadsAsItsLowBits<uint4>(0);
  ExpectEveryByteReadsAsItsLowBits<int2>(-2);
  ExpectEveryByteReadsAsItsLowBits<uint2>(0);
}

TEST(TaggedInt, IsAnIntegerOfItsOwn) {
  static_assert(std::is_trivial_v<qint8> && sizeof(qint32) == 4);
  static_assert(!std::is_same_v<qint8, int8_t> && !std::is_convertible_v<int8_t, qint8>);
  static_assert(qint8(-8).value == -8 && qint16(5) == qint16(5) && quint8(3) != quint8(4));
  EXPECT_EQ(quint16().value, 0);
}

}  // namespace
}  // namespace tensorcask
