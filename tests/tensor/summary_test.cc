#include "tensorcask/tensor/summary.h"

#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::Lt;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor Iota(const std::vector<int64_t>& dims) {
  Tensor tensor = *Tensor::Create(DType::kInt32, *TensorShape::Create(dims));
  int32_t* const data = tensor.mutable_data<int32_t>();
  std::iota(data, data + tensor.num_elements(), 0);
  return tensor;
}

std::string Summary(const Tensor& tensor, int64_t max_entries, bool multiline = false) {
  SummaryOptions options;
  options.max_entries = max_entries;
  options.multiline = multiline;
  return SummarizeValue(tensor, options);
}

// ---- Brackets -------------------------------------------------------------------------------------------------------

struct ShapeCase {
  const char* name;
  std::vector<int64_t> dims;
  int64_t max_entries;
  const char* text;
  const char* multiline;  // as numpy.array2string prints, without aligned columns
};

const ShapeCase kShapes[] = {
    {"Scalar", {}, 3, "0", "0"},
    {"Vector", {4}, 3, "[0 1 2 3]", "[0 1 2 3]"},
    {"LongVector", {10}, 3, "[0 1 2 ... 7 8 9]", "[0 1 2 ... 7 8 9]"},
    {"JustFits", {6}, 3, "[0 1 2 3 4 5]", "[0 1 2 3 4 5]"},
    {"OneTooMany", {7}, 3, "[0 1 2 ... 4 5 6]", "[0 1 2 ... 4 5 6]"},
    {"None", {3}, 0, "[...]", "[...]"},
    {"All", {10}, -1, "[0 1 2 3 4 5 6 7 8 9]", "[0 1 2 3 4 5 6 7 8 9]"},
    {"HugeEntries", {4}, INT64_MAX, "[0 1 2 3]", "[0 1 2 3]"},
    {"SmallestEntries", {4}, INT64_MIN, "[0 1 2 3]", "[0 1 2 3]"},
    {"Matrix", {2, 3}, 3, "[[0 1 2] [3 4 5]]", "[[0 1 2]\n [3 4 5]]"},
    {"LongMatrix", {4, 4}, 1, "[[0 ... 3] ... [12 ... 15]]", "[[0 ... 3]\n ...\n [12 ... 15]]"},
    {"Cube", {2, 2, 2}, 3, "[[[0 1] [2 3]] [[4 5] [6 7]]]", "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"},
    {"LongCube", {3, 1, 2}, 1, "[[[0 1]] ... [[4 5]]]", "[[[0 1]]\n\n ...\n\n [[4 5]]]"},
    {"Rank4", {2, 1, 1, 2}, 3, "[[[[0 1]]] [[[2 3]]]]", "[[[[0 1]]]\n\n\n [[[2 3]]]]"},
    {"Empty", {0}, 3, "[]", "[]"},
    {"EmptyRows", {2, 0}, 3, "[]", "[]"},
    {"HugeAndEmpty", {int64_t{1} << 62, 0}, -1, "[]", "[]"},
};

class SummaryOfShape : public ::testing::TestWithParam<ShapeCase> {};
TEST_P(SummaryOfShape, HasBrackets) {
  const Tensor tensor = Iota(GetParam().dims);
  EXPECT_EQ(Summary(tensor, GetParam().max_entries), GetParam().text);
  EXPECT_EQ(Summary(tensor, GetParam().max_entries, /*multiline=*/true), GetParam().multiline);
}
INSTANTIATE_TEST_SUITE_P(All, SummaryOfShape, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Summary, OfTheHighestRank) {
  const std::string open(254, '[');
  const std::string close(254, ']');
  EXPECT_EQ(SummarizeValue(Iota(std::vector<int64_t>(254, 1))), open + "0" + close);
  std::vector<int64_t> dims(254, 1);
  dims[0] = 2;
  EXPECT_THAT(Summary(Iota(dims), 3, /*multiline=*/true), SizeIs(Lt(2000u)));
}

// Two entries an axis are never shortened, yet the whole is.
TEST(Summary, ShowsAtMostMaxElements) {
  const Tensor tensor = *Tensor::Zeros(DType::kBool, *TensorShape::Create(std::vector<int64_t>(20, 2)));
  SummaryOptions options;
  options.max_elements = 3;
  EXPECT_EQ(SummarizeValue(*Tensor::Zeros(DType::kInt8, TensorShape({2, 2, 2})), options), "[[[0 0] [0 ...]] ...]");
  EXPECT_THAT(SummarizeValue(tensor), SizeIs(Lt(200000u)));
  options.max_elements = 0;
  EXPECT_EQ(SummarizeValue(Iota({2, 2}), options), "[...]");
  options.max_entries = -1;
  EXPECT_EQ(SummarizeValue(Iota({2, 2}), options), "[[0 1] [2 3]]") << "all means all";
}

