#include "tensorcask/tensor/strided/accessor.h"

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

TEST(Accessor, ReadsAndWritesByIndex) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  TensorView view = *TensorView(tensor).Transpose(0, 1)->Flip({0});
  const TensorView& constant = view;
  ASSERT_OK_AND_ASSIGN(const auto in, (Accessor<const int32_t, 2>::Create(constant)));
  EXPECT_EQ(in(0, 0), 3);
  EXPECT_EQ(in(2, 1), 4);
  EXPECT_EQ(in[1][1], 5);
  EXPECT_EQ(in[1].dim(0), 2);
  EXPECT_EQ(in.stride(0), -1);
  EXPECT_EQ(in.data(), tensor.data<int32_t>() + 2);
  ASSERT_OK_AND_ASSIGN(const auto out, (Accessor<int32_t, 2>::Create(view)));
  out[0][1] = 60;
  out(1, 1) += 45;
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 2), 60);
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 1), 50);
  static_assert(std::is_same_v<decltype(in[0][0]), const int32_t&>, "const reaches the data");
  static_assert(std::is_same_v<decltype(out(0, 0)), int32_t&>);
  static_assert(sizeof(in) == 24, "three pointers");
  static_assert(sizeof(PackedAccessor<float, 3>) == 56 && sizeof(PackedAccessor<float, 3, int32_t>) == 32);
}

TEST(PackedAccessor, IsOfATensorToo) {
  Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(const auto out, (PackedAccessor<int32_t, 2>::Create(tensor)));
  out(1, 2) = 60;
  const Tensor& constant = tensor;
  ASSERT_OK_AND_ASSIGN(const auto in, (PackedAccessor<const int32_t, 2>::Create(constant)));
  EXPECT_EQ(in(1, 2), 60);
  EXPECT_EQ(in.stride(0), 3);
}

TEST(Accessor, WithoutElementsRowsCanStillBeTaken) {
  const TensorView view = *Tensor::Create(DType::kFloat32, TensorShape({3, 0}));
  ASSERT_OK_AND_ASSIGN(const auto in, (Accessor<const float, 2>::Create(view)));
  float sum = 0;
  for (int64_t i = 0; i < in.dim(0); ++i) {
    const auto row = in[i];
    for (int64_t j = 0; j < row.dim(0); ++j) sum += row[j];
  }
  EXPECT_EQ(sum, 0);
}

TEST(Accessor, RefusesOtherTypesAndRanks) {
  TensorView view = Tensor::FromValues<float>({{1, 2}});
  EXPECT_THAT((Accessor<const double, 2>::Create(view)),
              StatusIs(Code::kInvalidArgument, HasSubstr("float64 and rank 2 to the view float32 [1,2]")));
  EXPECT_THAT((Accessor<float, 1>::Create(view)), StatusIs(Code::kInvalidArgument, HasSubstr("rank 1")));
  EXPECT_THAT((PackedAccessor<const float, 3>::Create(view)), StatusIs(Code::kInvalidArgument, HasSubstr("rank 3")));
  const TensorView strings = Tensor::FromValues<std::string>({"a", "b"});
  ASSERT_OK_AND_ASSIGN(const auto in, (Accessor<const std::string, 1>::Create(strings)));
  EXPECT_EQ(in[1], "b");
}

TEST(Accessor, RefusesABufferWithoutData) {
  TensorView view = *TensorView::Create(TensorBuffer::MakeWithoutData(16, "it is on the moon"), DType::kFloat32,
                                        Layout::RowMajor(TensorShape({2, 2})));
  const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr("it is on the moon"));
  EXPECT_THAT((Accessor<const float, 2>::Create(view)), refused);
  EXPECT_THAT((Accessor<float, 2>::Create(view)), refused);
  EXPECT_THAT((PackedAccessor<const float, 2>::Create(view)), refused);
  EXPECT_THAT((PackedAccessor<float, 2, int32_t>::Create(view)), refused);
}

TEST(PackedAccessor, HoldsItsGeometry) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const auto packed = [&] {
    TensorView view = tensor;
    return *PackedAccessor<float, 2, int32_t>::Create(view);
  }();
  packed(1, 0) = 40;
  EXPECT_EQ(tensor.matrix<float>()(1, 0), 40);
  EXPECT_EQ(packed.dim(1), 3);
  EXPECT_EQ(packed.stride(0), 3);
  EXPECT_EQ(packed.data(), tensor.data<float>());
  ASSERT_OK_AND_ASSIGN(const auto turned, packed.Transpose(0, 1));
  EXPECT_EQ(turned(2, 1), 6);
  EXPECT_THAT(packed.Transpose(0, 2), StatusIs(Code::kInvalidArgument, HasSubstr("axes 0 and 2 of rank 2")));
}

TEST(PackedAccessor, ChecksThat32BitsAreEnough) {
  const Tensor one = Tensor::FromValues<float>({1});
  const TensorView many = *TensorView(one).Expand({int64_t{1} << 32});
  EXPECT_THAT((PackedAccessor<const float, 1, int32_t>::Create(many)),
              StatusIs(Code::kInvalidArgument, HasSubstr("32-bit indices")));
  EXPECT_OK((PackedAccessor<const float, 1>::Create(many)));
  const TensorView far = *TensorView(one).AsStrided({1}, {int64_t{1} << 40});
  EXPECT_THAT((PackedAccessor<const float, 1, int32_t>::Create(far)), StatusIs(Code::kInvalidArgument));
}

}  // namespace
}  // namespace tensorcask
