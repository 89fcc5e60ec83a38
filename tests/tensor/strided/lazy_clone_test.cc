// Lazy clones of views: the part that they see, with its strides.

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

Tensor Counting(const TensorShape& shape, const RefPtr<Allocator>& allocator = CpuAllocator::Default()) {
  Tensor tensor = *Tensor::Create(DType::kInt32, shape, allocator);
  int32_t* const values = tensor.mutable_data<int32_t>();
  std::iota(values, values + tensor.num_elements(), 0);
  return tensor;
}

TEST(LazyClone, KeepsStridesAndSharesUntilWritten) {
  const Tensor tensor = Counting(TensorShape({40, 50}));
  ASSERT_OK_AND_ASSIGN(const TensorView columns, TensorView(tensor).Transpose(0, 1));
  ASSERT_OK_AND_ASSIGN(TensorView clone, columns.LazyClone());
  EXPECT_EQ(clone.layout(), columns.layout());
  EXPECT_EQ(clone.data<int32_t>(), columns.data<int32_t>());
  EXPECT_FALSE(clone.SharesBufferWith(columns));
  clone.mutable_data<int32_t>()[0] = -1;
  EXPECT_EQ(*columns.data<int32_t>(), 0);
  EXPECT_EQ(*clone.data<int32_t>(), -1);
  EXPECT_EQ(clone.data<int32_t>()[50], 50) << "row 0, column 1 of the clone";
}

TEST(LazyClone, HoldsOnlyWhatTheViewReaches) {
  const RefPtr<FailingAllocator> allocator = MakeRef<FailingAllocator>();
  {
    const Tensor tensor = Counting(TensorShape({100, 100}), allocator);
    ASSERT_OK_AND_ASSIGN(const TensorView rows, TensorView(tensor).Slice(0, 30, 40));
    ASSERT_OK_AND_ASSIGN(const TensorView flipped, rows.Flip({0, 1}));
    ASSERT_OK_AND_ASSIGN(TensorView clone, flipped.LazyClone());
    EXPECT_EQ(clone.buffer()->size_bytes(), 4000u);
    EXPECT_THAT(clone.strides(), ElementsAre(-100, -1));
    EXPECT_EQ(clone.offset(), 999);
    EXPECT_EQ(*clone.data<int32_t>(), 3999);
    const int64_t before = allocator->live_bytes();
    ASSERT_OK(clone.EnsureMutable());
    EXPECT_LT(allocator->live_bytes() - before, 4000 + 16);
    EXPECT_EQ(*clone.data<int32_t>(), 3999);
  }
  EXPECT_EQ(allocator->live_blocks(), 0);
}

TEST(LazyClone, OfRepeatedElementsCopiesThemOnce) {
  const Tensor tensor = Counting(TensorShape({1, 1000}));
  ASSERT_OK_AND_ASSIGN(const TensorView rows, TensorView(tensor).Expand({1 << 20, 1000}));
  ASSERT_OK_AND_ASSIGN(TensorView clone, rows.LazyClone());
  EXPECT_EQ(clone.buffer()->size_bytes(), 4000u);
  EXPECT_EQ(clone.data<int32_t>(), rows.data<int32_t>());
  ASSERT_OK(clone.EnsureMutable());
  EXPECT_EQ(clone.data<int32_t>()[999], 999);
}

TEST(LazyClone, Strings) {
  Tensor tensor = *Tensor::Create(DType::kString, TensorShape({100}));
  for (int64_t i = 0; i < 100; ++i) tensor.mutable_vec<std::string>()[i] = "number " + std::to_string(i);
  ASSERT_OK_AND_ASSIGN(const TensorView even, TensorView(tensor).Slice(0, 10, 90, 2));
  ASSERT_OK_AND_ASSIGN(TensorView clone, even.LazyClone());
  EXPECT_EQ(*clone.data<std::string>(), "number 10");
  *clone.mutable_data<std::string>() = "mine";
  EXPECT_EQ(tensor.vec<std::string>()[10], "number 10");
  EXPECT_EQ(clone.data<std::string>()[2], "number 12");
}

TEST(LazyClone, WithoutElementsOrData) {
  const Tensor empty = *Tensor::Create(DType::kInt32, TensorShape({0, 3}));
  ASSERT_OK_AND_ASSIGN(const TensorView clone, TensorView(empty).LazyClone());
  EXPECT_THAT(clone.dims(), ElementsAre(0, 3));
  ASSERT_OK_AND_ASSIGN(const Tensor sketch, Tensor::FromBuffer(DType::kInt32, TensorShape({10}),
                                                               TensorBuffer::MakeWithoutData(40, "a sketch")));
  ASSERT_OK_AND_ASSIGN(const TensorView flipped, TensorView(sketch).Flip({0}));
  EXPECT_THAT(flipped.LazyClone(), StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
  EXPECT_THAT(flipped.Clone(), StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
  EXPECT_THAT(flipped.ToTensor(), StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
}

}  // namespace
}  // namespace tensorcask
