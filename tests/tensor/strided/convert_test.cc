// Convert between layouts, on shared memory, and its errors. What becomes of values: convert_values_test.cc.

#include "tensorcask/tensor/strided/convert.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::FailingAllocator;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

// ---- Layouts --------------------------------------------------------------------------------------------------------

// int32 0, 1, 2, ... of these dims.
TensorView Counting(const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(DType::kInt32, shape);
  int32_t* const data = tensor.mutable_data<int32_t>();
  for (int64_t i = 0; i < shape.num_elements(); ++i) data[i] = static_cast<int32_t>(i);
  return tensor;
}

// Calls fn(number of the element in row-major order, its place) for each element.
template <typename Fn>
void ForEachElement(const Layout& layout, Fn&& fn) {
  for (int64_t i = 0; i < layout.num_elements(); ++i) {
    int64_t rest = i;
    int64_t place = 0;  // from the first element
    for (int axis = layout.rank(); axis-- > 0;) {
      place += rest % layout.dim(axis) * layout.stride(axis);
      rest /= layout.dim(axis);
    }
    fn(i, place);
  }
}

// `view` of int32 as doubles in row-major order.
std::vector<double> Ints(const TensorView& view) {
  std::vector<double> values;
  ForEachElement(view.layout(), [&](int64_t, int64_t place) { values.push_back(view.data<int32_t>()[place]); });
  return values;
}
std::vector<double> Doubles(const TensorView& view) {
  std::vector<double> values;
  ForEachElement(view.layout(), [&](int64_t, int64_t place) { values.push_back(view.data<double>()[place]); });
  return values;
}

// A view of `view`, drawn at random.
TensorView Drawn(TensorView view, std::mt19937* random, bool may_expand) {
  for (int step = 0; step < 4 && view.rank() > 0; ++step) {
    const auto axis = static_cast<int64_t>((*random)() % static_cast<unsigned>(view.rank()));
    switch ((*random)() % (may_expand ? 5 : 4)) {
      case 0:
        view = *view.Transpose(0, axis);
        break;
      case 1:
        view = *view.Flip({axis});
        break;
      case 2:
        view = *view.Slice(axis, static_cast<int64_t>((*random)() % 2), std::nullopt, 1 + (*random)() % 3);
        break;
      case 3:
        view = *view.Unsqueeze(axis);
        break;
      case 4: {
        std::vector<int64_t> dims(view.dims().begin(), view.dims().end());
        dims.insert(dims.begin(), 3);
        view = *view.Expand(dims);
        break;
      }
    }
  }
  return view;
}

TEST(ConvertLayouts, AnyToAny) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int64_t> sizes;
    for (const size_t rank = random() % 5; sizes.size() < rank;) sizes.push_back(random() % (seed % 10 == 0 ? 14 : 6));
    const TensorView from = Drawn(Counting(*TensorShape::Create(sizes)), &random, /*may_expand=*/true);
    // Room for a destination of the same dims between other elements, in another order.
    std::vector<int64_t> order(static_cast<size_t>(from.rank()));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<int64_t> room(order.size());
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      room[i] = 2 * from.dim(static_cast<int>(order[i])) + 1;
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    Tensor memory = *Tensor::Create(DType::kFloat64, *TensorShape::Create(room));
    for (int64_t i = 0; i < memory.num_elements(); ++i) memory.mutable_data<double>()[i] = -1;
    TensorView to = *TensorView(memory).Permute(back);
    for (int axis = 0; axis < to.rank(); ++axis) {
      to =
          *to.Slice(axis, 0, from.dim(axis) * (1 + static_cast<int64_t>(seed % 2)), 1 + static_cast<int64_t>(seed % 2));
    }
    ASSERT_EQ(to.dims(), from.dims());
    CopyOptions options;
    options.num_threads = 1 + static_cast<int>(random() % 3);
    ASSERT_OK(Convert(from, &to, options));
    ASSERT_EQ(Doubles(to), Ints(from)) << from << " to " << to;
    const auto untouched = std::count(memory.data<double>(), memory.data<double>() + memory.num_elements(), -1.0);
    EXPECT_EQ(untouched, memory.num_elements() - to.num_elements());
  }
}