// 2 GiB of which four pages are ever touched: reading more would take seconds and memory.
TEST(Summary, ReadsOnlyWhatItShows) {
  constexpr int64_t kElements = int64_t{1} << 31;
  const absl::StatusOr<Tensor> tensor = Tensor::Create(DType::kUint8, TensorShape({2, kElements / 2}));
  if (!tensor.ok()) GTEST_SKIP() << tensor.status();
  Tensor writable = *tensor;
  for (const int64_t i : {int64_t{0}, kElements / 2 - 1, kElements / 2, kElements - 1}) {
    writable.mutable_flat<uint8_t>()[i] = static_cast<uint8_t>(1 + (i & 1));
  }
  EXPECT_EQ(Summary(*tensor, 1), "[[1 ... 2] [1 ... 2]]");
}

// ---- Elements -------------------------------------------------------------------------------------------------------

TEST(Summary, OfIntegers) {
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<int8_t>({-128, 0, 127})), "[-128 0 127]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<uint8_t>({0, 65, 255})), "[0 65 255]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<int64_t>({INT64_MIN, INT64_MAX})),
            "[-9223372036854775808 9223372036854775807]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<uint64_t>({UINT64_MAX})), "[18446744073709551615]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<int4>({int4(-8), int4(7)})), "[-8 7]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<uint2>({uint2(3)})), "[3]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<qint32>({qint32(-5)})), "[-5]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<bool>({true, false})), "[true false]");
}

TEST(Summary, OfBoolsThatAreNone) {
  char memory[3] = {0, 1, 77};
  const Tensor tensor = *Tensor::FromExternal(DType::kBool, TensorShape({3}), memory, 3, nullptr);
  EXPECT_EQ(SummarizeValue(tensor), "[false true true]");
}

TEST(Summary, OfFloats) {
  EXPECT_EQ(Summary(Tensor::FromValues<float>({0, -0.0f, 1, -1.5f, 0.1f, 1.0f / 3, 16777216, 1e10f, 1e-45f}), -1),
            "[0 -0 1 -1.5 0.1 0.33333334 16777216 1e+10 1e-45]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<float>({kNan, -kNan, kInf, -kInf})), "[nan nan inf -inf]");
  EXPECT_EQ(SummarizeValue(Tensor::FromValues<double>({0.1, 1.0 / 3, 5e-324})), "[0.1 0.3333333333333333 5e-324]");
  EXPECT_EQ(SummarizeValue(Tensor::Scalar(std::numeric_limits<double>::max())), "1.7976931348623157e+308");
}

template <typename T>
std::string Text(float value) {
  return SummarizeValue(Tensor::Scalar(T(value)));
}

TEST(Summary, OfSmallFloats) {
  EXPECT_EQ(Text<float16>(0.1f), "0.1");
  EXPECT_EQ(Text<float16>(1.0f / 3), "0.3333");
  EXPECT_EQ(Text<float16>(65504), "65504");
  EXPECT_EQ(Text<float16>(2049.0f * 8), "16384");
  EXPECT_EQ(Text<float16>(5.9604645e-8f), "6e-08");
  EXPECT_EQ(Text<float16>(-0.0f), "-0");
  EXPECT_EQ(Text<float16>(kNan), "nan");
  EXPECT_EQ(Text<float16>(-kInf), "-inf");
  EXPECT_EQ(Text<bfloat16>(0.1f), "0.1");
  EXPECT_EQ(Text<bfloat16>(1.0f / 3), "0.334");
  EXPECT_EQ(Text<bfloat16>(-3.389e38f), "-3.389e+38") << "3.39e+38 is beyond the largest";
  EXPECT_EQ(Text<bfloat16>(128), "128");
  EXPECT_EQ(Text<bfloat16>(1e-40f), "9e-41");
  EXPECT_EQ(Text<float8_e4m3fn>(448), "448");
  EXPECT_EQ(Text<float8_e4m3fn>(0.0625f), "0.062");
  EXPECT_EQ(Text<float8_e5m2>(57344), "57344");
  EXPECT_EQ(Text<float8_e8m0fnu>(1), "1");
  EXPECT_EQ(Text<float6_e2m3>(7.5f), "7.5") << "8 would read back, as larger numbers do, but is none";
  EXPECT_EQ(Text<float6_e3m2>(28), "28");
  EXPECT_EQ(Text<float4_e2m1>(6), "6");
  EXPECT_EQ(Text<float4_e2m1>(1.5f), "1.5");
}

// Every number of a type: its text reads back, and no text with fewer digits does.
template <typename T>
class SmallFloatText : public ::testing::Test {};
using SmallFloats =
    ::testing::Types<float16, bfloat16, float8_e5m2, float8_e4m3, float8_e3m4, float8_e4m3fn, float8_e4m3fnuz,
                     float8_e4m3b11fnuz, float8_e5m2fnuz, float8_e8m0fnu, float6_e2m3, float6_e3m2, float4_e2m1>;
TYPED_TEST_SUITE(SmallFloatText, SmallFloats);

int SignificantDigits(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (c == 'e') break;
    if (c >= '0' && c <= '9') digits += c;
  }
  digits.erase(0, digits.find_first_not_of('0'));
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return static_cast<int>(digits.size());
}

