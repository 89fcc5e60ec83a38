#include "tensorcask/tensor/strided/copy.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/strided/layout_model.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllocationsOf;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::FailingNothrowNew;
using ::tensorcask::testing::Model;
using ::tensorcask::testing::Numbers;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// 0, 1, 2 ... in fresh memory.
Tensor Counting(std::initializer_list<int64_t> dims, const RefPtr<Allocator>& allocator = CpuAllocator::Default()) {
  Tensor tensor = *Tensor::Create(DType::kInt32, TensorShape(dims), allocator);
  int32_t* const values = tensor.mutable_data<int32_t>();
  std::iota(values, values + tensor.num_elements(), 0);
  return tensor;
}

// All elements, row-major, by nothing but the geometry.
template <typename T>
std::vector<T> Elements(const TensorView& view) {
  std::vector<T> elements;
  const T* const base = static_cast<const T*>(view.buffer()->data());
  for (const int64_t place : Model::Of(view.layout()).places) elements.push_back(base[place]);
  return elements;
}

TEST(Copy, AssignsElementsOfEqualIndex) {
  const Tensor from = Counting({2, 3});
  TensorView to = Counting({3, 2});
  ASSERT_OK(Copy(*TensorView(from).Transpose(0, 1), &to));
  EXPECT_THAT(Elements<int32_t>(to), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Copy, LeavesWhatIsNotInTheDestination) {
  const Tensor from = Counting({3});
  const Tensor memory = Counting({8});
  TensorView to = *TensorView(memory).Slice(0, 6, 0, -2);  // 6, 4, 2
  ASSERT_OK(Copy(from, &to));
  EXPECT_THAT(Elements<int32_t>(memory), ElementsAre(0, 1, 2, 3, 1, 5, 0, 7));
}

TEST(Copy, TakesScalarsAndNoElements) {
  const Tensor from = Tensor::Scalar<int32_t>(7);
  TensorView to = Tensor::Scalar<int32_t>(0);
  ASSERT_OK(Copy(from, &to));
  EXPECT_EQ(*to.data<int32_t>(), 7);
  TensorView nothing = *Tensor::Create(DType::kInt32, TensorShape({0, 3}));
  EXPECT_OK(Copy(*Tensor::Create(DType::kInt32, TensorShape({0, 3})), &nothing));
  TensorView no_buffer;
  EXPECT_OK(Copy(TensorView(), &no_buffer));
}

// A stride along which nothing is stepped may be anything, and must not be multiplied (shown by a sanitizer).
TEST(Copy, AxesOfOneElementMayHaveAnyStride) {
  const Tensor from = Tensor::FromValues<double>({1, 2, 3});
  const Tensor to = *Tensor::Zeros(DType::kFloat64, TensorShape({3}));
  for (const int64_t stride : {int64_t{1} << 61, INT64_MAX, INT64_MIN}) {
    for (const bool in_front : {false, true}) {
      const std::vector<int64_t> dims = in_front ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{3, 1};
      const std::vector<int64_t> strides = in_front ? std::vector<int64_t>{stride, 1} : std::vector<int64_t>{1, stride};
      ASSERT_OK_AND_ASSIGN(const TensorView source, TensorView(from).AsStrided(dims, strides));
      ASSERT_OK_AND_ASSIGN(TensorView target, TensorView(to).AsStrided(dims, strides));
      ASSERT_OK(Fill(0.0, &target));
      ASSERT_OK(Copy(source, &target));
      EXPECT_THAT(Elements<double>(to), ElementsAre(1, 2, 3));
    }
  }
  // Also beside axes that are not dense.
  const Tensor apart = Tensor::FromValues<double>({1, 0, 2, 0, 3});
  for (const int64_t stride : {int64_t{1} << 61, INT64_MAX}) {
    for (const auto& [dims, strides] : {std::pair<std::vector<int64_t>, std::vector<int64_t>>({1, 3}, {stride, 2}),
                                        {{3, 1}, {2, stride}},
                                        {{1, 3, 1}, {stride, 2, stride}}}) {
      ASSERT_OK_AND_ASSIGN(const TensorView source, TensorView(apart).AsStrided(dims, strides));
      TensorView target = *Tensor::Zeros(DType::kFloat64, source.shape());
      ASSERT_OK(Copy(source, &target));
      EXPECT_THAT(Elements<double>(target), ElementsAre(1, 2, 3));
      EXPECT_THAT(Elements<double>(*source.ToTensor()), ElementsAre(1, 2, 3));
      EXPECT_THAT(Elements<double>(*source.Clone()), ElementsAre(1, 2, 3));
      TensorView floats = *Tensor::Zeros(DType::kFloat32, source.shape());
      ASSERT_OK(Convert(source, &floats));
      EXPECT_THAT(Elements<float>(floats), ElementsAre(1, 2, 3));
    }
  }
}

// Few elements take a short way, but not to memory that must move first.
TEST(Copy, FewElementsToMemoryThatIsNotWritable) {
  const TensorView from = *TensorView(Tensor::FromValues<int16_t>({{1, 2, 3}, {4, 5, 6}})).Transpose(0, 1);
  for (const bool is_lazy : {false, true}) {
    for (const DType dtype : {DType::kInt16, DType::kUint16}) {
      const Tensor shared = *Tensor::Zeros(DType::kInt16, TensorShape({512}));  // so many that a lazy clone shares them
      TensorBuffer::External memory;
      memory.data = const_cast<int16_t*>(shared.data<int16_t>());
      memory.size_bytes = 1024;
      memory.writable = false;
      const RefPtr<TensorBuffer> buffer =
          is_lazy ? *shared.buffer()->LazyClone() : TensorBuffer::WrapExternal(std::move(memory));
      EXPECT_FALSE(buffer->HasWritableMemory());
      TensorView to = *TensorView::Create(buffer, dtype, *Layout::Create({3, 2}, {2, 1}));
      const uint64_t version = buffer->version();
      ASSERT_OK(dtype == from.dtype() ? Copy(from, &to) : Convert(from, &to));
      EXPECT_TRUE(buffer->HasWritableMemory());
      EXPECT_EQ(buffer->version(), version + 1);
      EXPECT_THAT(Elements<int16_t>(*to.Bitcast(DType::kInt16)), ElementsAre(1, 4, 2, 5, 3, 6));
      EXPECT_EQ(shared.flat<int16_t>()[1], 0) << "moved to other memory";
    }
  }
}

TEST(Copy, BroadcastsThroughExpand) {
  const Tensor row = Counting({3});
  TensorView to = Counting({2, 3});
  ASSERT_OK(Copy(*TensorView(row).Expand({2, 3}), &to));
  EXPECT_THAT(Elements<int32_t>(to), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Copy, AssignsStrings) {
  const Tensor from = Tensor::FromValues<std::string>({{"a", std::string(1000, 'b'), ""}, {"c", "d", "e"}});
  TensorView to = *Tensor::Zeros(DType::kString, TensorShape({3, 2}));
  const TensorView source = *TensorView(from).Transpose(0, 1);
  ASSERT_OK(Copy(source, &to));
  EXPECT_EQ(Elements<std::string>(to), Elements<std::string>(source));
  EXPECT_EQ(from.data<std::string>()[1].size(), 1000u) << "the source is as it was";
}

TEST(Copy, IsTheSameOnSeveralThreads) {
  const Tensor from = Counting({700, 3, 301});
  for (const Numbers& axes : {Numbers({0, 1, 2}), Numbers({2, 1, 0}), Numbers({2, 0, 1}), Numbers({1, 0, 2})}) {
    const TensorView source = *TensorView(from).Permute(axes);
    TensorView one = *Tensor::Create(DType::kInt32, source.shape());
    TensorView many = *Tensor::Create(DType::kInt32, source.shape());
    ASSERT_OK(Copy(source, &one));
    for (const int num_threads : {2, 5, 2000, 0, -1}) {
      ASSERT_OK(Fill(int32_t{-1}, &many));
      ASSERT_OK(Copy(source, &many, {num_threads}));
      EXPECT_EQ(one.buffer()->bytes(), many.buffer()->bytes()) << num_threads << " threads, " << source;
    }
    EXPECT_EQ(Elements<int32_t>(one), Elements<int32_t>(source));
  }
}

// ---- What is refused ------------------------------------------------------------------------------------------------

TEST(Copy, RefusesOtherDTypesAndDims) {
  const Tensor from = Counting({2, 3});
  TensorView floats = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}));
  EXPECT_THAT(Copy(from, &floats),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("int32 [2,3]"), HasSubstr("float32 [2,3]"), HasSubstr("the dtypes differ"))));
  TensorView turned = Counting({3, 2});
  EXPECT_THAT(Copy(from, &turned),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("int32 [2,3]"), HasSubstr("int32 [3,2]"), HasSubstr("the dims differ"))));
  EXPECT_THAT(Elements<int32_t>(turned), ElementsAre(0, 1, 2, 3, 4, 5));
  TensorView more = Counting({1, 2, 3});
  EXPECT_THAT(Copy(from, &more), StatusIs(Code::kInvalidArgument, HasSubstr("the dims differ")));
}

