// Making tensors, what they are, and what shares or copies their memory. Slices and casts: tensor_slices_test.cc; views
// of elements: tensor_elements_test.cc.

#include "tensorcask/tensor/tensor.h"

#include <array>
#include <atomic>
#include <complex>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/tensor_testing.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::ReadOnly;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Strings = std::vector<std::string>;

static_assert(sizeof(Tensor) == 32, "the header promises 32 bytes");

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return std::vector<T>(flat.begin(), flat.end());
}

// ---- Making ---------------------------------------------------------------------------------------------------------

TEST(Tensor, DefaultIsAnEmptyVector) {
  const Tensor tensor;
  EXPECT_EQ(tensor.dtype(), DType::kFloat32);
  EXPECT_EQ(tensor.shape(), TensorShape({0}));
  EXPECT_TRUE(tensor.IsInitialized());
  EXPECT_TRUE(tensor.IsAligned());
  EXPECT_FALSE(tensor.buffer());
  EXPECT_EQ(tensor.TotalBytes(), 0u);
  EXPECT_EQ(tensor.AllocatedBytes(), 0u);
  EXPECT_EQ(tensor.bytes(), "");
  EXPECT_EQ(tensor.data<float>(), nullptr);
  EXPECT_FALSE(tensor.RefCountIsOne());
  EXPECT_FALSE(tensor.SharesBufferWith(tensor));
}

const DType kAllDTypes[] = {
#define CASK_DTYPE(id, number, T, name) DType::id,
    CASK_FIXED_SIZE_DTYPES(CASK_DTYPE)
#undef CASK_DTYPE
        DType::kString};

TEST(Tensor, CreatesEveryDType) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    const size_t object_bytes = dtype == DType::kString ? sizeof(std::string) : ElementSize(dtype);
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::Create(dtype, TensorShape({2, 3})));
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.shape(), TensorShape({2, 3}));
    EXPECT_EQ(tensor.rank(), 2);
    EXPECT_EQ(tensor.dim(1), 3);
    EXPECT_EQ(tensor.num_elements(), 6);
    EXPECT_EQ(tensor.TotalBytes(), 6 * object_bytes);
    EXPECT_EQ(tensor.AllocatedBytes(), 6 * object_bytes);
    EXPECT_TRUE(tensor.IsAligned());
    EXPECT_TRUE(tensor.RefCountIsOne());

    ASSERT_OK_AND_ASSIGN(const Tensor zeros, Tensor::Zeros(dtype, TensorShape({300, 7})));
    if (dtype != DType::kString) {
      EXPECT_EQ(zeros.bytes(), std::string(2100 * object_bytes, '\0'));
    }
    for (const TensorShape& shape : {TensorShape({0}), TensorShape({3, 0}), TensorShape({0, int64_t{1} << 62})}) {
      ASSERT_OK_AND_ASSIGN(const Tensor empty, Tensor::Create(dtype, shape));
      EXPECT_EQ(empty.shape(), shape);
      EXPECT_FALSE(empty.buffer());
      EXPECT_TRUE(empty.IsInitialized());
      EXPECT_OK(Tensor::Zeros(dtype, shape));
      EXPECT_EQ(empty.Clone()->shape(), shape);
    }
  }
}

struct RefusedCreate {
  const char* name;
  DType dtype;
  std::vector<int64_t> dims;
  Code code;
  const char* says;
};

const RefusedCreate kRefused[] = {
    {"Invalid", DType::kInvalid, {2}, Code::kInvalidArgument, "dtype invalid (number 0)"},
    {"InvalidEvenIfEmpty", DType::kInvalid, {0}, Code::kInvalidArgument, "dtype invalid"},
    {"NoSuchNumber", static_cast<DType>(63), {2}, Code::kInvalidArgument, "(number 63)"},
    {"BytesWrapTo12",
     DType::kFloat32,
     {(int64_t{1} << 62) + 3},
     Code::kInvalidArgument,  // SH-05
     "float32 [4611686018427387907]: the size in bytes exceeds"},
    {"Complex128", DType::kComplex128, {int64_t{1} << 31, int64_t{1} << 30}, Code::kInvalidArgument, "complex128 ["},
    {"Strings", DType::kString, {int64_t{1} << 60}, Code::kInvalidArgument, "string [1152921504606846976]"},
    {"LargestBytes", DType::kInt8, {INT64_MAX}, Code::kResourceExhausted, "9223372036854775807 bytes"},  // SH-06
    {"MoreThanAddresses", DType::kFloat64, {int64_t{1} << 50}, Code::kResourceExhausted, "9007199254740992 bytes"},
    {"MoreStringsThanAddresses", DType::kString, {int64_t{1} << 50}, Code::kResourceExhausted, "bytes"},
};

