#include "tensorcask/tensor/nested_values.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;
using Code = absl::StatusCode;

constexpr float kFloatMax = std::numeric_limits<float>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return std::vector<T>(flat.begin(), flat.end());
}

// ---- Shapes ---------------------------------------------------------------------------------------------------------

struct ShapeCase {
  const char* name;
  NestedValues values;
  TensorShape shape;
};

const ShapeCase kShapes[] = {
    {"Scalar", 7, TensorShape()},
    {"Vector", {7}, TensorShape({1})},
    {"Matrix", {{1, 2, 3}, {4, 5, 6}}, TensorShape({2, 3})},
    {"OneByOne", {{1}}, TensorShape({1, 1})},
    {"Rank4", {{{{1}, {2}}}, {{{3}, {4}}}, {{{5}, {6}}}}, TensorShape({3, 1, 2, 1})},
    {"Empty", {}, TensorShape({0})},
    {"EmptyRows", {{}, {}}, TensorShape({2, 0})},
    {"OneEmptyRow", {NestedValues()}, TensorShape({1, 0})},
    {"EmptyDeep", {{{}, {}, {}}, {{}, {}, {}}}, TensorShape({2, 3, 0})},
    {"Strings", {{"a", "b"}, {"c", "d"}}, TensorShape({2, 2})},  // no std::string from two pointers
};

class NestedValuesShapes : public ::testing::TestWithParam<ShapeCase> {};

