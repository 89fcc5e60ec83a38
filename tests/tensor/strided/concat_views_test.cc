#include "tensorcask/tensor/strided/concat_views.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/concat.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
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

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return std::vector<T>(flat.begin(), flat.end());
}

TEST(ConcatViews, JoinsTransposedAndRepeatedViews) {
  const TensorView a = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  const TensorView b = *TensorView(Tensor::FromValues<int32_t>({{9}, {8}})).Expand({2, 2});
  ASSERT_OK_AND_ASSIGN(const Tensor columns, ConcatViews({*a.Transpose(0, 1), b}, -1));
  EXPECT_EQ(columns.shape(), TensorShape({2, 4}));
  EXPECT_THAT(Values<int32_t>(columns), ElementsAre(1, 3, 9, 9, 2, 4, 8, 8));
  ASSERT_OK_AND_ASSIGN(const Tensor rows, ConcatViews({b, *a.Flip({1})}));
  EXPECT_THAT(Values<int32_t>(rows), ElementsAre(9, 9, 8, 8, 2, 1, 4, 3));
}

TEST(ConcatViews, OneViewIsCopied) {
  const Tensor a = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  ASSERT_OK_AND_ASSIGN(const Tensor copy, ConcatViews({a}, 1));
  EXPECT_EQ(copy.bytes(), a.bytes());
  EXPECT_FALSE(copy.SharesBufferWith(a));
}

// A view of random strides and these dims, on memory of its own.
TensorView Scattered(DType dtype, const std::vector<int64_t>& dims, std::mt19937& random, int& next) {
  const int rank = static_cast<int>(dims.size());
  std::vector<int64_t> order(dims.size());
  for (int i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int64_t> stored_dims;  // in the order of memory, with gaps
  for (const int64_t axis : order) stored_dims.push_back(2 * dims[static_cast<size_t>(axis)] + 1);
  Tensor memory = *Tensor::Create(dtype, *TensorShape::Create(stored_dims));
  if (dtype == DType::kString) {
    for (std::string& text : memory.mutable_flat<std::string>())
      text = absl::StrCat("some text that is long, ", next++);
  } else {
    for (int16_t& value : memory.mutable_flat<int16_t>()) value = static_cast<int16_t>(next++);
  }
  std::vector<int64_t> back(dims.size());
  for (int i = 0; i < rank; ++i) back[static_cast<size_t>(order[static_cast<size_t>(i)])] = i;
  TensorView view = *TensorView(memory).Permute(back);
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t size = dims[static_cast<size_t>(axis)];
    if (size == 1 && random() % 2 == 0) {
      view = *view.Narrow(axis, 1, 1);
    } else if (random() % 2 == 0) {
      view = *view.Slice(axis, 1, 1 + 2 * size, 2);
    } else {
      view = *view.Slice(axis, 2 * size, 0, -2);
    }
    EXPECT_EQ(view.dim(axis), size);
  }
  return view;
}

TEST(ConcatViews, AgreesWithConcatOfDenseTensors) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const DType dtype = seed % 3 == 0 ? DType::kString : DType::kInt16;
    const int rank = 1 + static_cast<int>(random() % 4);
    const int axis = static_cast<int>(random() % static_cast<uint32_t>(rank));
    std::vector<int64_t> dims;
    for (int i = 0; i < rank; ++i) dims.push_back(random() % 4);
    std::vector<TensorView> views;
    std::vector<Tensor> tensors;
    std::vector<int64_t> sizes;
    int next = 0;
    for (uint32_t i = 0; i < 1 + random() % 4; ++i) {
      sizes.push_back(random() % 4);
      dims[static_cast<size_t>(axis)] = sizes.back();
      views.push_back(Scattered(dtype, dims, random, next));
      tensors.push_back(*views.back().ToTensor());
    }
    ASSERT_OK_AND_ASSIGN(const Tensor wanted, Concat(tensors, axis));
    ASSERT_OK_AND_ASSIGN(const Tensor joined, ConcatViews(views, axis - (seed % 2 == 0 ? rank : 0)));
    ASSERT_EQ(joined.shape(), wanted.shape());
    if (dtype == DType::kString) {
      EXPECT_EQ(Values<std::string>(joined), Values<std::string>(wanted));
    } else {
      EXPECT_EQ(Values<int16_t>(joined), Values<int16_t>(wanted));
    }
    ASSERT_OK_AND_ASSIGN(const std::vector<TensorView> again, TensorView(joined).SplitSizes(axis, sizes));
    for (size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].shape(), views[i].shape());
  }
}

