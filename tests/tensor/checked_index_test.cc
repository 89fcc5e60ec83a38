// Indices outside a view, in a build without NDEBUG: the message has the index, the axis and its size.

#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/dense_view.h"
#include "tensorcask/tensor/strided/accessor.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

#ifdef NDEBUG
#error "this test is for builds that check indices"
#endif

namespace tensorcask {
namespace {

TEST(CheckedIndexDeathTest, OfDenseView) {
  std::vector<int> values(6);
  const DenseView<int, 2> view(values.data(), {2, 3});
  EXPECT_EQ(&view(1, 2), &values[5]);
  EXPECT_DEATH(view(0, 3), "check failed: index 3 of axis 1 is outside \\[0, 3\\)");
  EXPECT_DEATH(view(-1, 0), "index -1 of axis 0 is outside \\[0, 2\\)");
  const DenseView<int, 1> flat(values.data(), {6});
  EXPECT_DEATH(flat[6], "index 6 of axis 0 is outside \\[0, 6\\)");
}

TEST(CheckedIndexDeathTest, OfAccessors) {
  const TensorView view = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const Accessor<const float, 2> accessor = *Accessor<const float, 2>::Create(view);
  EXPECT_EQ(accessor(1, 2), 6);
  EXPECT_DEATH(accessor(2, 0), "index 2 of axis 0 is outside \\[0, 2\\)");
  EXPECT_DEATH(accessor(1, 9), "index 9 of axis 1 is outside \\[0, 3\\)");
  EXPECT_DEATH(accessor[-1], "index -1 of axis 0 is outside \\[0, 2\\)");
  const auto packed = *PackedAccessor<const float, 2>::Create(view);
  EXPECT_DEATH(packed(0, 3), "index 3 of axis 1 is outside \\[0, 3\\)");
}

}  // namespace
}  // namespace tensorcask