class TensorRefuses : public ::testing::TestWithParam<RefusedCreate> {};
TEST_P(TensorRefuses, ToCreate) {
  const TensorShape shape = *TensorShape::Create(GetParam().dims);
  const auto refused = StatusIs(GetParam().code, HasSubstr(GetParam().says));
  EXPECT_THAT(Tensor::Create(GetParam().dtype, shape), refused);
  EXPECT_THAT(Tensor::Zeros(GetParam().dtype, shape), refused);
}
INSTANTIATE_TEST_SUITE_P(All, TensorRefuses, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// Each operation that takes memory, failing at its first allocation: an error, nothing leaked, the source as it was.
TEST(Tensor, SurvivesShortMemory) {  // ME-01
  const Tensor numbers = Tensor::FromValues<int32_t>({1, 2, 3});
  const Tensor strings = Tensor::FromValues<std::string>({"one", "a string too long for the short form"});
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>(1, true);
  const auto short_of = [](const char* bytes) { return StatusIs(Code::kResourceExhausted, HasSubstr(bytes)); };
  EXPECT_THAT(Tensor::Create(DType::kInt32, TensorShape({3}), allocator),
              short_of("int32 [3]: no memory for 12 bytes"));
  EXPECT_THAT(Tensor::Zeros(DType::kString, TensorShape({3}), allocator), short_of("96 bytes"));
  EXPECT_THAT(numbers.Clone(allocator), short_of("12 bytes"));
  EXPECT_THAT(strings.Clone(allocator), short_of("64 bytes"));
  EXPECT_EQ(allocator->use_count(), 1);
  EXPECT_THAT(Values<int32_t>(numbers), ElementsAre(1, 2, 3));

  std::vector<uint8_t> memory(8);
  const RefPtr<FailingAllocator> copies = MakeRef<FailingAllocator>(1);
  Tensor mapped = *Tensor::FromBuffer(DType::kUint8, TensorShape({8}), ReadOnly(&memory, copies));
  const Tensor alias = mapped;
  EXPECT_THAT(mapped.EnsureMutable(), short_of("8 bytes"));
  EXPECT_EQ(mapped.data<uint8_t>(), memory.data());
  EXPECT_OK(mapped.EnsureMutable());
  mapped.mutable_flat<uint8_t>()[0] = 99;
  EXPECT_EQ(alias.flat<uint8_t>()[0], 99);
  EXPECT_EQ(memory[0], 0);
}

TEST(Tensor, UsesTheAllocatorItIsGiven) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  {
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::Zeros(DType::kInt16, TensorShape({5}), allocator));
    EXPECT_EQ(allocator->live_bytes(), 10);
    EXPECT_EQ(tensor.buffer()->allocator_name(), "failing");
    ASSERT_OK_AND_ASSIGN(const Tensor copy, tensor.Clone(allocator));
    EXPECT_EQ(allocator->live_blocks(), 2);
    EXPECT_EQ(tensor.Clone()->buffer()->allocator_name(), "cpu");
  }
  EXPECT_EQ(allocator->live_blocks(), 0);
}