TEST_P(NestedValuesShapes, FollowTheLists) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromValues(GetParam().values));
  EXPECT_EQ(tensor.shape(), GetParam().shape);
}
INSTANTIATE_TEST_SUITE_P(All, NestedValuesShapes, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NestedValues, ElementsAreInRowMajorOrder) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromValues({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(NestedValues, ListsOfALengthKnownAtRunTime) {
  std::vector<NestedValues> rows;
  for (int i = 0; i < 100; ++i) {
    std::vector<NestedValues> row;
    for (int j = 0; j < 50; ++j) row.emplace_back(100 * i + j);
    rows.emplace_back(std::move(row));
  }
  const NestedValues values(std::move(rows));
  EXPECT_EQ(values.depth(), 2);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromValues(values));
  EXPECT_EQ(tensor.shape(), TensorShape({100, 50}));
  EXPECT_EQ(tensor.matrix<int32_t>()(99, 49), 9949);
}

TEST(NestedValues, EmptyListsTakeTheGivenDType) {
  EXPECT_EQ(TensorFromValues({})->dtype(), DType::kFloat32);
  EXPECT_EQ(TensorFromValues({}, DType::kString)->dtype(), DType::kString);
  EXPECT_EQ(TensorFromValues({{}, {}}, DType::kInt4)->dtype(), DType::kInt4);
}

// ---- dtypes without being asked -------------------------------------------------------------------------------------

struct DTypeCase {
  const char* name;
  NestedValues values;
  DType dtype;
};

const DTypeCase kDTypes[] = {
    {"Bool", {true, false}, DType::kBool},
    {"Int", {1, 2}, DType::kInt32},
    {"Int64", {int64_t{1}}, DType::kInt64},
    {"LongLong", {1LL}, DType::kInt64},
    {"Long", {1L}, DType::kInt64},
    {"UnsignedLongLong", {1ULL}, DType::kUint64},
    {"Int8", {int8_t{1}}, DType::kInt8},
    {"Uint8", {uint8_t{1}}, DType::kUint8},
    {"Int16", {int16_t{1}}, DType::kInt16},
    {"Uint16", {uint16_t{1}}, DType::kUint16},
    {"Uint32", {1u}, DType::kUint32},
    {"Float", {1.5f}, DType::kFloat32},
    {"Double", {1.5}, DType::kFloat64},
    {"Complex64", {std::complex<float>(1, 2)}, DType::kComplex64},
    {"Complex128", {std::complex<double>(1, 2)}, DType::kComplex128},
    {"Literal", {"a"}, DType::kString},
    {"StdString", {std::string("a"), "b"}, DType::kString},
    {"StringView", {absl::string_view("a")}, DType::kString},

    {"BoolAndInt", {true, 2}, DType::kInt32},
    {"BoolAndFloat", {1.5f, true}, DType::kFloat32},
    {"IntAndInt64", {1, int64_t{2}}, DType::kInt64},
    {"Uint8AndInt8", {uint8_t{1}, int8_t{2}}, DType::kInt16},
    {"Uint16AndInt8", {int8_t{1}, uint16_t{2}}, DType::kInt32},
    {"Uint32AndInt", {1u, 2}, DType::kInt64},
    {"Uint8AndUint64", {uint8_t{1}, uint64_t{2}}, DType::kUint64},
    {"Uint8AndInt64", {uint8_t{1}, int64_t{2}}, DType::kInt64},
    {"Int16AndFloat", {int16_t{1}, 2.0f}, DType::kFloat32},
    {"Uint16AndFloat", {2.0f, uint16_t{1}}, DType::kFloat32},
    {"IntAndFloat", {1, 2.0f}, DType::kFloat64},
    {"Uint64IntAndFloat", {uint64_t{1}, -1, 2.0f}, DType::kFloat64},
    {"IntAndDouble", {{1, 2.5}, {3, 4}}, DType::kFloat64},
    {"FloatAndDouble", {1.0f, 2.0}, DType::kFloat64},
    {"FloatAndComplex64", {1.0f, std::complex<float>(1, 2)}, DType::kComplex64},
    {"IntAndComplex64", {1, std::complex<float>(1, 2)}, DType::kComplex128},
    {"DoubleAndComplex64", {1.0, std::complex<float>(1, 2)}, DType::kComplex128},
    {"BothComplex", {std::complex<float>(1, 2), std::complex<double>(1, 2)}, DType::kComplex128},
    // NumPy, pair by pair, would say float64 for the pair of the first two in one order and float32 in the other.
    {"InAnyOrder", {int8_t{1}, uint16_t{1}, 1.0f}, DType::kFloat32},
    {"InAnyOrderTurned", {1.0f, uint16_t{1}, int8_t{1}}, DType::kFloat32},
};

class NestedValuesDTypes : public ::testing::TestWithParam<DTypeCase> {};

TEST_P(NestedValuesDTypes, HoldAllTypes) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromValues(GetParam().values));
  EXPECT_EQ(DTypeName(tensor.dtype()), DTypeName(GetParam().dtype));
}
INSTANTIATE_TEST_SUITE_P(All, NestedValuesDTypes, ::testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NestedValues, ValuesSurviveUnchanged) {
  EXPECT_THAT(Values<int64_t>(*TensorFromValues({INT64_MIN, INT64_MAX})), ElementsAre(INT64_MIN, INT64_MAX));
  EXPECT_THAT(Values<uint64_t>(*TensorFromValues({UINT64_MAX})), ElementsAre(UINT64_MAX));
  EXPECT_THAT(Values<float>(*TensorFromValues({0.1f, -0.0f})), ElementsAre(0.1f, -0.0f));
  EXPECT_THAT(Values<double>(*TensorFromValues({0.1, 1})), ElementsAre(0.1, 1.0));
  EXPECT_THAT(Values<std::complex<double>>(*TensorFromValues({std::complex<double>(0.1, -2), 3})),
              ElementsAre(std::complex<double>(0.1, -2), std::complex<double>(3, 0)));
  EXPECT_THAT(Values<bool>(*TensorFromValues({true, false})), ElementsAre(true, false));
  EXPECT_THAT(Values<int32_t>(*TensorFromValues({true, 7})), ElementsAre(1, 7));
  const std::string bytes("\0\xff", 2);
  EXPECT_THAT(Values<std::string>(*TensorFromValues({{bytes, ""}})), ElementsAre(bytes, ""));
}

// ---- A given dtype --------------------------------------------------------------------------------------------------