// The smaller elements are brought into order, not the larger ones.
TEST(ConvertLayouts, ToSmallerElements) {
  const std::vector<std::vector<int64_t>> shapes = {
      {8, 12},    {97},         {3, 5, 7},   {2, 16, 5, 5}, {32, 32},      {41, 25},      {64, 64},
      {127, 129}, {2, 3, 8, 8}, {90, 3, 70}, {3, 401, 17},  {1000, 3, 41}, {300, 1, 401}, {5, 7, 65, 63}};
  for (const std::vector<int64_t>& shape : shapes) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      std::mt19937 random(seed);
      std::vector<int64_t> order(shape.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      std::shuffle(order.begin(), order.end(), random);
      TensorView from = *Counting(*TensorShape::Create(shape)).Permute(order);
      if (seed % 3 == 1) from = *from.Flip({0});
      if (seed % 3 == 2) from = *from.Slice(-1, 0, std::nullopt, 2);
      SCOPED_TRACE(from.ToString());
      Tensor memory = *Tensor::Zeros(DType::kInt16, TensorShape({from.num_elements() + 2}));
      TensorView to = *(*TensorView(memory).Narrow(0, 1, from.num_elements())).Reshape(from.dims());
      CopyOptions options;
      options.num_threads = 1 + static_cast<int>(seed % 2) * 2;
      ASSERT_OK(Convert(from, &to, options));
      const std::vector<double> expected = Ints(from);
      const int16_t* const results = to.data<int16_t>();
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(results[i], std::min(expected[i], 32767.0)) << i;
      ASSERT_EQ(memory.data<int16_t>()[0], 0);
      ASSERT_EQ(memory.data<int16_t>()[from.num_elements() + 1], 0);
    }
  }
}

// Windows over one row of numbers: the next window begins where a tile of another one may be cut.
TEST(ConvertLayouts, OfWindowsThatOverlap) {
  const TensorView numbers = Counting(TensorShape({60000}));
  for (const int64_t step : {16, 32, 64, 128, 256}) {
    for (const int64_t length : {100, 130, 200, 500}) {
      const TensorView windows = *numbers.Unfold(0, length, step);
      for (const bool transposed : {false, true}) {
        const TensorView from = transposed ? *windows.Transpose(0, 1) : windows;
        for (const DType dtype : {DType::kFloat64, DType::kInt32, DType::kFloat32}) {
          SCOPED_TRACE(absl::StrCat(from.ToString(), " to ", DTypeName(dtype)));
          if (dtype == DType::kFloat64) {
            EXPECT_TRUE(Doubles(*ConvertTo(from, dtype, MemoryFormat::kContiguous)) == Ints(from));
            continue;
          }
          // From larger elements: float64 to float32 or int32.
          TensorView doubles = *ConvertTo(numbers, DType::kFloat64);
          doubles = *doubles.Unfold(0, length, step);
          if (transposed) doubles = *doubles.Transpose(0, 1);
          const TensorView back = *ConvertTo(*ConvertTo(doubles, dtype, MemoryFormat::kContiguous), DType::kFloat64);
          EXPECT_TRUE(Doubles(back) == Ints(from));
        }
      }
    }
  }
}

// An instruction that rounds treats subnormal numbers as zeros.
TEST(ConvertBfloat16, RoundsSubnormalNumbersAmongOthers) {
  std::mt19937 random(1);
  for (const int64_t count : {1, 15, 16, 17, 48, 64, 65, 127, 200, 5000}) {
    for (const int one_in : {1, 3, 70, 1000}) {
      Tensor from = *Tensor::Create(DType::kFloat32, TensorShape({count}));
      for (int64_t i = 0; i < count; ++i) {
        auto bits = static_cast<uint32_t>(random());
        if (random() % static_cast<unsigned>(one_in) == 0) bits &= 0x807fffff;
        std::memcpy(&from.mutable_data<float>()[i], &bits, sizeof(bits));
      }
      Tensor to = *Tensor::Create(DType::kBfloat16, TensorShape({count}));
      TensorView view = to;
      ASSERT_OK(Convert(from, &view));
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(view.data<bfloat16>()[i].bits(), bfloat16(from.data<float>()[i]).bits()) << i << " of " << count;
      }
    }
  }
}