TEST(Tensor, Scalars) {
  const Tensor number = Tensor::Scalar(2.5);
  EXPECT_EQ(number.dtype(), DType::kFloat64);
  EXPECT_EQ(number.shape(), TensorShape());
  EXPECT_EQ(number.scalar<double>(), 2.5);
  EXPECT_EQ(number.buffer()->kind(), TensorBuffer::Kind::kScalar);
  EXPECT_TRUE(number.IsAligned());
  EXPECT_TRUE(number.RefCountIsOne());
  EXPECT_EQ(Tensor::Scalar(bfloat16(3.0f)).dtype(), DType::kBfloat16);
  EXPECT_EQ(Tensor::Scalar(true).scalar<bool>(), true);
  EXPECT_EQ(Tensor::Scalar(std::complex<float>(1, 2)).scalar<std::complex<float>>(), std::complex<float>(1, 2));
  const Tensor text = Tensor::Scalar<std::string>(std::string("a\0b", 3));
  EXPECT_EQ(text.dtype(), DType::kString);
  EXPECT_EQ(text.scalar<std::string>(), std::string("a\0b", 3));
}

TEST(Tensor, FromValues) {
  const Tensor vector = Tensor::FromValues<float>({1, 2.5f});
  EXPECT_EQ(vector.shape(), TensorShape({2}));
  EXPECT_THAT(Values<float>(vector), ElementsAre(1, 2.5f));
  const Tensor matrix = Tensor::FromValues<int64_t>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.shape(), TensorShape({2, 3}));
  EXPECT_THAT(Values<int64_t>(matrix), ElementsAre(1, 2, 3, 4, 5, 6));
  const Tensor cube = Tensor::FromValues<uint8_t>({{{1, 2}}, {{3, 4}}, {{5, 6}}});
  EXPECT_EQ(cube.shape(), TensorShape({3, 1, 2}));
  EXPECT_THAT(Values<uint8_t>(cube), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(Tensor::FromValues<bool>({{true}, {false}}).shape(), TensorShape({2, 1}));
  EXPECT_EQ(Tensor::FromValues({1.0f, 2.0f}).dtype(), DType::kFloat32) << "T is deduced";
}

// Braces around two string literals could also be a std::string made from two pointers: they are rows here.
TEST(Tensor, FromStringValues) {
  const Tensor vector = Tensor::FromValues<std::string>({"a", "b"});
  EXPECT_EQ(vector.shape(), TensorShape({2}));
  EXPECT_EQ(Values<std::string>(vector), Strings({"a", "b"}));
  const Tensor row = Tensor::FromValues<std::string>({{"a", "b"}});
  EXPECT_EQ(row.shape(), TensorShape({1, 2}));
  EXPECT_EQ(Values<std::string>(row), Strings({"a", "b"}));
  const Tensor matrix = Tensor::FromValues<std::string>({{"a", "b"}, {"c", std::string("d\0e", 3)}});
  EXPECT_EQ(matrix.shape(), TensorShape({2, 2}));
  EXPECT_EQ(Values<std::string>(matrix), Strings({"a", "b", "c", std::string("d\0e", 3)}));
  EXPECT_EQ(Tensor::FromValues<std::string>({{"a"}}).shape(), TensorShape({1, 1}));
  EXPECT_EQ(Tensor::FromValues<std::string>({{"a"}, {"b"}}).shape(), TensorShape({2, 1}));
  EXPECT_EQ(Tensor::FromValues<std::string>({{{"a", "b"}}}).shape(), TensorShape({1, 1, 2}));
  EXPECT_EQ(Tensor::FromValues<std::string>({{{"a"}, {"b"}}}).shape(), TensorShape({1, 2, 1}));
}