TEST(Copy, RefusesADestinationThatOverlapsItself) {
  const Tensor from = Counting({2, 3});
  const Tensor memory = Counting({4});
  TensorView repeated = *TensorView(memory).AsStrided({2, 3}, {0, 1});
  TensorView windows = *TensorView(memory).AsStrided({2, 3}, {1, 1});
  for (TensorView* to : {&repeated, &windows}) {
    EXPECT_THAT(Copy(from, to), StatusIs(Code::kInvalidArgument,
                                         AllOf(HasSubstr("int32 [2,3] strides [3,1]"), HasSubstr(to->ToString()),
                                               HasSubstr("several indices for one element"))));
    EXPECT_THAT(Fill(int32_t{9}, to), StatusIs(Code::kInvalidArgument, HasSubstr("several indices for one element")));
  }
  EXPECT_THAT(Elements<int32_t>(memory), ElementsAre(0, 1, 2, 3));
}

TEST(Copy, RefusesBuffersWithoutData) {
  const TensorView sketch = *TensorView::Create(TensorBuffer::MakeWithoutData(24, "only a sketch"), DType::kInt32,
                                                Layout::RowMajor(TensorShape({2, 3})));
  TensorView to = Counting({2, 3});
  EXPECT_THAT(Copy(sketch, &to), StatusIs(Code::kFailedPrecondition, HasSubstr("only a sketch")));
  EXPECT_THAT(Elements<int32_t>(to), ElementsAre(0, 1, 2, 3, 4, 5));
  TensorView to_sketch = sketch;
  EXPECT_THAT(Copy(to, &to_sketch), StatusIs(Code::kFailedPrecondition, HasSubstr("only a sketch")));
  EXPECT_THAT(Copy(sketch, &to_sketch), StatusIs(Code::kFailedPrecondition, HasSubstr("only a sketch")));
  EXPECT_THAT(Fill(int32_t{1}, &to_sketch), StatusIs(Code::kFailedPrecondition, HasSubstr("only a sketch")));
}