struct RejectCase {
  const char* name;
  std::vector<TensorView> views;
  int64_t axis;
  Code code;
  const char* says;
};

TensorView Int8(const TensorShape& shape) { return *Tensor::Zeros(DType::kInt8, shape); }

const RejectCase kRejected[] = {
    {"None", {}, 0, Code::kInvalidArgument, "no views"},
    {"Scalars", {Tensor::Scalar<int8_t>(1)}, 0, Code::kInvalidArgument, "a scalar has no axis"},
    {"AxisOutside", {Int8(TensorShape({2, 3}))}, 2, Code::kInvalidArgument, "axis 2 is outside shape [2,3]"},
    {"AxisMin", {Int8(TensorShape({2}))}, INT64_MIN, Code::kInvalidArgument, "axis -9223372036854775808 is outside"},
    {"DTypes",
     {Int8(TensorShape({2})), Tensor::FromValues<float>({1})},
     0,
     Code::kInvalidArgument,
     "tensor 1 is float32, tensor 0 is int8"},
    {"Ranks", {Int8(TensorShape({2})), Int8(TensorShape({2, 1}))}, 0, Code::kInvalidArgument, "tensor 1 has rank 2"},
    {"OtherDim",
     {*Int8(TensorShape({3, 2})).Transpose(0, 1), Int8(TensorShape({2, 4}))},
     0,
     Code::kInvalidArgument,
     "tensor 1 has 4 on axis 1 ([2,4]), tensor 0 has 3 ([2,3])"},
    // One element that claims to be many.
    {"SumTooLarge",
     {*Int8(TensorShape({1})).Expand({int64_t{1} << 62}), *Int8(TensorShape({1})).Expand({int64_t{1} << 62})},
     0,
     Code::kInvalidArgument,
     "the sum exceeds 2^63-1"},
    {"TooMuchMemory",
     {*Int8(TensorShape({1})).Expand({int64_t{1} << 61}), Int8(TensorShape({1}))},
     0,
     Code::kResourceExhausted,
     "int8 [2305843009213693953]"},
    {"DataThatIsNotThere",
     {Int8(TensorShape({4})), *TensorView::Create(TensorBuffer::MakeWithoutData(4, "it was skipped"), DType::kInt8,
                                                  Layout::RowMajor(TensorShape({4})))},
     0,
     Code::kFailedPrecondition,
     "it was skipped"},
};
class ConcatViewsRejects : public ::testing::TestWithParam<RejectCase> {};
TEST_P(ConcatViewsRejects, WithCodeAndMessage) {
  EXPECT_THAT(ConcatViews(GetParam().views, GetParam().axis), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(All, ConcatViewsRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ConcatViews, TakesMemoryForTheResultAlone) {
  const auto allocator = MakeRef<FailingAllocator>(/*fail_at=*/2);
  const TensorView a = *TensorView(Tensor::FromValues<float>({{1, 2}, {3, 4}})).Transpose(0, 1);
  ASSERT_OK_AND_ASSIGN(const Tensor joined, ConcatViews({a, a}, 0, allocator));
  EXPECT_EQ(allocator->live_blocks(), 1);
  EXPECT_THAT(ConcatViews({a, a}, 0, allocator), StatusIs(Code::kResourceExhausted, HasSubstr("float32 [4,2]")));
}

// The two floors state one number.
TEST(SplitOfTensors, GivesAsManyPiecesAsThatOfViews) {
  const Tensor tensor = *Tensor::Zeros(DType::kInt8, TensorShape({2, 0}));
  std::vector<int64_t> sizes(size_t{Layout::kMaxPieces} + 1);
  EXPECT_THAT(Split(tensor, sizes, 1),
              StatusIs(Code::kResourceExhausted, HasSubstr("axis 1 of shape [2,0]: 1048577 pieces; at most 1048576")));
  EXPECT_THAT(TensorView(tensor).SplitSizes(1, sizes), StatusIs(Code::kResourceExhausted, HasSubstr("1048577 pieces")));
  sizes.pop_back();
  EXPECT_EQ(Split(tensor, sizes, 1)->size(), sizes.size());
}

}  // namespace
}  // namespace tensorcask
