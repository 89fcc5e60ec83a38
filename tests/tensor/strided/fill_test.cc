// Fill, of copy.h.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/nested_values.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/strided/layout_model.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Model;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// The bytes of a T whose sizeof(T) bytes are 1, 2, 3 ... (a bool is 1).
template <typename T>
T Patterned() {
  T value;
  char bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(i + 1);
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

TEST(Fill, AssignsEachElementOfAnyDType) {
  const Layout layouts[] = {
      Layout::RowMajor(TensorShape({200})),
      Layout::RowMajor(TensorShape({})),
      *Layout::Create({7, 70}, {80, 1}, 3),          // rows with gaps
      *Layout::Create({70, 7}, {1, 80}, 0),          // columns
      *Layout::Create({100}, {-3}, 299),             // backwards, with gaps
      *Layout::Create({3, 0, 2}, {1, 5, 9}, 0),      // no elements
      *Layout::Create({2, 3, 4}, {-12, 4, -1}, 15),  // flipped
  };
  int num_dtypes = 0;
  for (int number = 0; number < 256; ++number) {
    const std::optional<DType> dtype = DTypeFromNumber(number);
    if (!dtype || !IsFixedSize(*dtype)) continue;
    ++num_dtypes;
    for (const Layout& layout : layouts) {
      EXPECT_OK(VisitDType(*dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Tensor memory = *Tensor::Zeros(*dtype, TensorShape({700}));
        TensorView view = *TensorView::Create(memory.buffer(), *dtype, layout);
        std::vector<char> wanted(700 * sizeof(T));
        for (const int64_t place : Model::Of(layout).places) {
          const T value = Patterned<T>();
          std::memcpy(&wanted[static_cast<size_t>(place) * sizeof(T)], &value, sizeof(T));
        }
        const absl::Status status = Fill(Patterned<T>(), &view);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), memory.buffer()->bytes().begin()))
            << DTypeName(*dtype) << " " << layout;
        return status;
      }));
    }
  }
#define CASK_ONE(id, number, T, name) +1
  EXPECT_EQ(num_dtypes, 0 CASK_FIXED_SIZE_DTYPES(CASK_ONE));
#undef CASK_ONE
}

// Elements whose bytes are all equal are written by memset. It must not write outside the view.
TEST(Fill, AssignsElementsOfEqualBytes) {
  const auto expect_filled = [](auto value) {
    using T = decltype(value);
    constexpr size_t kElements = 1100, kFirst = 5, kCount = 1000;
    for (const int num_threads : {1, 2}) {
      Tensor memory = *Tensor::Create(kDTypeOf<T>, TensorShape({kElements}));
      std::memset(memory.mutable_bytes().data(), 0x7e, memory.bytes().size());
      std::vector<T> wanted(kElements);
      std::memcpy(wanted.data(), memory.bytes().data(), memory.bytes().size());
      TensorView view = *TensorView(memory).Narrow(0, kFirst, kCount);
      ASSERT_OK(Fill(value, &view, {num_threads}));
      std::fill_n(wanted.begin() + kFirst, kCount, value);
      EXPECT_EQ(std::memcmp(wanted.data(), memory.bytes().data(), memory.bytes().size()), 0) << num_threads;
    }
  };
  expect_filled(uint8_t{7});
  expect_filled(int16_t{0x0505});
  expect_filled(int16_t{0x0506});
  expect_filled(int32_t{-1});
  expect_filled(0.0F);
  expect_filled(-0.0F);
  expect_filled(uint64_t{0x0707070707070707});
  expect_filled(uint64_t{0x0707070707070706});
  expect_filled(std::complex<double>(0, 0));
  expect_filled(std::complex<double>(0, 1));
}

TEST(Fill, KeepsBits) {
  TensorView view = *Tensor::Zeros(DType::kFloat32, TensorShape({100}));
  uint32_t bits = 0x7fa12345;  // a signalling NaN with a payload
  float nan;
  std::memcpy(&nan, &bits, sizeof(nan));
  ASSERT_OK(Fill(nan, &view));
  for (int i = 0; i < 100; ++i) {
    std::memcpy(&bits, view.data<float>() + i, sizeof(bits));
    EXPECT_EQ(bits, 0x7fa12345u) << i;
  }
  ASSERT_OK(Fill(-0.0f, &view));
  std::memcpy(&bits, view.data<float>() + 99, sizeof(bits));
  EXPECT_EQ(bits, 0x80000000u);
}

TEST(Fill, AssignsStrings) {
  const Tensor tensor = *Tensor::FromValues<std::string>({"a", "b", "c", "d"}).Reshape(TensorShape({2, 2}));
  TensorView column = *TensorView(tensor).Select(1, 1);
  const std::string text("\0 and a text that takes memory of its own", 41);
  ASSERT_OK(Fill(text, &column));
  EXPECT_THAT(std::vector<std::string>(tensor.data<std::string>(), tensor.data<std::string>() + 4),
              ElementsAre("a", text, "c", text));
}

