#include "tensorcask/tensor/dtype.h"

#include <cstdint>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// What TensorFlow's types.proto and types.cc say, written out again: number, DT_ name, short name, and bytes an
// element.
struct TensorFlowCase {
  int number;
  const char* enum_name;
  const char* short_name;
  DType dtype;
  size_t element_size;
};

constexpr TensorFlowCase kTensorFlow[] = {
    {1, "DT_FLOAT", "float", DType::kFloat32, 4},
    {2, "DT_DOUBLE", "double", DType::kFloat64, 8},
    {3, "DT_INT32", "int32", DType::kInt32, 4},
    {4, "DT_UINT8", "uint8", DType::kUint8, 1},
    {5, "DT_INT16", "int16", DType::kInt16, 2},
    {6, "DT_INT8", "int8", DType::kInt8, 1},
    {7, "DT_STRING", "string", DType::kString, 0},
    {8, "DT_COMPLEX64", "complex64", DType::kComplex64, 8},
    {9, "DT_INT64", "int64", DType::kInt64, 8},
    {10, "DT_BOOL", "bool", DType::kBool, 1},
    {11, "DT_QINT8", "qint8", DType::kQint8, 1},
    {12, "DT_QUINT8", "quint8", DType::kQuint8, 1},
    {13, "DT_QINT32", "qint32", DType::kQint32, 4},
    {14, "DT_BFLOAT16", "bfloat16", DType::kBfloat16, 2},
    {15, "DT_QINT16", "qint16", DType::kQint16, 2},
    {16, "DT_QUINT16", "quint16", DType::kQuint16, 2},
    {17, "DT_UINT16", "uint16", DType::kUint16, 2},
    {18, "DT_COMPLEX128", "complex128", DType::kComplex128, 16},
    {19, "DT_HALF", "half", DType::kFloat16, 2},
    {20, "DT_RESOURCE", "resource", DType::kResource, 0},
    {21, "DT_VARIANT", "variant", DType::kVariant, 0},
    {22, "DT_UINT32", "uint32", DType::kUint32, 4},
    {23, "DT_UINT64", "uint64", DType::kUint64, 8},
    {24, "DT_FLOAT8_E5M2", "float8_e5m2", DType::kFloat8E5m2, 1},
    {25, "DT_FLOAT8_E4M3FN", "float8_e4m3fn", DType::kFloat8E4m3fn, 1},
    {26, "DT_FLOAT8_E4M3FNUZ", "float8_e4m3fnuz", DType::kFloat8E4m3fnuz, 1},
    {27, "DT_FLOAT8_E4M3B11FNUZ", "float8_e4m3b11fnuz", DType::kFloat8E4m3b11fnuz, 1},
    {28, "DT_FLOAT8_E5M2FNUZ", "float8_e5m2fnuz", DType::kFloat8E5m2fnuz, 1},
    {29, "DT_INT4", "int4", DType::kInt4, 1},
    {30, "DT_UINT4", "uint4", DType::kUint4, 1},
    {31, "DT_INT2", "int2", DType::kInt2, 1},
    {32, "DT_UINT2", "uint2", DType::kUint2, 1},
};

// All spellings name the same dtype and type, in a switch, too.
static_assert(DType::kBFloat16 == DType::kBfloat16 && std::is_same_v<BFloat16, bfloat16>);
static_assert(DType::kHalf == DType::kFloat16 && kDTypeOf<float16> == DType::kHalf);
static_assert(kDTypeOf<BFloat16> == DType::kBFloat16 && kDTypeOf<const float> == DType::kFloat32);

TEST(DType, AgreesWithTensorFlow) {
  for (const TensorFlowCase& c : kTensorFlow) {
    SCOPED_TRACE(c.enum_name);
    EXPECT_EQ(DTypeFromNumber(c.number), c.dtype);
    EXPECT_EQ(DTypeNumber(c.dtype), c.number);
    EXPECT_EQ(ElementSize(c.dtype), c.element_size);
    EXPECT_EQ(IsFixedSize(c.dtype), c.element_size != 0);
    ASSERT_OK_AND_ASSIGN(const DType by_enum, ParseDType(c.enum_name));
    EXPECT_EQ(by_enum, c.dtype);
    ASSERT_OK_AND_ASSIGN(const DType by_name, ParseDType(c.short_name));
    EXPECT_EQ(by_name, c.dtype);
  }
}

// Every dtype there is, by number.
std::vector<DType> AllDTypes() {
  std::vector<DType> all;
  for (int number = 0; number < 256; ++number) {
    if (const auto dtype = DTypeFromNumber(number)) all.push_back(*dtype);
  }
  return all;
}