#if defined(__SSE2__)
// Even if the program lets the processor treat subnormal numbers as zeros.
TEST(ConvertBfloat16, RoundsSubnormalNumbersWhereTheProcessorSkipsThem) {
  constexpr unsigned kFlushToZeroAndDenormalsAreZeros = 0x8040;
  Tensor from = *Tensor::Create(DType::kFloat32, TensorShape({200}));
  for (uint32_t i = 0; i < 200; ++i) {
    const uint32_t bits = 0x00012345 * (i % 50) + (i % 3 == 0 ? 0x80000000 : 0);
    std::memcpy(&from.mutable_data<float>()[i], &bits, sizeof(bits));
  }
  const TensorView expected = *ConvertTo(from, DType::kBfloat16);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZeroAndDenormalsAreZeros);
  const absl::StatusOr<TensorView> rounded = ConvertTo(from, DType::kBfloat16);
  _mm_setcsr(before);
  ASSERT_OK(rounded.status());
  EXPECT_EQ(rounded->bytes(), expected.bytes());
  EXPECT_NE(expected.data<bfloat16>()[1].bits(), 0);
}
#endif

struct LargeCase {
  const char* name;
  std::vector<int64_t> dims;
  std::vector<int64_t> order;
};
class ConvertLarge : public ::testing::TestWithParam<LargeCase> {};

TEST_P(ConvertLarge, InTiles) {
  const TensorView from = *Counting(*TensorShape::Create(GetParam().dims)).Permute(GetParam().order);
  for (const int num_threads : {1, 3}) {
    CopyOptions options;
    options.num_threads = num_threads;
    ASSERT_OK_AND_ASSIGN(const TensorView rows, ConvertTo(from, DType::kFloat64, MemoryFormat::kContiguous, options));
    EXPECT_TRUE(rows.IsContiguous());
    EXPECT_TRUE(Doubles(rows) == Ints(from));
    ASSERT_OK_AND_ASSIGN(TensorView same, ConvertTo(from, DType::kFloat64, MemoryFormat::kPreserve, options));
    EXPECT_EQ(same.strides(), from.strides());
    EXPECT_TRUE(Doubles(same) == Ints(from));
    // Into memory that is in use, and no multiple of a cache line.
    Tensor memory = *Tensor::Create(DType::kFloat64, TensorShape({from.num_elements() + 2}));
    memory.mutable_data<double>()[0] = memory.mutable_data<double>()[from.num_elements() + 1] = -7;
    TensorView middle = *(*TensorView(memory).Narrow(0, 1, from.num_elements())).Reshape(from.dims());
    ASSERT_OK(Convert(from, &middle, options));
    EXPECT_TRUE(Doubles(middle) == Ints(from));
    EXPECT_EQ(memory.data<double>()[0], -7);
    EXPECT_EQ(memory.data<double>()[from.num_elements() + 1], -7);
    // And back: elements that lie apart on both sides.
    TensorView flipped = *(*Counting(*TensorShape::Create(GetParam().dims)).Flip({0})).Permute(GetParam().order);
    ASSERT_OK(Convert(*rows.Flip({0}), &flipped, options));
    EXPECT_TRUE(Ints(flipped) == Doubles(*rows.Flip({0})));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvertLarge,
    ::testing::Values(LargeCase{"Rows", {1000, 301}, {0, 1}}, LargeCase{"Columns", {1000, 301}, {1, 0}},
                      LargeCase{"LongColumns", {3, 100001}, {1, 0}}, LargeCase{"WideRows", {100001, 3}, {1, 0}},
                      LargeCase{"Reversed", {61, 67, 59}, {2, 1, 0}}, LargeCase{"Rotated", {61, 67, 59}, {1, 2, 0}},
                      LargeCase{"Images", {5, 7, 65, 63}, {0, 2, 3, 1}}),
    [](const auto& info) { return std::string(info.param.name); });

// Large enough for non-temporal stores. The memory was written before, and is not aligned to a cache line.
TEST(ConvertLayouts, PastTheCaches) {
  constexpr int64_t kColumns = 1001;
  constexpr int64_t kBytes = sizeof(int32_t) + sizeof(double);
  const int64_t num_rows = GetCpuTuning().stream_bytes / 2 / kBytes / kColumns + 2;
  const TensorView matrix = Counting(TensorShape({num_rows, kColumns}));
  for (const TensorView& from : {matrix, *matrix.Transpose(0, 1)}) {
    const std::vector<double> wanted = Ints(from);
    for (const int num_threads : {1, 3}) {
      Tensor memory = *Tensor::Create(DType::kFloat64, TensorShape({from.num_elements() + 2}));
      std::fill_n(memory.mutable_data<double>(), memory.num_elements(), -7);
      TensorView middle = *(*TensorView(memory).Narrow(0, 1, from.num_elements())).Reshape(from.dims());
      CopyOptions options;
      options.num_threads = num_threads;
      ASSERT_OK(Convert(from, &middle, options));
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), memory.data<double>() + 1));
      EXPECT_EQ(memory.data<double>()[0], -7);
      EXPECT_EQ(memory.data<double>()[from.num_elements() + 1], -7);
    }
  }
}