TYPED_TEST(SmallFloatText, IsTheShortestThatReadsBack) {
  using T = TypeParam;
  using Bits = typename T::Bits;
  float largest = 0;
  const int num_patterns = sizeof(Bits) == 2 ? 65536 : 256;
  for (int bits = 0; bits < num_patterns; ++bits) {
    const float value = static_cast<float>(T::FromBits(static_cast<Bits>(bits)));
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  for (int bits = 0; bits < num_patterns; ++bits) {
    const T number = T::FromBits(static_cast<Bits>(bits));
    const float value = static_cast<float>(number);
    const std::string text = SummarizeValue(Tensor::Scalar(number));
    if (std::isnan(value)) {
      ASSERT_EQ(text, "nan") << bits;
      continue;
    }
    const float read = std::strtof(text.c_str(), nullptr);
    ASSERT_EQ(static_cast<float>(T(read)), value) << bits << ": " << text;
    ASSERT_EQ(std::signbit(read), std::signbit(value)) << bits << ": " << text;
    if (std::isinf(value)) continue;
    ASSERT_LE(std::fabs(std::strtod(text.c_str(), nullptr)), static_cast<double>(largest) * (1 + 1e-15)) << text;

    // Both decimals around the number, with one digit less than was needed: where the exact integer is printed its own
    // digits do not count, as they cost no characters.
    const int digits = SignificantDigits(text);
    if (digits < 2 || text.find_first_of(".e") == std::string::npos) continue;
    std::array<char, 64> fewer;
    std::snprintf(fewer.data(), fewer.size(), "%.*e", digits - 2, static_cast<double>(value));
    const double nearest = std::strtod(fewer.data(), nullptr);
    const double unit =
        std::pow(10.0, std::atoi(std::string(fewer.data()).substr(std::string(fewer.data()).find('e') + 1).c_str()) -
                           (digits - 2));
    for (const double step : {-1.0, 0.0, 1.0}) {
      std::array<char, 64> candidate;
      std::snprintf(candidate.data(), candidate.size(), "%.*e", digits - 2, nearest + step * unit);
      const float other = std::strtof(candidate.data(), nullptr);
      if (std::fabs(value) == largest && std::fabs(other) > largest) continue;
      ASSERT_NE(static_cast<float>(T(other)), value) << text << " could be " << candidate.data();
    }
  }
}

TEST(Summary, OfComplexNumbers) {
  using C = std::complex<float>;
  EXPECT_EQ(Summary(Tensor::FromValues<C>({C(1, 2), C(-0.5f, -2), C(0, -0.0f), C(kNan, kInf), C(1, kNan)}), -1),
            "[1+2j -0.5-2j 0-0j nan+infj 1+nanj]");
  EXPECT_EQ(ElementToString(Tensor::Scalar(std::complex<double>(0.1, 1e300)), 0), "0.1+1e+300j");
}

TEST(Summary, OfStrings) {
  const Tensor tensor = Tensor::FromValues<std::string>(
      {"plain", "", "two words", "say \"hi\" \\ ", "\n\t\r", std::string("\x1b[2J\0\x7f\xff", 7)});
  EXPECT_EQ(Summary(tensor, -1), R"(["plain" "" "two words" "say \"hi\" \\ " "\n\t\r" "\x1b[2J\x00\x7f\xff"])");
  const std::string text = SummarizeValue(Tensor::Scalar<std::string>(std::string(1000000, 'x')));
  EXPECT_EQ(text, "\"" + std::string(256, 'x') + "\"... (1000000 bytes)");
}

TEST(Summary, OfSlices) {
  const Tensor tensor = Iota({4, 2});
  EXPECT_EQ(SummarizeValue(*tensor.Slice(1, 3)), "[[2 3] [4 5]]");
  EXPECT_EQ(ElementToString(*tensor.SubSlice(3), 1), "7");
  EXPECT_THAT(SummarizeValue(tensor), StartsWith("[[0 1]"));
}

TEST(SummaryDeathTest, NeedsTheElement) {
  EXPECT_DEATH(ElementToString(Tensor::Scalar(1), 1), "no such element");
  EXPECT_DEATH(ElementToString(Tensor::Scalar(1), -1), "no such element");
}

}  // namespace
}  // namespace tensorcask