TEST(Tensor, FromSpanDeducesTheElementType) {
  const TensorShape shape({1, 2});
  const std::vector<float> floats = {1, 2};
  EXPECT_EQ(Tensor::FromSpan(shape, floats)->dtype(), DType::kFloat32);
  EXPECT_EQ(Values<float>(*Tensor::FromSpan(shape, floats)), floats);
  EXPECT_THAT(Values<int16_t>(*Tensor::FromSpan(shape, std::array<int16_t, 2>{3, 4})), ElementsAre(3, 4));
  std::vector<double> doubles = {5, 6};
  EXPECT_THAT(Values<double>(*Tensor::FromSpan(shape, absl::MakeSpan(doubles))), ElementsAre(5, 6));
  EXPECT_THAT(Values<double>(*Tensor::FromSpan(shape, absl::MakeConstSpan(doubles))), ElementsAre(5, 6));
  EXPECT_THAT(Values<bool>(*Tensor::FromSpan(shape, std::vector<bool>{false, true})), ElementsAre(false, true));
  EXPECT_THAT(Values<std::string>(*Tensor::FromSpan(shape, Strings{"a", "b"})), ElementsAre("a", "b"));
  EXPECT_THAT(Values<std::string>(*Tensor::FromSpan<std::string>(shape, {"a", "b"})), ElementsAre("a", "b"));
  EXPECT_THAT(Values<float>(*Tensor::FromSpan<float>(shape, {1, 2})), ElementsAre(1, 2));
  EXPECT_THAT(Tensor::FromSpan(shape, std::vector<float>(3)),
              StatusIs(Code::kInvalidArgument, HasSubstr("3 values for shape [1,2]")));
}

// NOLINTBEGIN(google-runtime-int)
TEST(Tensor, LongLongIsInt64) {
  static_assert(kDTypeOf<long long> == DType::kInt64 && kDTypeOf<long> == DType::kInt64);
  static_assert(kDTypeOf<const unsigned long long> == DType::kUint64);
  Tensor tensor = Tensor::FromValues<long long>({1, 2});
  EXPECT_EQ(tensor.dtype(), DType::kInt64);
  tensor.mutable_flat<long long>()(1) = 1LL << 40;
  EXPECT_THAT(Values<int64_t>(tensor), ElementsAre(1, int64_t{1} << 40));
  EXPECT_EQ(tensor.flat<long long>()(0), 1);
  // The elements stay int64_t: C++ forbids to access them as the other type.
  static_assert(std::is_same_v<decltype(tensor.data<long long>()), const int64_t*>);
  static_assert(std::is_same_v<decltype(tensor.mutable_matrix<unsigned long long>()(0, 0)), uint64_t&>);
  EXPECT_EQ(Tensor::Scalar(7ULL).dtype(), DType::kUint64);
  EXPECT_EQ(Tensor::Scalar(7ULL).scalar<uint64_t>(), 7u);
  EXPECT_EQ(Tensor::FromSpan(TensorShape({1}), std::vector<long long>{5})->dtype(), DType::kInt64);
}
// NOLINTEND(google-runtime-int)

TEST(Tensor, NegativeAxesCountFromTheBack) {
  const Tensor tensor = *Tensor::Zeros(DType::kInt8, TensorShape({2, 3}));
  EXPECT_EQ(tensor.dim(-1), 3);
  EXPECT_EQ(tensor.dim(-2), 2);
}

// Writing goes through mutable_flat and its like: a const view gives const elements.
static_assert(!std::is_assignable_v<decltype(std::declval<Tensor&>().flat<float>()(0)), float>);
static_assert(std::is_assignable_v<decltype(std::declval<Tensor&>().mutable_flat<float>()(0)), float>);

TEST(Tensor, FromSpan) {
  const std::vector<double> values = {1, 2, 3, 4};
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::FromSpan<double>(TensorShape({2, 2}), values));
  EXPECT_EQ(Values<double>(tensor), values);
  EXPECT_NE(tensor.data<double>(), values.data());
  EXPECT_THAT(Tensor::FromSpan<double>(TensorShape({3}), values),
              StatusIs(Code::kInvalidArgument, HasSubstr("4 values for shape [3], which has 3 elements")));
  // The count is looked at before memory is taken for the claim.
  EXPECT_THAT(Tensor::FromSpan<double>(TensorShape({int64_t{1} << 62}), values),
              StatusIs(Code::kInvalidArgument, HasSubstr("4 values")));
  const Strings words = {"x", "yy"};
  EXPECT_EQ(Values<std::string>(*Tensor::FromSpan<std::string>(TensorShape({2, 1}), words)), words);
  EXPECT_EQ(Tensor::FromSpan<float>(TensorShape({0, 3}), {})->shape(), TensorShape({0, 3}));
}