TEST(ConvertLayouts, ScalarsAndEmptyOnes) {
  ASSERT_OK_AND_ASSIGN(const TensorView scalar, ConvertTo(Tensor::Scalar(2.5), DType::kInt8));
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(*scalar.data<int8_t>(), 2);
  ASSERT_OK_AND_ASSIGN(const TensorView empty, ConvertTo(TensorView(), DType::kInt8));
  EXPECT_EQ(empty.dims(), absl::Span<const int64_t>({0}));
  TensorView none;
  EXPECT_OK(Convert(empty, &none));
}

TEST(ConvertLayouts, ChannelsLast) {
  const TensorView images = Counting(TensorShape({2, 3, 4, 5}));
  ASSERT_OK_AND_ASSIGN(const TensorView last, ConvertTo(images, DType::kFloat64, MemoryFormat::kChannelsLast2d));
  EXPECT_TRUE(last.IsContiguous(MemoryFormat::kChannelsLast2d));
  EXPECT_EQ(Doubles(last), Ints(images));
}

TEST(ConvertLayouts, QuantisedAreIntegers) {
  Tensor tensor = *Tensor::Create(DType::kQint8, TensorShape({3}));
  for (int i = 0; i < 3; ++i) tensor.mutable_data<qint8>()[i] = qint8(static_cast<int8_t>(i - 1));
  ASSERT_OK_AND_ASSIGN(const TensorView plain, ConvertTo(tensor, DType::kInt8));
  EXPECT_EQ(plain.data<int8_t>()[0], -1);
  ASSERT_OK_AND_ASSIGN(const TensorView counts, ConvertTo(tensor, DType::kQuint16));
  EXPECT_EQ(counts.data<quint16>()[0].value, 0);
  EXPECT_EQ(counts.data<quint16>()[2].value, 1);
}

// ---- Shared memory --------------------------------------------------------------------------------------------------

// Two views of one buffer that start `shift` bytes apart: the result is that of a source copied aside.
TEST(ConvertOverlap, IsAsIfCopiedAside) {
  for (const size_t from_at : {0, 8, 64, 400}) {
    for (const size_t to_at : {0, 8, 64, 400}) {
      SCOPED_TRACE(absl::StrCat(from_at, " to ", to_at));
      const RefPtr<TensorBuffer> buffer = *TensorBuffer::Allocate(2000);
      const Layout from_layout = *Layout::Create({100}, {-1}, static_cast<int64_t>(from_at / 4 + 99));
      const Layout to_layout = *Layout::Create({100}, {1}, static_cast<int64_t>(to_at / 8));
      TensorView from = *TensorView::Create(buffer, DType::kInt32, from_layout);
      TensorView to = *TensorView::Create(buffer, DType::kFloat64, to_layout);
      for (int i = 0; i < 100; ++i) from.mutable_data<int32_t>()[-i] = i * i;
      ASSERT_OK(Convert(from, &to));
      for (int i = 0; i < 100; ++i) ASSERT_EQ(to.data<double>()[i], i * i) << i;
    }
  }
}

TEST(ConvertOverlap, OfMemoryWrappedTwice) {
  alignas(8) int32_t memory[64];
  for (int i = 0; i < 64; ++i) memory[i] = i;
  const auto wrap = [&] {
    TensorBuffer::External external;
    external.data = memory;
    external.size_bytes = sizeof(memory);
    return TensorBuffer::WrapExternal(std::move(external));
  };
  const TensorView from = *TensorView::Create(wrap(), DType::kInt32, *Layout::Create({32}, {1}));
  TensorView to = *TensorView::Create(wrap(), DType::kFloat64, *Layout::Create({32}, {1}));
  ASSERT_OK(Convert(from, &to));
  for (int i = 0; i < 32; ++i) ASSERT_EQ(to.data<double>()[i], i);
}