template <typename T>
std::vector<T> As(const NestedValues& values) {
  const auto tensor = TensorFromValues(values, kDTypeOf<T>);
  EXPECT_OK(tensor);
  return tensor.ok() ? Values<T>(*tensor) : std::vector<T>();
}

TEST(NestedValuesAs, IntegersOfEachKind) {
  EXPECT_THAT(As<uint8_t>({0, 255, 7.0, true}), ElementsAre(0, 255, 7, 1));
  EXPECT_THAT(As<int8_t>({-128, 127}), ElementsAre(-128, 127));
  EXPECT_THAT(As<int64_t>({-0x1p63, INT64_MAX, uint64_t{5}}), ElementsAre(INT64_MIN, INT64_MAX, 5));
  EXPECT_THAT(As<uint64_t>({UINT64_MAX, 0x1p63, -0.0}), ElementsAre(UINT64_MAX, uint64_t{1} << 63, 0u));
  EXPECT_THAT(As<bool>({0, 1, true, 1.0}), ElementsAre(false, true, true, true));
  EXPECT_THAT(As<int4>({-8, 7}), ElementsAre(int4(-8), int4(7)));
  EXPECT_THAT(As<uint4>({0, 15}), ElementsAre(uint4(0), uint4(15)));
  EXPECT_THAT(As<int2>({-2, 1}), ElementsAre(int2(-2), int2(1)));
  EXPECT_THAT(As<qint8>({-128}), ElementsAre(qint8(-128)));
  EXPECT_THAT(As<quint16>({65535}), ElementsAre(quint16(65535)));
  EXPECT_THAT(As<int32_t>({std::complex<float>(3, 0)}), ElementsAre(3));
}

TEST(NestedValuesAs, FloatsRoundOnceToTheNearest) {
  EXPECT_THAT(As<float>({0.1, int64_t{(1 << 24) + 1}}), ElementsAre(0.1f, 16777216.0f));
  EXPECT_THAT(As<double>({UINT64_MAX}), ElementsAre(0x1p64));
  EXPECT_THAT(As<float16>({65504, 0.1}), ElementsAre(float16(65504), float16(0.1f)));
  // Just above the middle of two numbers, by less than a float holds: rounding to float first would give the lower.
  EXPECT_THAT(As<bfloat16>({1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8, -(1 + 0x1p-8 + 0x1p-40)}),
              ElementsAre(bfloat16(1 + 0x1p-7f), bfloat16(1), bfloat16(-(1 + 0x1p-7f))));
  const int64_t middle = (int64_t{1} << 60) + (int64_t{1} << 52);
  EXPECT_THAT(As<bfloat16>({middle, middle + 1, -middle - 1, static_cast<uint64_t>(middle) + 1}),
              ElementsAre(bfloat16(0x1p60f), bfloat16(0x1p60f + 0x1p53f), bfloat16(-(0x1p60f + 0x1p53f)),
                          bfloat16(0x1p60f + 0x1p53f)));
  EXPECT_THAT(As<float4_e2m1>({6, -6, 0.4}), ElementsAre(float4_e2m1(6), float4_e2m1(-6), float4_e2m1(0.5f)));
  EXPECT_THAT(As<float8_e8m0fnu>({1, 0x1p-127}), ElementsAre(float8_e8m0fnu(1), float8_e8m0fnu(0x1p-127f)));
}

// Against the rounding of float_types.h: what a float holds must come out as it does there.
TEST(NestedValuesAs, FloatsAgreeWithTheirOwnConversion) {
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 0x10007) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    const auto tensor = TensorFromValues({value, static_cast<double>(value)}, DType::kBfloat16);
    const bfloat16 expected(value);
    if (static_cast<float>(expected) > kFloatMax) {
      EXPECT_THAT(tensor, StatusIs(Code::kInvalidArgument));
      continue;
    }
    ASSERT_OK(tensor);
    ASSERT_THAT(Values<bfloat16>(*tensor), ElementsAre(expected, expected)) << value;
  }
}