// ---- One memory on both sides ---------------------------------------------------------------------------------------

struct OverlapCase {
  const char* name;
  Layout from;
  Layout to;
  bool takes_memory;
};

Layout Places(const Numbers& dims, const Numbers& strides, int64_t offset) {
  return *Layout::Create(dims, strides, offset);
}

// All in the same 6000 elements: enough for memory aside to come from the allocator.
const OverlapCase kOverlapCases[] = {
    {"TheSame", Places({60, 50}, {50, 1}, 0), Places({60, 50}, {50, 1}, 0), false},
    {"TheSameButForAnAxisOfOne", Places({1, 3000}, {7, 1}, 0), Places({1, 3000}, {9, 1}, 0), false},
    {"TheSameBackwards", Places({3000}, {-1}, 2999), Places({3000}, {-1}, 2999), false},
    {"Apart", Places({3000}, {1}, 0), Places({3000}, {1}, 3000), false},
    {"AnotherOrderApart", Places({60, 50}, {1, 60}, 0), Places({60, 50}, {50, 1}, 3000), false},
    {"Forwards", Places({5000}, {1}, 0), Places({5000}, {1}, 1), false},
    {"Backwards", Places({5000}, {1}, 1), Places({5000}, {1}, 0), false},
    {"ForwardsInAnotherOrder", Places({50, 60}, {1, 50}, 0), Places({50, 60}, {1, 50}, 20), false},
    {"ForwardsFlipped", Places({5000}, {-1}, 4999), Places({5000}, {-1}, 5000), false},
    {"EvenToOdd", Places({3000}, {2}, 0), Places({3000}, {2}, 1), false},
    {"ThreeOfSixColumns", Places({900, 2}, {6, 2}, 0), Places({900, 2}, {6, 2}, 1), false},
    {"Reversed", Places({6000}, {-1}, 5999), Places({6000}, {1}, 0), true},
    {"Transposed", Places({70, 70}, {1, 70}, 0), Places({70, 70}, {70, 1}, 0), true},
    {"TransposedFurtherOn", Places({70, 70}, {1, 70}, 0), Places({70, 70}, {70, 1}, 3), true},
    {"RowsOfAMatrixOneDown", Places({59, 50}, {100, 1}, 0), Places({59, 50}, {100, 1}, 100), true},
    {"Spread", Places({2000}, {1}, 0), Places({2000}, {3}, 0), true},
    {"Repeated", Places({60, 50}, {0, 1}, 0), Places({60, 50}, {50, 1}, 0), true},
    {"FewReversed", Places({90}, {-1}, 89), Places({90}, {1}, 0), true},
    {"FewTransposed", Places({9, 10}, {1, 9}, 0), Places({9, 10}, {10, 1}, 89), true},
    {"FewTransposedApart", Places({9, 10}, {1, 9}, 0), Places({9, 10}, {10, 1}, 90), false},
    {"FewTransposedBefore", Places({9, 10}, {1, 9}, 90), Places({9, 10}, {10, 1}, 0), false},
    {"FewSpread", Places({30}, {3}, 1), Places({30}, {1}, 59), true},
    {"SomeReversed", Places({2000}, {-1}, 2999), Places({2000}, {1}, 0), true},
    {"SomeReversedApart", Places({2000}, {-1}, 3999), Places({2000}, {1}, 0), false},
};

