// How often small things take memory, and what happens when `operator new` has none.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/reference.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/counted_allocations.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllocationsOf;
using ::tensorcask::testing::FailingNothrowNew;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Allocations, ShapesHaveNoneUpToRankSix) {
  const TensorShape small({1, 2, 3, 4, 5, 6});
  const TensorShape wide({70000, 70000, 3});
  EXPECT_EQ(AllocationsOf([&] {
              TensorShape copy = small;
              copy = wide;
              TensorShape moved = std::move(copy);
              moved = small;
              EXPECT_TRUE(moved.RemoveDim(0).ok());
              EXPECT_TRUE(moved.AddDim(7).ok());
              EXPECT_TRUE(moved.SetDim(2, 70).ok());
              EXPECT_EQ(moved.dims().size(), 6u);
            }),
            0);
  const TensorShape heap({1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(AllocationsOf([] { const TensorShape made({1, 2, 3, 4, 5, 6, 7}); }), 1);
  EXPECT_EQ(AllocationsOf([&] { TensorShape copy = heap; }), 0) << "copies share the dims";
  EXPECT_EQ(AllocationsOf([&] {
              TensorShape copy = heap;
              const TensorShape moved = std::move(copy);
            }),
            0);
}

TEST(Allocations, HandlesHaveNone) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  EXPECT_EQ(AllocationsOf([&] {
              Tensor copy = tensor;
              Tensor moved = std::move(copy);
              copy = moved;
              const Tensor reshaped = *tensor.Reshape(TensorShape({4}));
              const Tensor cast = *tensor.Bitcast(DType::kInt32, TensorShape({4}));
              const Tensor all = *tensor.Slice(0, 2);
              const TensorReference reference(reshaped);
              const Tensor empty;
              const Tensor no_elements = *Tensor::Create(DType::kFloat64, TensorShape({0, 3}));
            }),
            0);
}

TEST(Allocations, SmallTensorsHaveOne) {
  EXPECT_EQ(AllocationsOf([] { Tensor::Scalar(1.5); }), 1);
  EXPECT_EQ(AllocationsOf([] { EXPECT_TRUE(Tensor::Create(DType::kFloat32, TensorShape({2, 3})).ok()); }), 1);
  EXPECT_EQ(AllocationsOf([] { EXPECT_TRUE(Tensor::Create(DType::kInt8, TensorShape({896})).ok()); }), 1);
  EXPECT_EQ(AllocationsOf([] { EXPECT_TRUE(Tensor::Create(DType::kString, TensorShape({20})).ok()); }), 1);
  EXPECT_EQ(AllocationsOf([] { Tensor::FromValues<int32_t>({{1, 2}, {3, 4}}); }), 1);
  const Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  EXPECT_EQ(AllocationsOf([&] { EXPECT_TRUE(tensor.SubSlice(1).ok()); }), 1) << "the sub-buffer object";
  EXPECT_EQ(AllocationsOf([&] { EXPECT_TRUE(tensor.Clone().ok()); }), 1);
}

TEST(Allocations, ReadingElementsHasNone) {
  Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  EXPECT_EQ(AllocationsOf([&] {
              EXPECT_EQ(tensor.matrix<float>()(1, 1), 4);
              EXPECT_EQ((tensor.shaped<float, 3>({2, 1, 2})(1, 0, 0)), 3);
              EXPECT_EQ(tensor.flat_inner_dims<float>().dim(0), 2);
              tensor.mutable_flat<float>()[0] = 5;
              EXPECT_TRUE(tensor.EnsureMutable().ok());
            }),
            0);
}

// The objects of buffers, small (with the data in them) and large (beside it).
TEST(Allocations, ShortMemoryIsAnError) {  // ME-01
  for (const int64_t size : {10, 100000}) {
    SCOPED_TRACE(size);
    const TensorShape shape({size});
    const auto [numbers, strings] = [&] {
      const FailingNothrowNew failing;
      return std::pair(Tensor::Create(DType::kInt8, shape), Tensor::Zeros(DType::kString, shape));
    }();
    EXPECT_THAT(numbers, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("int8 [")));
    EXPECT_THAT(strings, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("string [")));
    EXPECT_OK(Tensor::Create(DType::kInt8, shape));
  }
}

}  // namespace
}  // namespace tensorcask