TEST(NestedValuesAs, NanAndInfinityWhereTheyExist) {
  EXPECT_THAT(As<float>({kInfinity, -kInfinity}), ElementsAre(kInfinity, -kInfinity));
  EXPECT_TRUE(As<float16>({kNan})[0] != float16(0));
  EXPECT_EQ(As<float8_e5m2>({-kInfinity})[0].bits(), 0xfc);
  EXPECT_EQ(As<float8_e4m3fn>({kNan})[0].bits() & 0x7f, 0x7f);
}

TEST(NestedValuesAs, Complex) {
  EXPECT_THAT(As<std::complex<float>>({1, 2.5, std::complex<double>(3, -4)}),
              ElementsAre(std::complex<float>(1), std::complex<float>(2.5f), std::complex<float>(3, -4)));
}

// ---- Refusals -------------------------------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  NestedValues values;
  std::optional<DType> dtype;
  const char* says;
};

const RejectCase kRejected[] = {
    {"Ragged", {{1, 2}, {3}}, {}, "values[1] is a list of 1 entry; values[0] is a list of 2 entries"},
    {"RaggedDeep", {{{1}, {2}}, {{3, 4}, {5}}}, {}, "values[1][0] is a list of 2 entries; values[0][0] is a list of 1"},
    {"RaggedOuter", {{{1}, {2}}, {{3}}}, {}, "values[1] is a list of 1 entry; values[0] is a list of 2"},
    {"RaggedEmpty", {{}, {1}}, {}, "values[1] is a list of 1 entry; values[0] is a list of 0 entries"},
    {"ListBesideValue", {1, {2}}, {}, "values[1] is a list of 1 entry; values[0] is 1"},
    {"ValueBesideList", {{1}, 2.5}, {}, "values[1] is 2.5; values[0] is a list of 1 entry"},
    {"ValueBesideEmptyList", {{}, 2}, {}, "values[1] is 2; values[0] is a list of 0 entries"},
    {"DepthsDiffer", {{{1}}, {2}}, {}, "values[1][0] is 2; values[0][0] is a list of 1 entry"},
    {"RaggedWithDType", {{1, 2}, {3}}, DType::kInt8, "values[1] is a list"},
    {"TextAmongNumbers", {{1, 2}, {3, "four"}}, {}, "values[1][1] is \"four\"; values[0][0] is 1: text and numbers"},
    {"NumberAmongText", {"one", 2.5}, {}, "values[1] is 2.5; values[0] is \"one\""},
    {"BothSigns64", {-1, uint64_t{7}}, {}, "values[1] is 7 in uint64; values[0] is of a signed type"},

    {"TooLarge", {{1, 2}, {300, 4}}, DType::kUint8, "values[1][0] is 300; uint8 holds 0 to 255"},
    {"Negative", {-1}, DType::kUint64, "values[0] is -1; uint64 holds 0 to 18446744073709551615"},
    {"Uint64AsInt64",
     {UINT64_MAX},
     DType::kInt64,
     "values[0] is 18446744073709551615; int64 holds -9223372036854775808"},
    {"Scalar", 128, DType::kInt8, "values is 128; int8 holds -128 to 127"},
    {"Fraction", {2.5}, DType::kInt32, "values[0] is 2.5; int32 holds the integers -2147483648 to 2147483647"},
    {"DoubleTooLarge", {0x1p63}, DType::kInt64, "values[0] is 9223372036854775808; int64"},
    {"DoubleTooLargeForAll", {1e300}, DType::kUint64, "values[0] is 1e+300; uint64"},
    {"DoubleTooSmall", {-1e300}, DType::kInt64, "values[0] is -1e+300; int64"},
    {"NanAsInteger", {kNan}, DType::kInt32, "values[0] is nan; int32"},
    {"InfinityAsInteger", {kInfinity}, DType::kInt64, "values[0] is inf; int64"},
    {"ComplexAsInteger", {std::complex<float>(1, 2)}, DType::kInt32, "values[0] is 1+2j; int32"},
    {"TwoAsBool", {2}, DType::kBool, "values[0] is 2; bool holds 0 to 1"},
    {"HalfAsBool", {0.5}, DType::kBool, "values[0] is 0.5; bool"},
    {"EightAsInt4", {8}, DType::kInt4, "values[0] is 8; int4 holds -8 to 7"},
    {"MinusNineAsInt4", {-9}, DType::kInt4, "values[0] is -9; int4"},
    {"SixteenAsUint4", {16}, DType::kUint4, "values[0] is 16; uint4 holds 0 to 15"},
    {"Qint8", {128}, DType::kQint8, "values[0] is 128; qint8 holds -128 to 127"},
    {"Float32", {1e39}, DType::kFloat32, "values[0] is 1e+39; float32 holds the real numbers -3.40282"},
    {"Float16", {65520}, DType::kFloat16, "values[0] is 65520; float16 holds -65504 to 65504"},
    {"Bfloat16", {kFloatMax}, DType::kBfloat16, "bfloat16 holds the real numbers -3.3895"},
    {"Float8WithoutInfinity", {480}, DType::kFloat8E4m3fn, "values[0] is 480; float8_e4m3fn holds -448 to 448"},
    {"InfinityInFloat8", {kInfinity}, DType::kFloat8E4m3fn, "values[0] is inf; float8_e4m3fn holds the real numbers"},
    {"Float4", {6.5}, DType::kFloat4E2m1, "values[0] is 6.5; float4_e2m1 holds the real numbers -6 to 6"},
    {"NanInFloat4", {kNan}, DType::kFloat4E2m1, "values[0] is nan; float4_e2m1"},
    {"InfinityInFloat6",
     {-kInfinity},
     DType::kFloat6E2m3,
     "values[0] is -inf; float6_e2m3 holds the real numbers -7.5"},
    {"ZeroInE8m0", {0}, DType::kFloat8E8m0fnu, "values[0] is 0; float8_e8m0fnu holds"},
    {"MinusOneInE8m0", {-1}, DType::kFloat8E8m0fnu, "values[0] is -1; float8_e8m0fnu holds"},
    {"ComplexAsReal", {std::complex<float>(1, -2)}, DType::kFloat32, "values[0] is 1-2j; float32 holds the real"},
    {"Complex64", {std::complex<double>(0, 1e39)}, DType::kComplex64, "is 0+1e+39j; complex64 holds complex numbers"},
    {"TextAsNumber", {"1"}, DType::kInt32, "values[0] is \"1\"; int32 holds the integers"},
    {"TextAsFloat", {"1"}, DType::kFloat32, "values[0] is \"1\"; float32 holds the real numbers"},
    {"TextAsComplex", {"1"}, DType::kComplex128, "values[0] is \"1\"; complex128 holds"},
    {"NumberAsText", {"a", 1}, DType::kString, "values[1] is 1; string holds text"},
    {"NoDType", {1}, DType::kInvalid, "a tensor cannot have dtype invalid"},
};

class NestedValuesRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(NestedValuesRejects, WithCodeAndMessage) {
  EXPECT_THAT(TensorFromValues(GetParam().values, GetParam().dtype),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(All, NestedValuesRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NestedValues, ResourcesAreNotSupported) {
  EXPECT_THAT(TensorFromValues({1}, DType::kResource), StatusIs(Code::kUnimplemented, HasSubstr("resource")));
}

// Each dtype takes 1, and none takes text or a list beside a value.
TEST(NestedValuesAs, EveryDType){
#define CASK_CASE(id, number, T, name)                                              \
  {                                                                                 \
    SCOPED_TRACE(name);                                                             \
    const auto one = TensorFromValues({1}, DType::id);                              \
    ASSERT_OK(one);                                                                 \
    EXPECT_EQ(one->dtype(), DType::id);                                             \
    EXPECT_THAT(TensorFromValues({1, "1"}, DType::id),                              \
                StatusIs(Code::kInvalidArgument, HasSubstr("values[1] is \"1\""))); \
  }
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
}

// ---- Depth ----------------------------------------------------------------------------------------------------------

NestedValues Deep(int depth) {
  NestedValues values = 7;
  for (int i = 0; i < depth; ++i) {
    std::vector<NestedValues> list;
    list.push_back(std::move(values));
    values = NestedValues(std::move(list));
  }
  return values;
}

TEST(NestedValues, AsDeepAsARankMayBe) {
  const NestedValues values = Deep(254);
  EXPECT_EQ(values.depth(), 254);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromValues(values));
  EXPECT_EQ(tensor.rank(), 254);
  EXPECT_EQ(tensor.scalar<int32_t>(), 7);
  const absl::Status status = TensorFromValues(values, DType::kBool).status();
  EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, HasSubstr("[0]... is 7; bool")));
  EXPECT_THAT(std::string(status.message()), SizeIs(Lt(200u)));
}