class CopyOverlap : public ::testing::TestWithParam<OverlapCase> {};

TEST_P(CopyOverlap, IsAsIfTheSourceWereCopiedAside) {
  const OverlapCase& test = GetParam();
  const Tensor memory = Counting({6000});
  Numbers wanted(6000);
  std::iota(wanted.begin(), wanted.end(), 0);
  const Numbers from_places = Model::Of(test.from).places;
  const Numbers to_places = Model::Of(test.to).places;
  for (size_t i = 0; i < to_places.size(); ++i) wanted[static_cast<size_t>(to_places[i])] = from_places[i];

  const TensorView from = *TensorView::Create(memory.buffer(), DType::kInt32, test.from);
  TensorView to = *TensorView::Create(memory.buffer(), DType::kInt32, test.to);
  absl::Status status;
  const int64_t taken = AllocationsOf([&] { status = Copy(from, &to); });
  ASSERT_OK(status);
  const std::vector<int32_t> elements = Elements<int32_t>(memory);
  EXPECT_EQ(Numbers(elements.begin(), elements.end()), wanted);
  EXPECT_EQ(taken > 0, test.takes_memory) << taken << " allocations";
}

TEST_P(CopyOverlap, HoldsForStrings) {
  const OverlapCase& test = GetParam();
  const Tensor memory = *Tensor::Zeros(DType::kString, TensorShape({6000}));
  TensorView all = memory;
  std::string* const strings = all.mutable_data<std::string>();
  for (int i = 0; i < 6000; ++i) strings[i] = absl::StrCat(i, " and some text that takes memory of its own");
  std::vector<std::string> wanted(strings, strings + 6000);
  const Numbers from_places = Model::Of(test.from).places;
  const Numbers to_places = Model::Of(test.to).places;
  for (size_t i = 0; i < to_places.size(); ++i) {
    wanted[static_cast<size_t>(to_places[i])] = strings[static_cast<size_t>(from_places[i])];
  }
  TensorView to = *TensorView::Create(memory.buffer(), DType::kString, test.to);
  ASSERT_OK(Copy(*TensorView::Create(memory.buffer(), DType::kString, test.from), &to));
  EXPECT_EQ(Elements<std::string>(memory), wanted);
}

