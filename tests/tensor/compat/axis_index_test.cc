#include "tensorcask/tensor/compat/axis_index.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

const AxisIndex kAll = AxisIndex::All();

struct IndexCase {
  const char* name;
  std::vector<AxisIndex> index;
  const char* expected;  // the view of [3,4,5]
};
class IndexViewOf345 : public ::testing::TestWithParam<IndexCase> {};

TEST_P(IndexViewOf345, GivesTheGeometry) {
  const Tensor tensor = *Tensor::Zeros(DType::kInt8, TensorShape({3, 4, 5}));
  ASSERT_OK_AND_ASSIGN(const TensorView part, IndexView(tensor, GetParam().index));
  EXPECT_EQ(part.ToString(), GetParam().expected);
  EXPECT_TRUE(part.SharesBufferWith(tensor));
}

const IndexCase kIndexCases[] = {
    {"Nothing", {}, "int8 [3,4,5] strides [20,5,1] offset 0"},
    {"FirstElement", {1}, "int8 [4,5] strides [5,1] offset 20"},
    {"AllElements", {1, 2, 3}, "int8 [] strides [] offset 33"},
    {"FromTheBack", {-1, -1, -1}, "int8 [] strides [] offset 59"},
    {"LastAxis", {kAll, kAll, 2}, "int8 [3,4] strides [20,5] offset 2"},
    {"MiddleAxis", {kAll, 2}, "int8 [3,5] strides [20,1] offset 10"},
    {"SliceBehindElement", {1, AxisIndex::Slice(2, std::nullopt)}, "int8 [2,5] strides [5,1] offset 30"},
    {"ElementBehindSlice", {AxisIndex::Slice(1, 3), 0}, "int8 [2,5] strides [20,1] offset 20"},
    {"Step", {kAll, AxisIndex::Slice(std::nullopt, std::nullopt, 3)}, "int8 [3,2,5] strides [20,15,1] offset 0"},
    {"Backwards",
     {kAll, kAll, AxisIndex::Slice(std::nullopt, std::nullopt, -1)},
     "int8 [3,4,5] strides [20,5,-1] offset 4"},
    {"Clamped", {AxisIndex::Slice(2, 99)}, "int8 [1,4,5] strides [20,5,1] offset 40"},
};
INSTANTIATE_TEST_SUITE_P(Parts, IndexViewOf345, ::testing::ValuesIn(kIndexCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(IndexView, Refuses) {
  const Tensor tensor = *Tensor::Zeros(DType::kInt8, TensorShape({3, 4}));
  EXPECT_THAT(IndexView(tensor, {0, 0, 0}),
              StatusIs(Code::kInvalidArgument, HasSubstr("3 indices for the 2 axes of int8 [3,4]")));
  EXPECT_THAT(IndexView(tensor, {kAll, kAll, kAll}), StatusIs(Code::kInvalidArgument, HasSubstr("3 indices")));
  EXPECT_THAT(IndexView(tensor, {3}), StatusIs(Code::kOutOfRange, HasSubstr("Select")));
  EXPECT_THAT(IndexView(tensor, {0, -5}), StatusIs(Code::kOutOfRange, HasSubstr("Select")));
  EXPECT_THAT(IndexView(tensor, {AxisIndex::Slice(0, 1, 0)}), StatusIs(Code::kInvalidArgument, HasSubstr("step")));
  EXPECT_THAT(IndexView(Tensor::Scalar<float>(1), {0}), StatusIs(Code::kInvalidArgument, HasSubstr("0 axes")));
}

}  // namespace
}  // namespace tensorcask
