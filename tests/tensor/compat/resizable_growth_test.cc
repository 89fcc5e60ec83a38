// ResizableTensor: Extend, Shrink and ReserveSpace.
// Each test of the suite Caffe2 is one rule of Caffe2's tensor, with the numbers of its documentation and tests.

#include "tensorcask/tensor/compat/resizable.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/compat/resizable_testing.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Dims = std::vector<int64_t>;

// ---- Extend, Shrink, ReserveSpace -----------------------------------------------------------------------------------

TEST(Caffe2, ExtendGrowsByPercent) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  ASSERT_OK(tensor.Extend(1, 100));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 3}));
  EXPECT_EQ(tensor.capacity_bytes(), 12 * sizeof(int32_t)) << "room for 4 rows";
  EXPECT_THAT(absl::MakeConstSpan(*tensor.Data<int32_t>(), 6), ElementsAre(0, 1, 2, 3, 4, 5));
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Extend(1, 100));
  EXPECT_EQ(tensor.shape(), TensorShape({4, 3}));
  EXPECT_EQ(Pointer(tensor), pointer) << "the second allocates nothing";
  ASSERT_OK(tensor.Extend(5, 50));
  EXPECT_EQ(tensor.capacity_bytes(), 27 * sizeof(int32_t)) << "what is needed is more than 6";
  EXPECT_THAT(absl::MakeConstSpan(*tensor.Data<int32_t>(), 6), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Caffe2, ExtendRoundsTheGrowthUp) {
  ResizableTensor tensor = Counting<int8_t>({10});
  ASSERT_OK(tensor.Extend(1, 31));
  EXPECT_EQ(tensor.capacity_bytes(), 14u);
  ASSERT_OK(tensor.Resize({0}));
  tensor = Counting<int8_t>({10});
  ASSERT_OK(tensor.Extend(1, 30));
  EXPECT_EQ(tensor.capacity_bytes(), 13u);
}

TEST(Caffe2, ExtendWithoutMemoryIsResize) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({0, 4}));
  ASSERT_OK(tensor.Extend(2, 100));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 4}));
  EXPECT_FALSE(tensor.dtype_initialized() || tensor.storage_initialized());
  ASSERT_OK(tensor.MutableData<int8_t>());
  EXPECT_EQ(tensor.capacity_bytes(), 8u);
}

TEST(Caffe2, ExtendByNothing) {
  ResizableTensor tensor = Counting<int8_t>({3});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Extend(0, 1000));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_EQ(tensor.shape(), TensorShape({3}));
}

TEST(Caffe2, ExtendKeepsStrings) {
  ResizableTensor tensor = Counting<std::string>({3});
  const std::vector<std::string> before = Values<std::string>(tensor);
  ASSERT_OK(tensor.Extend(2, 0));
  const std::vector<std::string> after = Values<std::string>(tensor);
  EXPECT_THAT(absl::MakeConstSpan(after).first(3), ::testing::ElementsAreArray(before));
  EXPECT_THAT(absl::MakeConstSpan(after).last(2), Each(""));

  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.Extend(1, 0));
  EXPECT_EQ(alias.flat<std::string>()[2], before[2]) << "of shared strings a copy is taken";
  EXPECT_EQ(Values<std::string>(tensor)[2], before[2]);
}

TEST(Caffe2, ExtendNeverWritesIntoSharedMemory) {
  ResizableTensor tensor = Counting<int32_t>({4});
  ResizableTensor other;
  ASSERT_OK(tensor.ReserveSpace(10));
  for (int i = 0; i < 4; ++i) (*tensor.MutableData<int32_t>())[i] = i;
  ASSERT_OK(other.Resize({4}));
  ASSERT_OK(other.ShareData(tensor));
  ASSERT_OK(tensor.Extend(1, 0));  // both have room after the same four elements
  ASSERT_OK(other.Extend(1, 0));
  (*tensor.MutableData<int32_t>())[4] = 100;
  (*other.MutableData<int32_t>())[4] = 200;
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 100));
  EXPECT_THAT(Values<int32_t>(other), ElementsAre(0, 1, 2, 3, 200));
}

struct ExtendRejectCase {
  const char* name;
  Dims dims;
  int64_t num;
  double percent;
  const char* says;
};
const ExtendRejectCase kExtendRejected[] = {
    {"Negative", {2}, -1, 0, "by -1 rows"},
    {"Scalar", {}, 1, 0, "Extend: a scalar has no rows"},
    {"NegativeGrowth", {2}, 1, -1, "growth by -1 percent"},
    {"NanGrowth", {2}, 1, std::numeric_limits<double>::quiet_NaN(), "growth by nan percent"},
    {"InfiniteGrowth", {2}, 1, std::numeric_limits<double>::infinity(), "growth by inf percent"},
    {"HugeGrowth", {2}, 1, 1e300, "growth by 1e+300 percent is too much"},
    {"GrowthInBytes", {2}, 1, 2e20, "exceeds 2^63-1"},
    {"RowsOverflow", {2}, INT64_MAX, 0, "by 9223372036854775807 rows: too many"},
    {"ElementsOverflow", {2, 4}, int64_t{1} << 61, 0, "Extend: dim 1 is 4 in shape [2305843009213693954,4]"},
    {"BytesOverflow", {2, 1}, int64_t{1} << 61, 0, "the size in bytes exceeds 2^63-1"},
};
class ExtendRejects : public ::testing::TestWithParam<ExtendRejectCase> {};
TEST_P(ExtendRejects, WithCodeAndMessageAndNothingChanges) {
  ResizableTensor tensor = Counting<double>(GetParam().dims);
  const void* const pointer = Pointer(tensor);
  EXPECT_THAT(tensor.Extend(GetParam().num, GetParam().percent),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_EQ(tensor.shape(), *TensorShape::Create(GetParam().dims));
  EXPECT_EQ(Pointer(tensor), pointer);
}
INSTANTIATE_TEST_SUITE_P(All, ExtendRejects, ::testing::ValuesIn(kExtendRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Caffe2, ShrinkFreesNothing) {
  ResizableOptions options;
  options.keep_on_shrink = false;
  ResizableTensor tensor = Counting<int32_t>({4, 2}, options);
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.Shrink(3));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 2}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(Pointer(tensor), alias.data<int32_t>());
  EXPECT_EQ(tensor.ToTensor()->buffer()->size_bytes(), 24u) << "of as many bytes as there are elements";
  ASSERT_OK(tensor.Shrink(0));
  EXPECT_EQ(tensor.shape(), TensorShape({0, 2}));
  EXPECT_THAT(tensor.Shrink(1), StatusIs(Code::kOutOfRange, HasSubstr("Shrink [0,2] to 1 rows: it has 0")));
  EXPECT_THAT(tensor.Shrink(-1), StatusIs(Code::kOutOfRange, HasSubstr("Shrink [0,2] to -1 rows")));
  EXPECT_EQ(tensor.shape(), TensorShape({0, 2}));
  ResizableTensor scalar = Counting<int32_t>({});
  EXPECT_THAT(scalar.Shrink(0), StatusIs(Code::kInvalidArgument, HasSubstr("a scalar has no rows")));
}

