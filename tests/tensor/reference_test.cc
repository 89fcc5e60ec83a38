#include "tensorcask/tensor/reference.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

TEST(TensorReference, OfNothing) {
  const TensorReference none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.size_bytes(), 0u);
  EXPECT_FALSE(none.root());
  EXPECT_FALSE(TensorReference(Tensor())) << "a tensor without elements has no buffer";
  EXPECT_FALSE(none.SharesBufferWith(none)) << "nothing is not shared";
}

TEST(TensorReference, HoldsTheRoot) {
  const Tensor whole = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  const Tensor row = *whole.SubSlice(1);
  const TensorReference of_row(row);
  EXPECT_TRUE(of_row);
  EXPECT_EQ(of_row.size_bytes(), 24u) << "the whole allocation";
  EXPECT_EQ(of_row.root(), whole.buffer());
  EXPECT_TRUE(of_row.SharesBufferWith(TensorReference(whole)));
  EXPECT_FALSE(of_row.SharesBufferWith(TensorReference(*whole.Clone())));
}

TEST(TensorReference, KeepsTheMemory) {
  int released = 0;
  float value = 1;
  Tensor tensor = *Tensor::FromExternal(DType::kFloat32, TensorShape({1}), &value, 4, [&released] { ++released; });
  TensorReference reference(tensor);
  EXPECT_EQ(tensor.buffer()->use_count(), 2);
  TensorReference copy = reference;
  EXPECT_EQ(tensor.buffer()->use_count(), 3) << "copying counts";
  TensorReference moved = std::move(copy);
  EXPECT_FALSE(copy);  // NOLINT(bugprone-use-after-move): promised
  EXPECT_EQ(tensor.buffer()->use_count(), 3);
  tensor = Tensor();
  reference = TensorReference();
  EXPECT_EQ(released, 0);
  EXPECT_EQ(moved.root()->use_count(), 1);
  moved = TensorReference();
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace tensorcask