// ---- Copying and moving handles -------------------------------------------------------------------------------------

TEST(Tensor, CopiesShareMemory) {
  Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const Tensor alias = tensor;
  const Tensor clone = *tensor.Clone();
  EXPECT_TRUE(alias.SharesBufferWith(tensor));
  EXPECT_FALSE(clone.SharesBufferWith(tensor));
  EXPECT_FALSE(tensor.RefCountIsOne());
  EXPECT_TRUE(clone.RefCountIsOne());
  tensor.mutable_flat<float>()[0] = 7;
  EXPECT_EQ(alias.matrix<float>()(0, 0), 7);
  EXPECT_EQ(clone.matrix<float>()(0, 0), 1);
}

TEST(Tensor, MovedFromIsAnEmptyVector) {
  Tensor tensor = Tensor::FromValues<std::string>({{"a", "b"}});
  const auto expect_empty = [](const Tensor& moved) {
    EXPECT_EQ(moved.dtype(), DType::kFloat32);
    EXPECT_EQ(moved.shape(), TensorShape({0}));
    EXPECT_FALSE(moved.buffer());
    EXPECT_TRUE(moved.IsInitialized());
  };
  Tensor taken(std::move(tensor));
  expect_empty(tensor);  // NOLINT(bugprone-use-after-move): promised
  tensor = std::move(taken);
  expect_empty(taken);  // NOLINT(bugprone-use-after-move): promised
  EXPECT_EQ(Values<std::string>(tensor), Strings({"a", "b"}));
  EXPECT_TRUE(tensor.RefCountIsOne());
  Tensor& same = tensor;
  tensor = std::move(same);
  EXPECT_EQ(tensor.shape(), TensorShape({1, 2}));
  tensor = same;
  EXPECT_TRUE(tensor.RefCountIsOne());
}

TEST(Tensor, GivesItsBufferAway) {
  Tensor tensor = Tensor::FromValues<std::string>({"a", "b"});
  const void* const data = tensor.data<std::string>();
  const RefPtr<TensorBuffer> buffer = std::move(tensor).TakeBuffer();
  EXPECT_EQ(buffer->data(), data);
  EXPECT_TRUE(buffer.IsUnique());
  EXPECT_EQ(tensor.dtype(), DType::kFloat32);  // NOLINT(bugprone-use-after-move): promised
  EXPECT_EQ(tensor.shape(), TensorShape({0}));
  EXPECT_FALSE(tensor.buffer());
  EXPECT_FALSE(std::move(tensor).TakeBuffer());
}

TEST(Tensor, KeepsItsOwnDType) {
  const Tensor source = Tensor::FromValues<int8_t>({1, 2});
  const TensorShape shape = source.shape();  // the dtype rides along inside
  EXPECT_EQ(Tensor::Create(DType::kFloat64, shape)->dtype(), DType::kFloat64);
  EXPECT_EQ(source.dtype(), DType::kInt8);
}

// Handles on the same memory, copied, sliced, moved and dropped by several threads at once.
TEST(Tensor, HandlesAreSharedByThreads) {
  constexpr int kThreads = 4;
  const Tensor shared = Tensor::FromValues<int64_t>({{1, 2}, {3, 4}, {5, 6}});
  const Tensor strings = Tensor::FromValues<std::string>({"one", "a string too long for the short form"});
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&shared, &strings, &sum] {
      for (int i = 0; i < 1000; ++i) {
        Tensor copy = shared;
        const Tensor row = *copy.SubSlice(i % 3);
        copy = *row.Reshape(TensorShape({2, 1}));
        const Tensor moved = std::move(copy);
        sum += moved.flat<int64_t>()[1] + static_cast<int64_t>(strings.SubSlice(0)->scalar<std::string>().size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * (334 * 2 + 333 * 4 + 333 * 6 + 1000 * 3));
  EXPECT_TRUE(shared.RefCountIsOne());
  EXPECT_TRUE(strings.RefCountIsOne());
}

TEST(Tensor, TakesDimsInBraces) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::Create(DType::kInt8, {2, 3}));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 3}));
  ASSERT_OK_AND_ASSIGN(const Tensor zeros, Tensor::Zeros(DType::kInt8, {}));
  EXPECT_EQ(zeros.scalar<int8_t>(), 0);
  ASSERT_OK_AND_ASSIGN(const Tensor flat, tensor.Reshape({6}));
  EXPECT_TRUE(flat.SharesBufferWith(tensor));
  const auto refused = StatusIs(Code::kInvalidArgument, HasSubstr("dim 1 is -3"));
  EXPECT_THAT(Tensor::Create(DType::kInt8, {2, -3}), refused);
  EXPECT_THAT(Tensor::Zeros(DType::kInt8, {2, -3}), refused);
  EXPECT_THAT(tensor.Reshape({2, -3}), refused);
}