INSTANTIATE_TEST_SUITE_P(OneMemory, CopyOverlap, ::testing::ValuesIn(kOverlapCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Copy, OverlapsByBytes) {
  // Two buffers over one memory, the second from the middle of an element of the first.
  alignas(64) char bytes[64 + 4];
  for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = static_cast<char>(i);
  std::vector<char> wanted(bytes, bytes + sizeof(bytes));
  for (size_t i = 0; i < 4; ++i) std::memcpy(&wanted[4 + 16 * i], bytes + 16 * i, 8);
  const auto view = [&](char* data) {
    TensorBuffer::External memory;
    memory.data = data;
    memory.size_bytes = 64;
    return *TensorView::Create(TensorBuffer::WrapExternal(std::move(memory)), DType::kComplex64,
                               *Layout::Create({4}, {2}));
  };
  TensorView to = view(bytes + 4);
  ASSERT_OK(Copy(view(bytes), &to));
  EXPECT_EQ(std::vector<char>(bytes, bytes + sizeof(bytes)), wanted);
}

TEST(Copy, IsRefusedWhereThereIsNoMemoryAside) {
  const Tensor memory = Counting({4});
  TensorView to = memory;
  const TensorView from = *to.Flip({0});
  const absl::Status status = [&] {
    const FailingNothrowNew failing;
    return Copy(from, &to);
  }();
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("int32 [4]")));
  EXPECT_THAT(Elements<int32_t>(memory), ElementsAre(0, 1, 2, 3));
  ASSERT_OK(Copy(from, &to));
  EXPECT_THAT(Elements<int32_t>(memory), ElementsAre(3, 2, 1, 0));
}

TEST(Copy, PartsLazyClonesOnlyWhereElementsChange) {
  const Tensor tensor = Counting({40, 50});
  const Tensor clone = *tensor.LazyClone();
  TensorView to = clone;
  ASSERT_OK(Copy(tensor, &to));
  EXPECT_EQ(clone.data<int32_t>(), tensor.data<int32_t>()) << "equal elements in equal places";

  TensorView part = *to.Slice(0, 0, 20);
  ASSERT_OK(Copy(*TensorView(tensor).Slice(0, 20, 40), &part));
  EXPECT_NE(clone.data<int32_t>(), tensor.data<int32_t>());
  EXPECT_EQ(tensor.data<int32_t>()[0], 0);
  EXPECT_EQ(clone.data<int32_t>()[0], 1000);
  EXPECT_EQ(clone.data<int32_t>()[1000], 1000);
}

TEST(Copy, FollowsARootThatMoves) {
  // Both views lie on the clone's root, which gets memory of its own during the copy.
  const Tensor tensor = Counting({40, 50});
  const Tensor clone = *tensor.LazyClone();
  TensorView to = *TensorView(clone).Slice(0, 0, 20);
  ASSERT_OK(Copy(*TensorView(clone).Slice(0, 20, 40), &to));
  EXPECT_EQ(clone.data<int32_t>()[0], 1000);
  EXPECT_EQ(tensor.data<int32_t>()[0], 0);
  EXPECT_EQ(to.data<int32_t>(), clone.data<int32_t>());
}