TEST(NestedValues, DeeperListsAreRefusedWithoutUsingTheStack) {
  for (const int depth : {255, 256, 300, 1000000}) {
    const NestedValues values = Deep(depth);
    const NestedValues copy = values;
    EXPECT_GT(copy.depth(), 254);
    EXPECT_THAT(TensorFromValues(copy), StatusIs(Code::kInvalidArgument, HasSubstr("more than 254 lists in lists")));
    EXPECT_THAT(TensorFromValues({1, copy}), StatusIs(Code::kInvalidArgument, HasSubstr("more than 254")));
  }
}

TEST(NestedValues, LongTextIsCutInErrors) {
  const absl::Status status = TensorFromValues({std::string(100000, 'x')}, DType::kInt8).status();
  EXPECT_THAT(std::string(status.message()), SizeIs(Lt(200u)));
}

// ---- What is a value at all -----------------------------------------------------------------------------------------

static_assert(!std::is_constructible_v<NestedValues, char>, "a letter is neither text nor a number");
static_assert(!std::is_constructible_v<NestedValues, std::nullptr_t>);
static_assert(!std::is_constructible_v<NestedValues, const void*>, "no pointer becomes a bool");
static_assert(!std::is_constructible_v<NestedValues, long double*>);
static_assert(std::is_nothrow_move_constructible_v<NestedValues>, "vectors of them move");

TEST(NestedValues, ParenthesesCopyAndListsHold) {
  const NestedValues row = {1, 2};
  EXPECT_EQ(NestedValues(row).depth(), 1);
  EXPECT_EQ(NestedValues(NestedValues::List{row}).depth(), 2);
  EXPECT_EQ(TensorFromValues({row, row})->shape(), TensorShape({2, 2}));
}

// A float between the value and the middle of two bfloat16 must not be taken for that middle.
TEST(NestedValuesAs, WhatAFloatCannotHoldStaysOnItsSideOfTheMiddle) {
  // The nearest float is one of the last bit 1 below the middle 1 + 3/2^8, whose even neighbour is above.
  const double below = 1 + 3 * 0x1p-8 - 0.75 * 0x1p-23;
  EXPECT_THAT(As<bfloat16>({below, -below}), ElementsAre(bfloat16(1 + 0x1p-7f), bfloat16(-(1 + 0x1p-7f))));
  // Just above the middle 2^53 + 2^45, by less than a double holds.
  const int64_t above = (int64_t{1} << 53) + (int64_t{1} << 45) + 1;
  EXPECT_THAT(As<bfloat16>({above, -above, static_cast<uint64_t>(above), above - 1}),
              ElementsAre(bfloat16(0x1p53f + 0x1p46f), bfloat16(-(0x1p53f + 0x1p46f)), bfloat16(0x1p53f + 0x1p46f),
                          bfloat16(0x1p53f)));
}

}  // namespace
}  // namespace tensorcask