TEST(Fill, TakesAnElementOfTheDestination) {
  const Tensor numbers = Tensor::FromValues<double>({{1, 2}, {3, 4}});
  TensorView view = numbers;
  ASSERT_OK(Fill(view.data<double>()[3], &view));
  EXPECT_THAT(std::vector<double>(numbers.data<double>(), numbers.data<double>() + 4), ElementsAre(4, 4, 4, 4));
  const Tensor strings = Tensor::FromValues<std::string>({"a text that takes memory of its own", "b"});
  TensorView texts = strings;
  ASSERT_OK(Fill(texts.data<std::string>()[0], &texts));
  EXPECT_EQ(strings.data<std::string>()[1], "a text that takes memory of its own");
}

TEST(Fill, IsTheSameOnSeveralThreads) {
  const Tensor memory = *Tensor::Zeros(DType::kInt16, TensorShape({1000, 1003}));
  TensorView part = *TensorView(memory).Slice(1, 1, 1001);
  ASSERT_OK(Fill(int16_t{0x1234}, &part, {/*num_threads=*/4}));
  const int16_t* const elements = memory.data<int16_t>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < memory.num_elements(); ++i) {
    const bool inside = i % 1003 >= 1 && i % 1003 < 1001;
    wrong += elements[i] != (inside ? 0x1234 : 0);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Fill, TakesAnElementOfMemoryThatIsReplaced) {
  // Read-only memory is given back as soon as the destination has memory of its own.
  double values[3] = {1, 2, 3};
  TensorBuffer::External memory;
  memory.data = values;
  memory.size_bytes = sizeof(values);
  memory.writable = false;
  memory.release = [&] { std::fill_n(values, 3, -1); };
  TensorView view = *TensorView::Create(TensorBuffer::WrapExternal(std::move(memory)), DType::kFloat64,
                                        Layout::RowMajor(TensorShape({3})));
  ASSERT_OK(Fill(values[1], &view));
  EXPECT_THAT(std::vector<double>(view.data<double>(), view.data<double>() + 3), ElementsAre(2, 2, 2));
}

// ---- Values of other types ------------------------------------------------------------------------------------------

using FillNumber = absl::Status (*)(TensorView* to);