TEST(Copy, WantsWritableMemory) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(/*fail_at=*/1, /*for_good=*/true);
  int32_t values[4] = {1, 2, 3, 4};
  {
    TensorBuffer::External memory;
    memory.data = values;
    memory.size_bytes = sizeof(values);
    memory.writable = false;
    memory.allocator = allocator;
    TensorView to = *TensorView::Create(TensorBuffer::WrapExternal(std::move(memory)), DType::kInt32,
                                        Layout::RowMajor(TensorShape({4})));
    EXPECT_THAT(Copy(Counting({4}), &to), StatusIs(Code::kResourceExhausted, HasSubstr("failing")));
    EXPECT_THAT(Fill(int32_t{0}, &to), StatusIs(Code::kResourceExhausted, HasSubstr("failing")));
    EXPECT_THAT(Elements<int32_t>(to), ElementsAre(1, 2, 3, 4));
  }
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
}

TEST(Copy, TakesNoMemoryForSmallRanks) {
  const Tensor from = Counting({3, 4, 5, 2, 3});
  const TensorView source = *TensorView(from).Permute({4, 2, 0, 1, 3});
  TensorView to = *Tensor::Create(DType::kInt32, source.shape());
  absl::Status copied, filled;
  EXPECT_EQ(AllocationsOf([&] {
              copied = Copy(source, &to);
              filled = Fill(int32_t{1}, &to);
            }),
            0);
  EXPECT_OK(copied);
  EXPECT_OK(filled);
}

