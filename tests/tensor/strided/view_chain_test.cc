#include "tensorcask/tensor/strided/view_chain.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

Tensor Rows() { return Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}}); }

TEST(ViewChain, IsEachStepAfterTheOther) {
  const Tensor rows = Rows();
  const absl::StatusOr<TensorView> view = ViewChain(rows).Slice(1, 0, 2).Flip({1}).Transpose(0, 1);
  ASSERT_OK(view);
  EXPECT_TRUE(view->SharesBufferWith(rows));
  EXPECT_TRUE(Equal(*view, Tensor::FromValues<float>({{2, 5}, {1, 4}})));
  ASSERT_OK_AND_ASSIGN(const Tensor input,
                       ViewChain(rows).Permute({1, 0}).Unsqueeze(0).ConvertTo(DType::kInt8).ToTensor());
  EXPECT_TRUE(Equal(input, Tensor::FromValues<int8_t>({{{1, 4}, {2, 5}, {3, 6}}})));
}

TEST(ViewChain, HasTheStepsOfViews) {
  const ViewChain rows(Rows());
  EXPECT_THAT(rows.Narrow(0, 1, 1).view()->dims(), ElementsAre(1, 3));
  EXPECT_THAT(rows.Select(0, 1).view()->dims(), ElementsAre(3));
  EXPECT_THAT(rows.Slice(*TensorSlice::Parse("0,1:-")).view()->dims(), ElementsAre(1, 3));
  EXPECT_THAT(rows.MoveAxis(0, 1).view()->strides(), ElementsAre(1, 3));
  EXPECT_THAT(rows.Reshape({3, 2}).view()->dims(), ElementsAre(3, 2));
  EXPECT_THAT(rows.Transpose(0, 1).ReshapeOrCopy({6}).view()->dims(), ElementsAre(6));
  EXPECT_THAT(rows.Flatten().view()->dims(), ElementsAre(6));
  EXPECT_THAT(rows.Unsqueeze(0).Squeeze(0).view()->dims(), ElementsAre(2, 3));
  EXPECT_THAT(rows.Unsqueeze(0).Expand({4, 2, 3}).view()->strides(), ElementsAre(0, 3, 1));
  EXPECT_THAT(rows.BroadcastTo(TensorShape({4, 2, 3})).view()->dims(), ElementsAre(4, 2, 3));
  EXPECT_EQ(rows.Bitcast(DType::kInt32).view()->dtype(), DType::kInt32);
  EXPECT_THAT(rows.Transpose(0, 1).Contiguous().view()->strides(), ElementsAre(2, 1));
}

TEST(ViewChain, KeepsTheFirstError) {
  const ViewChain broken = ViewChain(Rows()).Transpose(0, 2).Select(7, 0).ConvertTo(DType::kString);
  EXPECT_THAT(broken.view(), StatusIs(Code::kInvalidArgument, HasSubstr("Transpose: axis 2 is outside")));
  EXPECT_THAT(broken.ToTensor(), StatusIs(Code::kInvalidArgument, HasSubstr("Transpose")));
  EXPECT_THAT(ViewChain(absl::StatusOr<TensorView>(absl::NotFoundError("none"))).Flatten().view(),
              StatusIs(Code::kNotFound, HasSubstr("none")));
}

}  // namespace
}  // namespace tensorcask