TEST(Tensor, ValuesTakeAnAllocator) {
  const auto allocator = MakeRef<FailingAllocator>();
  const Tensor tensors[] = {Tensor::FromValues<float>({1, 2}, allocator),
                            Tensor::FromValues<float>({{1, 2}}, allocator),
                            Tensor::FromValues<float>({{{1, 2}}}, allocator),
                            Tensor::Scalar(1.0F, allocator),
                            Tensor::Scalar<std::string>("text", allocator),
                            *Tensor::FromSpan(TensorShape({2}), std::vector<float>{1, 2}, allocator),
                            *Tensor::FromSpan(TensorShape({2}), std::array<float, 2>{1, 2}, allocator),
                            *Tensor::FromSpan<float>(TensorShape({2}), {1, 2}, allocator)};
  EXPECT_EQ(allocator->live_blocks(), 8);
  for (const Tensor& tensor : tensors) EXPECT_EQ(tensor.buffer()->allocator_name(), "failing");
  EXPECT_EQ(tensors[4].scalar<std::string>(), "text");
  EXPECT_EQ(tensors[7].vec<float>()[1], 2);
}

template <typename T, typename = void>
constexpr bool kHasIndex = false;
template <typename T>
constexpr bool kHasIndex<T, std::void_t<decltype(std::declval<T>()[0])>> = true;
template <typename T, typename = void>
constexpr bool kHasEquality = false;
template <typename T>
constexpr bool kHasEquality<T, std::void_t<decltype(std::declval<T>() == std::declval<T>())>> = true;

// The declarations say what to write instead.
TEST(Tensor, WhatOtherLibrariesHaveDoesNotCompile) {
  static_assert(!std::is_constructible_v<Tensor, DType, TensorShape>);
  static_assert(!kHasIndex<Tensor> && !kHasEquality<Tensor>);
  static_assert(kHasIndex<TensorShape> && kHasEquality<TensorShape>);
}

TEST(Tensor, Prints) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(tensor.ToString(), "float32 [2,3]: [[1 2 3] [4 5 6]]");
  EXPECT_EQ(tensor.SummarizeValue(1), "[[1 ...] ...]");
  EXPECT_EQ(tensor.SummarizeValue(4), "[[1 2 3] [4 ...]]") << "4 values in total, as TensorFlow counts them";
  EXPECT_EQ(tensor.SummarizeValue(6), "[[1 2 3] [4 5 6]]");
  EXPECT_EQ(tensor.SummarizeValue(-1), "[[1 2 3] [4 5 6]]");
  EXPECT_EQ(tensor.SummarizeValue(0), "[...]");
  EXPECT_EQ(Tensor::Zeros(DType::kInt8, TensorShape({40}))->SummarizeValue(16),
            "[0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ...]");
  std::ostringstream out;
  out << Tensor();
  EXPECT_EQ(out.str(), "float32 [0]: []");
}

TEST(TensorDeathTest, LiteralsNeedEqualRows) {
  EXPECT_DEATH(Tensor::FromValues<int>({{1, 2}, {3}}), "rows have different lengths");
  EXPECT_DEATH(Tensor::FromValues<int>({{{1}}, {{2}, {3}}}), "rows have different lengths");
}

}  // namespace
}  // namespace tensorcask