TEST(ConvertOverlap, LeavesTheOtherSideOfALazyCloneAlone) {
  const TensorView numbers = Counting(TensorShape({1000}));
  const RefPtr<TensorBuffer> clone = *numbers.buffer()->LazyClone();
  TensorView floats = *TensorView::Create(clone, DType::kFloat32, numbers.layout());
  ASSERT_OK(Convert(numbers, &floats));
  EXPECT_EQ(floats.data<float>()[999], 999.0f);
  EXPECT_EQ(numbers.data<int32_t>()[999], 999);
}

// ---- Few elements ---------------------------------------------------------------------------------------------------

// Elements of any bits of `dtype`, `count` of them after `skipped` others.
TensorView AnyBits(DType dtype, int64_t skipped, int64_t count) {
  Tensor tensor = *Tensor::Zeros(dtype, TensorShape({skipped + count}));
  std::mt19937 random(static_cast<unsigned>(count));
  const auto bound = dtype == DType::kBool ? 2U : 256U;
  for (char& byte : tensor.mutable_bytes()) byte = static_cast<char>(random() % bound);
  return *TensorView(tensor).Narrow(0, skipped, count);
}

// The bytes of `from` as `to`, one element at a time: a single element has no neighbours.
std::string OneByOne(const TensorView& from, DType to) {
  std::string bytes;
  TensorView single = *Tensor::Create(to, TensorShape({1}));
  for (int64_t i = 0; i < from.dim(0); ++i) {
    EXPECT_OK(Convert(*from.Narrow(0, i, 1), &single));
    bytes.append(single.bytes().data(), single.bytes().size());
  }
  return bytes;
}

class ConvertFew : public ::testing::TestWithParam<std::pair<DType, DType>> {};

TEST_P(ConvertFew, OfAnyNumberAreConvertedAsOneIsAndNothingElseIsWritten) {
  const auto [from_dtype, to_dtype] = GetParam();
  for (const int64_t skipped : {0, 1, 3}) {
    const TensorView most = AnyBits(from_dtype, skipped, 300);
    const std::string expected = OneByOne(most, to_dtype);
    const size_t size = ElementSize(to_dtype);
    std::vector<int64_t> counts = {127, 128, 129, 191, 200, 255, 256, 257, 300};
    for (int64_t count = 0; count <= 70; ++count) counts.push_back(count);
    for (const int64_t count : counts) {
      Tensor memory = *Tensor::Zeros(to_dtype, TensorShape({skipped + count + 2}));
      TensorView to = *TensorView(memory).Narrow(0, skipped, count);
      ASSERT_OK(Convert(*most.Narrow(0, 0, count), &to));
      const absl::string_view bytes = memory.bytes();
      const size_t begin = static_cast<size_t>(skipped) * size;
      const size_t end = begin + static_cast<size_t>(count) * size;
      ASSERT_EQ(bytes.substr(begin, end - begin), expected.substr(0, end - begin)) << count;
      ASSERT_EQ(bytes.substr(0, begin), std::string(begin, '\0')) << count;
      ASSERT_EQ(bytes.substr(end), std::string(2 * size, '\0')) << count;
    }
  }
}

std::vector<std::pair<DType, DType>> SomePairs() {
  std::vector<std::pair<DType, DType>> pairs;
  const std::vector<DType> dtypes = {DType::kFloat32,   DType::kFloat64, DType::kFloat16,      DType::kBfloat16,
                                     DType::kInt8,      DType::kUint8,   DType::kInt16,        DType::kInt32,
                                     DType::kInt64,     DType::kUint64,  DType::kFloat8E4m3fn, DType::kBool,
                                     DType::kComplex64, DType::kQint8};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      if (from != to) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}
INSTANTIATE_TEST_SUITE_P(Pairs, ConvertFew, ::testing::ValuesIn(SomePairs()), [](const auto& info) {
  return absl::StrCat(DTypeName(info.param.first), "_", DTypeName(info.param.second));
});