struct ConvertedCase {
  const char* name;
  DType dtype;
  FillNumber fill;
  const char* wanted;  // as the summary shows it
};
const ConvertedCase kConverted[] = {
    {"DoubleToFloat", DType::kFloat32, [](TensorView* to) { return Fill(0.5, to); }, "0.5"},
    {"IntToFloat", DType::kFloat32, [](TensorView* to) { return Fill(3, to); }, "3"},
    {"LargeIntToFloat", DType::kFloat32, [](TensorView* to) { return Fill(16777217, to); }, "16777216"},
    {"BoolToFloat", DType::kFloat32, [](TensorView* to) { return Fill(true, to); }, "1"},
    {"DoubleToBfloat16", DType::kBfloat16, [](TensorView* to) { return Fill(1.0 + 0x1p-8 + 0x1p-40, to); }, "1.01"},
    {"FloatToHalf", DType::kFloat16, [](TensorView* to) { return Fill(-2.0f, to); }, "-2"},
    {"IntToFloat8", DType::kFloat8E4m3fn, [](TensorView* to) { return Fill(448, to); }, "448"},
    {"WholeDoubleToInt", DType::kInt32, [](TensorView* to) { return Fill(-3.0, to); }, "-3"},
    {"IntToUint8", DType::kUint8, [](TensorView* to) { return Fill(255, to); }, "255"},
    {"IntToInt4", DType::kInt4, [](TensorView* to) { return Fill(-8, to); }, "-8"},
    {"IntToQint8", DType::kQint8, [](TensorView* to) { return Fill(-128, to); }, "-128"},
    {"LongLong", DType::kInt64, [](TensorView* to) { return Fill(1LL << 62, to); }, "4611686018427387904"},
    {"Long", DType::kInt64, [](TensorView* to) { return Fill(-5L, to); }, "-5"},
    {"UnsignedLongLong", DType::kUint64, [](TensorView* to) { return Fill(~0ULL, to); }, "18446744073709551615"},
    {"OneToBool", DType::kBool, [](TensorView* to) { return Fill(1, to); }, "true"},
    {"RealToComplex", DType::kComplex64, [](TensorView* to) { return Fill(1.5, to); }, "1.5+0j"},
    {"ComplexWithoutImaginaryPart", DType::kFloat32,
     [](TensorView* to) { return Fill(std::complex<double>(2.5, 0), to); }, "2.5"},
    {"Literal", DType::kString, [](TensorView* to) { return Fill("cat", to); }, "\"cat\""},
    {"Pointer", DType::kString,
     [](TensorView* to) {
       const char* text = "cat";
       return Fill(text, to);
     },
     "\"cat\""},
    {"StringView", DType::kString, [](TensorView* to) { return Fill(absl::string_view("cats", 3), to); }, "\"cat\""},
};
class FillConverts : public ::testing::TestWithParam<ConvertedCase> {};
TEST_P(FillConverts, ToTheDTypeOfTheDestination) {
  const Tensor memory = *Tensor::Zeros(GetParam().dtype, TensorShape({2, 3}));
  TensorView column = *TensorView(memory).Select(1, 1);
  ASSERT_OK(GetParam().fill(&column));
  const std::string zero = Tensor::Zeros(GetParam().dtype, TensorShape({1}))->SummarizeValue(9);  // "[0]"
  const std::string other = zero.substr(1, zero.size() - 2);
  EXPECT_EQ(memory.SummarizeValue(9), absl::StrFormat("[[%s %s %s] [%s %s %s]]", other, GetParam().wanted, other, other,
                                                      GetParam().wanted, other));
}
INSTANTIATE_TEST_SUITE_P(All, FillConverts, ::testing::ValuesIn(kConverted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Fill, WithZero) {
  TensorView floats = Tensor::FromValues<float>({1, 2});
  ASSERT_OK(Fill(0, &floats));
  EXPECT_THAT(std::vector<float>(floats.data<float>(), floats.data<float>() + 2), ElementsAre(0, 0));
  TensorView bools = Tensor::FromValues<bool>({true, true});
  ASSERT_OK(Fill(0.0, &bools));
  EXPECT_THAT(std::vector<bool>(bools.data<bool>(), bools.data<bool>() + 2), ElementsAre(false, false));
}

struct RefusedCase {
  const char* name;
  DType dtype;
  FillNumber fill;
  const char* says;
};
const RefusedCase kRefused[] = {
    {"TooLarge", DType::kUint8, [](TensorView* to) { return Fill(300, to); }, "is 300; uint8 holds 0 to 255"},
    {"TooSmall", DType::kUint64, [](TensorView* to) { return Fill(-1LL, to); }, "is -1; uint64 holds 0 to"},
    {"NoInteger", DType::kInt32, [](TensorView* to) { return Fill(2.5, to); }, "is 2.5; int32 holds the integers -214"},
    {"NanToInt", DType::kInt8, [](TensorView* to) { return Fill(std::nan(""), to); }, "int8 holds the integers"},
    {"PastInt64", DType::kInt64, [](TensorView* to) { return Fill(0x1p63, to); }, "int64 holds the integers"},
    {"TwoToBool", DType::kBool, [](TensorView* to) { return Fill(2, to); }, "is 2; bool holds 0 to 1"},
    {"HalfToBool", DType::kBool, [](TensorView* to) { return Fill(0.5, to); }, "is 0.5; bool holds"},
    {"PastFloat", DType::kFloat32, [](TensorView* to) { return Fill(1e300, to); }, "is 1e+300; float32 holds"},
    {"PastFloat8", DType::kFloat8E4m3fn, [](TensorView* to) { return Fill(1000, to); }, "float8_e4m3fn holds -448 to"},
    {"ImaginaryPart", DType::kFloat64, [](TensorView* to) { return Fill(std::complex<float>(1, 2), to); }, "is 1+2j"},
    {"TextToNumber", DType::kFloat32, [](TensorView* to) { return Fill("cat", to); }, "is \"cat\"; float32 holds"},
    {"NumberToText", DType::kString, [](TensorView* to) { return Fill(1, to); }, "is 1; string holds text"},
    {"SmallFloat", DType::kFloat32, [](TensorView* to) { return Fill(bfloat16(1), to); }, "with a bfloat16 value"},
    {"Quantised", DType::kInt8, [](TensorView* to) { return Fill(qint8(1), to); }, "with a qint8 value"},
};
class FillRefuses : public ::testing::TestWithParam<RefusedCase> {};
TEST_P(FillRefuses, WithCodeAndMessageAndWritesNothing) {
  const Tensor memory = *Tensor::Zeros(GetParam().dtype, TensorShape({2, 3}));
  const std::string before = memory.SummarizeValue(9);
  TensorView view = memory;
  EXPECT_THAT(GetParam().fill(&view),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr(absl::StrCat("Fill of ", view.ToString())), HasSubstr(GetParam().says))));
  EXPECT_EQ(memory.SummarizeValue(9), before);
  TensorView none = *Tensor::Zeros(GetParam().dtype, TensorShape({0}));
  EXPECT_THAT(GetParam().fill(&none), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(All, FillRefuses, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// What Fill does not compile for.
template <typename T>
constexpr bool kIsRefused = !internal::kIsElement<T> && !internal::kIsPlainValue<T>;

TEST(Fill, DoesNotCompileForWhatIsNoElement) {
  enum Unscoped { kOne };
  static_assert(kIsRefused<char> && kIsRefused<wchar_t> && kIsRefused<long double> && kIsRefused<std::nullptr_t>);
  static_assert(kIsRefused<int*> && kIsRefused<void*> && kIsRefused<Unscoped> && kIsRefused<Tensor>);
  static_assert(kIsRefused<NestedValues> && kIsRefused<std::vector<NestedValues>> && kIsRefused<std::vector<int>>);
  static_assert(!kIsRefused<long> && !kIsRefused<long long> && !kIsRefused<char[4]> && !kIsRefused<std::string>);
}

}  // namespace
}  // namespace tensorcask