TEST(DType, NumbersAreThoseListedAndNoOthers) {
  std::set<int> numbers;
  for (const DType dtype : AllDTypes()) numbers.insert(DTypeNumber(dtype));
  std::set<int> want;
  for (int number = 1; number <= 32; ++number) want.insert(number);
  for (int number = kFirstOwnDTypeNumber; number <= 69; ++number) want.insert(number);
  EXPECT_EQ(numbers, want);
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{33}, int64_t{101}, int64_t{257}, (int64_t{1} << 32) + 1,
                               std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(DTypeFromNumber(number), std::nullopt) << number;
  }
}

TEST(DType, IsPrintedByItsName) {
  std::ostringstream out;
  out << DType::kHalf << ' ' << DType::kInvalid;
  EXPECT_EQ(out.str(), "float16 invalid");
}

TEST(DType, NamesComeBackAndDiffer) {
  std::set<absl::string_view> names;
  for (const DType dtype : AllDTypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    EXPECT_TRUE(names.insert(DTypeName(dtype)).second);
    ASSERT_OK_AND_ASSIGN(const DType parsed, ParseDType(DTypeName(dtype)));
    EXPECT_EQ(parsed, dtype);
  }
  EXPECT_EQ(DTypeName(DType::kInvalid), "invalid");
  EXPECT_EQ(DTypeName(static_cast<DType>(200)), "invalid");
  EXPECT_EQ(ElementSize(static_cast<DType>(200)), 0u);
}

struct SpellingCase {
  const char* text;
  DType dtype;
};

TEST(DType, ParsesOthersSpellings) {
  const SpellingCase cases[] = {
      // NumPy, with and without the mark of its byte order.
      {"f4", DType::kFloat32},
      {"<f4", DType::kFloat32},
      {"=f8", DType::kFloat64},
      {"<f2", DType::kFloat16},
      {"float16", DType::kFloat16},
      {"float64", DType::kFloat64},
      {"|u1", DType::kUint8},
      {"<u1", DType::kUint8},
      {"u1", DType::kUint8},
      {"|i1", DType::kInt8},
      {"i2", DType::kInt16},
      {"<i4", DType::kInt32},
      {"i8", DType::kInt64},
      {"<u2", DType::kUint16},
      {"=u4", DType::kUint32},
      {"u8", DType::kUint64},
      {"<c8", DType::kComplex64},
      {"c16", DType::kComplex128},
      {"|b1", DType::kBool},
      {"b1", DType::kBool},
      {"?", DType::kBool},
      {"|?", DType::kBool},
      // safetensors.
      {"BOOL", DType::kBool},
      {"F4", DType::kFloat4E2m1},
      {"F6_E2M3", DType::kFloat6E2m3},
      {"F6_E3M2", DType::kFloat6E3m2},
      {"U8", DType::kUint8},
      {"I8", DType::kInt8},
      {"F8_E5M2", DType::kFloat8E5m2},
      {"F8_E4M3", DType::kFloat8E4m3fn},
      {"F8_E8M0", DType::kFloat8E8m0fnu},
      {"F8_E4M3FNUZ", DType::kFloat8E4m3fnuz},
      {"F8_E5M2FNUZ", DType::kFloat8E5m2fnuz},
      {"I16", DType::kInt16},
      {"U16", DType::kUint16},
      {"F16", DType::kFloat16},
      {"BF16", DType::kBfloat16},
      {"I32", DType::kInt32},
      {"U32", DType::kUint32},
      {"F32", DType::kFloat32},
      {"C64", DType::kComplex64},
      {"F64", DType::kFloat64},
      {"I64", DType::kInt64},
      {"U64", DType::kUint64},
      // ml_dtypes.
      {"float4_e2m1fn", DType::kFloat4E2m1},
      {"float6_e2m3fn", DType::kFloat6E2m3},
      {"float6_e3m2fn", DType::kFloat6E3m2},
      {"float8_e4m3", DType::kFloat8E4m3},
      {"float8_e3m4", DType::kFloat8E3m4},
  };
  for (const SpellingCase& c : cases) {
    SCOPED_TRACE(c.text);
    ASSERT_OK_AND_ASSIGN(const DType dtype, ParseDType(c.text));
    EXPECT_EQ(dtype, c.dtype);
  }
}

struct RejectCase {
  const char* name;
  std::string text;
  const char* says;
};

class ParseDTypeRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ParseDTypeRejects, WithCodeAndMessage) {
  EXPECT_THAT(ParseDType(GetParam().text), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}

const RejectCase kMalformed[] = {
    {"Empty", "", "no dtype is called \"\""},
    {"Unknown", "float24", "no dtype is called \"float24\""},
    {"Invalid", "invalid", "no dtype"},
    {"DtInvalid", "DT_INVALID", "no dtype"},
    {"DtAlone", "DT_", "no dtype"},
    {"DtOurOwn", "DT_FLOAT8_E8M0FNU", "no dtype"},
    {"DtFloat32", "DT_FLOAT32", "no dtype"},
    {"DtSmall", "DT_float", "no dtype"},
    {"Reference", "DT_FLOAT_REF", "no dtype"},
    {"ReferenceName", "float_ref", "no dtype"},
    {"Capitals", "Float32", "no dtype"},
    {"SmallSafetensors", "bf16", "no dtype"},
    {"Space", "float32 ", "no dtype"},
    {"BigEndian", ">f4", "\">f4\" is big-endian"},
    {"BigEndianByte", ">u1", "big-endian"},
    {"NoOrderForManyBytes", "|f4", "no dtype"},
    {"TwoMarks", "<<f4", "no dtype"},
    {"MarkAlone", "<", "no dtype"},
    {"MarkedName", "<float32", "no dtype"},
    {"Float128", "f16", "no dtype"},
    {"Struct", "[('a', '<f4')]", "no dtype"},
    {"Object", "|O", "no dtype"},
    {"Number", "1", "no dtype"},
    {"Nul", std::string("f4\0", 3), "\"f4\\x00\""},
    {"Megabytes", std::string(10 << 20, 'f'), "(10485760 bytes)"},
};

INSTANTIATE_TEST_SUITE_P(Malformed, ParseDTypeRejects, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DType, BelongsToOneKindAtMost) {
  const std::set<DType> of_no_kind = {DType::kBool, DType::kString, DType::kResource, DType::kVariant};
  for (const DType dtype : AllDTypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    const int kinds = IsFloating(dtype) + IsInteger(dtype) + IsComplex(dtype) + IsQuantized(dtype);
    EXPECT_EQ(kinds, of_no_kind.count(dtype) == 0 ? 1 : 0);
    const absl::string_view name = DTypeName(dtype);
    EXPECT_EQ(IsFloating(dtype), name.find("float") != absl::string_view::npos);
    EXPECT_EQ(IsComplex(dtype), name.find("complex") == 0);
    EXPECT_EQ(IsQuantized(dtype), name.find("qint") == 0 || name.find("quint") == 0);
  }
  EXPECT_FALSE(IsFloating(DType::kInvalid) || IsInteger(DType::kInvalid) || IsComplex(DType::kInvalid) ||
               IsQuantized(DType::kInvalid));
}

TEST(DType, ObjectsOfStringsAndOfNothing) {
  EXPECT_EQ(ObjectBytes(DType::kString), sizeof(std::string));
  EXPECT_EQ(ElementAlignment(DType::kString), alignof(std::string));
  for (const DType dtype : {DType::kInvalid, static_cast<DType>(200)}) {
    EXPECT_EQ(ObjectBytes(dtype), 0u);
    EXPECT_EQ(ElementAlignment(dtype), 1u);
  }
}

TEST(VisitDType, GivesTheElementType) {
  for (const DType dtype : AllDTypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    bool visited = false;
    const absl::Status status = VisitDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      visited = true;
      EXPECT_EQ(kDTypeOf<T>, dtype);
      EXPECT_EQ(sizeof(T), ElementSize(dtype));
      EXPECT_EQ(sizeof(T), ObjectBytes(dtype));
      EXPECT_EQ(alignof(T), ElementAlignment(dtype));
      EXPECT_TRUE(std::is_trivially_copyable_v<T>);
      return absl::OkStatus();
    });
    EXPECT_EQ(visited, IsFixedSize(dtype));
    if (!visited) {
      EXPECT_THAT(status, StatusIs(Code::kUnimplemented, HasSubstr(std::string(DTypeName(dtype)))));
    } else {
      EXPECT_OK(status);
    }
  }
  EXPECT_THAT(VisitDType(static_cast<DType>(200), [](auto) { return absl::OkStatus(); }),
              StatusIs(Code::kUnimplemented, HasSubstr("invalid")));
}

TEST(VisitDType, PassesTheErrorOn) {
  EXPECT_THAT(VisitDType(DType::kInt8, [](auto) { return absl::DataLossError("from the visitor"); }),
              StatusIs(Code::kDataLoss, HasSubstr("from the visitor")));
}

static_assert(kDTypeOf<std::string> == DType::kString);
static_assert(kDTypeOf<const float> == DType::kFloat32);

}  // namespace
}  // namespace tensorcask