TEST(ConvertFewElements, ThatOverlapAreConvertedAsIfCopiedAside) {
  for (const int64_t count : {1, 5, 16, 63, 64, 70}) {
    for (int64_t distance = 0; distance <= 4; ++distance) {
      const TensorView floats = Counting(TensorShape({200}));
      const TensorView ints = *floats.Narrow(0, 4, count);
      TensorView to = *(*floats.Bitcast(DType::kFloat32)).Narrow(0, distance, count);
      ASSERT_OK(Convert(ints, &to));
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(to.data<float>()[i], static_cast<float>(4 + i)) << i;
    }
  }
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

TEST(ConvertErrors, DimsDiffer) {
  TensorView to = *Tensor::Create(DType::kFloat32, TensorShape({3, 2}));
  EXPECT_THAT(
      Convert(Counting(TensorShape({2, 3})), &to),
      StatusIs(Code::kInvalidArgument, HasSubstr("Convert of int32 [2,3] strides [3,1] offset 0 to float32 [3,2] "
                                                 "strides [2,1] offset 0: the dims differ")));
}

TEST(ConvertErrors, DestinationThatOverlapsItself) {
  TensorView to = *TensorView(*Tensor::Create(DType::kFloat32, TensorShape({1}))).Expand({4});
  EXPECT_THAT(Convert(Counting(TensorShape({4})), &to), StatusIs(Code::kInvalidArgument, HasSubstr("several indices")));
}

TEST(ConvertErrors, DTypesWithoutAFixedSize) {
  const TensorView numbers = Counting(TensorShape({2}));
  TensorView strings = *Tensor::Create(DType::kString, TensorShape({2}));
  EXPECT_THAT(Convert(numbers, &strings), StatusIs(Code::kUnimplemented, HasSubstr("Convert of int32 to string")));
  EXPECT_THAT(ConvertTo(strings, DType::kInt32), StatusIs(Code::kUnimplemented, HasSubstr("string to int32")));
  EXPECT_THAT(ConvertTo(numbers, DType::kVariant), StatusIs(Code::kUnimplemented, HasSubstr("to variant")));
  EXPECT_THAT(ConvertTo(numbers, DType::kResource), StatusIs(Code::kUnimplemented, HasSubstr("to resource")));
  EXPECT_THAT(ConvertTo(numbers, DType::kInvalid),
              StatusIs(Code::kInvalidArgument, HasSubstr("no tensor has this dtype")));
  EXPECT_THAT(ConvertTo(numbers, DType::kInt8, MemoryFormat::kChannelsLast2d),
              StatusIs(Code::kInvalidArgument, HasSubstr("is for rank 4")));
}

TEST(ConvertErrors, StringsAreCopiedAsStrings) {
  const TensorView words = Tensor::FromValues<std::string>({"a", std::string(100, 'b')});
  ASSERT_OK_AND_ASSIGN(const TensorView copy, ConvertTo(*words.Flip({0}), DType::kString));
  EXPECT_EQ(copy.data<std::string>()[0], std::string(100, 'b'));
  EXPECT_FALSE(copy.SharesBufferWith(words));
}

TEST(ConvertErrors, MemoryThatCannotBeHad) {
  const auto allocator = MakeRef<FailingAllocator>(1);
  EXPECT_THAT(ConvertTo(Counting(TensorShape({1000})), DType::kFloat64, MemoryFormat::kPreserve, {}, allocator),
              StatusIs(Code::kResourceExhausted, HasSubstr("8000")));
  // The private copy of memory that must not be written.
  int32_t memory[1000] = {7};
  TensorBuffer::External external;
  external.data = memory;
  external.size_bytes = sizeof(memory);
  external.writable = false;
  external.allocator = MakeRef<FailingAllocator>(1);
  TensorView to = *TensorView::Create(TensorBuffer::WrapExternal(std::move(external)), DType::kFloat32,
                                      *Layout::Create({1000}, {1}));
  EXPECT_THAT(Convert(Counting(TensorShape({1000})), &to), StatusIs(Code::kResourceExhausted, HasSubstr("4000")));
  EXPECT_EQ(memory[0], 7);
}

TEST(ConvertErrors, BuffersWithoutData) {
  const RefPtr<TensorBuffer> nothing = TensorBuffer::MakeWithoutData(4000, "only the shape was read");
  TensorView view = *TensorView::Create(nothing, DType::kFloat32, *Layout::Create({1000}, {1}));
  EXPECT_THAT(ConvertTo(view, DType::kFloat64), StatusIs(Code::kFailedPrecondition, HasSubstr("only the shape")));
  EXPECT_THAT(Convert(Counting(TensorShape({1000})), &view),
              StatusIs(Code::kFailedPrecondition, HasSubstr("only the shape")));
}

}  // namespace
}  // namespace tensorcask