TEST(Caffe2, ReserveSpaceDiscardsAndKeepsTheDims) {
  ResizableTensor tensor = Counting<float>({2, 3});
  ASSERT_OK(tensor.ReserveSpace(100));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 3}));
  EXPECT_EQ(tensor.capacity_bytes(), 1200u);
  EXPECT_TRUE(tensor.storage_initialized());
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.Extend(98, 0));
  ASSERT_OK(tensor.Resize({1, 3}));
  ASSERT_OK(tensor.ReserveSpace(50));
  EXPECT_EQ(Pointer(tensor), pointer);
  EXPECT_EQ(tensor.capacity_bytes(), 1200u);
}

TEST(Caffe2, ReserveSpaceRefuses) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2}));
  EXPECT_THAT(tensor.ReserveSpace(5), StatusIs(Code::kFailedPrecondition, HasSubstr("without a dtype")));
  ASSERT_OK(tensor.MutableData<float>());
  EXPECT_THAT(tensor.ReserveSpace(-5), StatusIs(Code::kInvalidArgument, HasSubstr("ReserveSpace: dim 0 is -5")));
  EXPECT_THAT(tensor.ReserveSpace(INT64_MAX), StatusIs(Code::kInvalidArgument, HasSubstr("exceeds 2^63-1")));
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  EXPECT_THAT(tensor.ReserveSpace(5), StatusIs(Code::kFailedPrecondition, HasSubstr("other tensors share")));
  ResizableTensor scalar = Counting<float>({});
  EXPECT_THAT(scalar.ReserveSpace(5), StatusIs(Code::kInvalidArgument, HasSubstr("a scalar has no rows")));
}

TEST(Caffe2, ReserveSpaceWithoutMemoryHasRoomForTheDims) {
  ResizableTensor tensor = Counting<float>({4});
  tensor.FreeMemory();
  ASSERT_OK(tensor.ReserveSpace(1));
  EXPECT_EQ(tensor.capacity_bytes(), 16u);
}

// PyTorch's resize_ of a storage.
TEST(ResizableTensor, ResizesAndKeepsTheFirstElements) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  ASSERT_OK(tensor.ResizeAndKeep({3, 5}));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 5}));
  EXPECT_THAT(absl::MakeConstSpan(*tensor.Data<int32_t>(), 6), ElementsAre(0, 1, 2, 3, 4, 5));
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.ResizeAndKeep({4}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Pointer(tensor), pointer) << "the memory is large enough";
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.ResizeAndKeep({2}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1));
  EXPECT_NE(Pointer(tensor), pointer) << "the memory is shared";
  EXPECT_EQ(alias.num_elements(), 4);
  EXPECT_THAT(tensor.ResizeAndKeep({-1}), StatusIs(Code::kInvalidArgument, HasSubstr("dim 0 is -1")));
  EXPECT_THAT(tensor.ResizeAndKeep({INT64_MAX}), StatusIs(Code::kInvalidArgument, HasSubstr("exceeds 2^63-1")));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1));
}

TEST(ResizableTensor, ResizesAndKeepsObjects) {
  ResizableTensor tensor = Counting<std::string>({2});
  const std::vector<std::string> before = Values<std::string>(tensor);
  ASSERT_OK(tensor.ResizeAndKeep({2, 2}));
  EXPECT_THAT(Values<std::string>(tensor), ElementsAre(before[0], before[1], "", ""));
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.ResizeAndKeep({1}));
  EXPECT_THAT(Values<std::string>(tensor), ElementsAre(before[0]));
  EXPECT_EQ(alias.flat<std::string>()[0], before[0]) << "it is copied, for the alias has it, too";
}

TEST(ResizableTensor, ResizeAndKeepWithoutMemoryIsResize) {
  ResizableTensor tensor;
  ASSERT_OK(tensor.ResizeAndKeep({4}));
  EXPECT_EQ(tensor.shape(), TensorShape({4}));
  EXPECT_FALSE(tensor.storage_initialized());
  int32_t memory[4] = {1, 2, 3, 4};
  ASSERT_OK(tensor.ShareExternal(DType::kInt32, memory));
  EXPECT_THAT(tensor.ResizeAndKeep({5}), StatusIs(Code::kFailedPrecondition, HasSubstr("external")));
  ASSERT_OK(tensor.ResizeAndKeep({3}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace tensorcask