TEST(Copy, OfFewDenseElementsEqualsMemmoveAtAnyDistance) {
  for (const DType dtype : {DType::kUint8, DType::kBfloat16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    const size_t size = ElementSize(dtype);
    for (int64_t count = 0; count <= 70; ++count) {
      for (const int64_t from : {0, 1, 7, 71, 150}) {
        constexpr int64_t kTo = 7;
        Tensor memory = *Tensor::Create(dtype, TensorShape({230}));
        const absl::Span<char> bytes = memory.mutable_bytes();
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
        std::string expected(bytes.data(), bytes.size());
        std::memmove(&expected[kTo * size], &expected[static_cast<size_t>(from) * size],
                     static_cast<size_t>(count) * size);
        TensorView to = *TensorView(memory).Narrow(0, kTo, count);
        ASSERT_OK(Copy(*TensorView(memory).Narrow(0, from, count), &to));
        ASSERT_EQ(memory.bytes(), expected) << DTypeName(dtype) << " " << count << " from " << from;
      }
    }
  }
}

// Around the numbers of elements from which on copies are planned, or rows of them are streamed.
TEST(Copy, OfElementsInAnyOrderToRowMajorMemoryWritesThemAndNothingElse) {
  const std::vector<Numbers> shapes = {{1, 3},    {5, 19},   {96},         {97},          {1000},
                                       {8, 12},   {3, 5, 7}, {2, 3, 8, 8}, {2, 16, 5, 5}, {31, 2, 33},
                                       {1000, 3}, {64, 64},  {64, 65},     {7, 64, 9},    {3, 1, 2, 1, 4, 1, 2, 1, 3}};
  for (const DType dtype : {DType::kUint8, DType::kBfloat16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    const size_t size = ElementSize(dtype);
    for (const Numbers& shape : shapes) {
      for (unsigned seed = 0; seed < 12; ++seed) {
        std::mt19937 random(seed);
        Numbers order(shape.size());
        std::iota(order.begin(), order.end(), 0);
        if (seed > 0) std::shuffle(order.begin(), order.end(), random);
        Tensor source = *Tensor::Create(dtype, *TensorShape::Create(shape));
        for (char& byte : source.mutable_bytes()) byte = static_cast<char>(random());
        TensorView from = *TensorView(source).Permute(order);
        if (seed % 3 == 1) from = *from.Flip({from.rank() - 1});
        if (seed % 4 >= 2) from = *from.Slice(-1, 0, std::nullopt, seed % 4);
        const auto count = static_cast<size_t>(from.num_elements());
        Tensor memory = *Tensor::Zeros(dtype, TensorShape({static_cast<int64_t>(count) + 3}));
        std::string expected(memory.bytes().data(), memory.bytes().size());
        const Numbers places = Model::Of(from.layout()).places;
        for (size_t i = 0; i < count; ++i) {
          std::memcpy(&expected[(i + 1) * size], source.bytes().data() + static_cast<size_t>(places[i]) * size, size);
        }
        TensorView to = *(*TensorView(memory).Narrow(0, 1, from.num_elements()))
                             .Reshape(Numbers(from.dims().begin(), from.dims().end()));
        ASSERT_OK(Copy(from, &to));
        ASSERT_TRUE(memory.bytes() == expected) << DTypeName(dtype) << " " << from;
      }
    }
  }
}

TEST(Copy, OfFewElementsToThemselvesKeepsLazyClonesShared) {
  const Tensor tensor = Counting({256});
  const Tensor clone = *tensor.LazyClone();
  TensorView to = clone;
  ASSERT_OK(Copy(tensor, &to));
  EXPECT_EQ(clone.bytes().data(), tensor.bytes().data());
}

TEST(Fill, OfFewDenseElementsWritesThemAndNothingElse) {
  for (const DType dtype : {DType::kUint8, DType::kBfloat16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    const size_t size = ElementSize(dtype);
    std::string value(16, '\0');
    std::iota(value.begin(), value.end(), '\1');
    for (const int64_t count : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 70, 255, 256, 257}) {
      for (const int64_t skipped : {0, 1, 3}) {
        const Tensor memory = *Tensor::Zeros(dtype, TensorShape({count + 5}));
        TensorView to = *TensorView(memory).Narrow(0, skipped, count);
        ASSERT_OK(internal::FillElement(value.data(), &to, {}));
        std::string expected(memory.bytes().size(), '\0');
        for (int64_t i = skipped; i < skipped + count; ++i) {
          std::memcpy(&expected[static_cast<size_t>(i) * size], value.data(), size);
        }
        ASSERT_EQ(memory.bytes(), expected) << DTypeName(dtype) << " " << count;
      }
    }
  }
}

TEST(Copy, IntoATensor) {
  const Tensor rows = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  ASSERT_OK_AND_ASSIGN(Tensor to, Tensor::Create(DType::kInt32, {2, 2}));
  ASSERT_OK(Copy(*TensorView(rows).Transpose(0, 1), &to));
  EXPECT_THAT(Elements<int32_t>(to), ElementsAre(1, 3, 2, 4));
  ASSERT_OK(Fill(7, &to));
  EXPECT_THAT(Elements<int32_t>(to), ::testing::Each(7));
  ASSERT_OK_AND_ASSIGN(Tensor later, rows.LazyClone());
  ASSERT_OK(Convert(Tensor::FromValues<double>({{1.5, 2}, {3, 4}}), &later));
  EXPECT_THAT(Elements<int32_t>(later), ElementsAre(1, 2, 3, 4));
  ASSERT_OK(Fill(0, &later));
  EXPECT_THAT(Elements<int32_t>(rows), ElementsAre(1, 2, 3, 4)) << "the clone has its own memory";
  Tensor other = Tensor::FromValues<int32_t>({1});
  EXPECT_THAT(Copy(rows, &other), StatusIs(Code::kInvalidArgument, HasSubstr("[2,2]")));
}

TEST(Fill, WithAnElementOfASmallDestination) {
  const Tensor tensor = Counting({20});
  TensorView to = tensor;
  ASSERT_OK(Fill(tensor.data<int32_t>()[7], &to));
  EXPECT_THAT(Elements<int32_t>(to), ::testing::Each(7));
}

}  // namespace
}  // namespace tensorcask
