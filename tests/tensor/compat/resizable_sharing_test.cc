// ResizableTensor: memory shared with others and given by the caller, and copies.
// Each test of the suite Caffe2 is one rule of Caffe2's tensor, with the numbers of its documentation and tests.

#include "tensorcask/tensor/compat/resizable.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/compat/resizable_testing.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Dims = std::vector<int64_t>;

constexpr int64_t k2To29 = int64_t{1} << 29;

// ---- Sharing --------------------------------------------------------------------------------------------------------

TEST(Caffe2, ShareDataSharesAndKeepsTheDims) {
  ResizableTensor source = Counting<float>({2, 3});
  ResizableTensor target = Counting<int8_t>({6});
  ASSERT_OK(target.ShareData(source));
  EXPECT_EQ(target.shape(), TensorShape({6}));
  EXPECT_EQ(target.dtype(), DType::kFloat32);
  EXPECT_TRUE(target.SharesMemoryWith(source));
  (*target.MutableData<float>())[1] = 10;
  EXPECT_THAT(Values<float>(source), ElementsAre(0, 10, 2, 3, 4, 5));
  ASSERT_OK(source.ShareData(source));
  EXPECT_TRUE(target.SharesMemoryWith(source));
}

TEST(Caffe2, ShareDataRefuses) {
  ResizableTensor target = Counting<float>({2});
  ResizableTensor source;
  ASSERT_OK(source.Resize({2}));
  EXPECT_THAT(target.ShareData(source), StatusIs(Code::kFailedPrecondition, HasSubstr("dtype of the source")));
  source = Counting<float>({2});
  source.FreeMemory();
  EXPECT_THAT(target.ShareData(source),
              StatusIs(Code::kFailedPrecondition, HasSubstr("the source, float32 [2], has no memory")));
  EXPECT_THAT(target.ShareData(Counting<float>({3})),
              StatusIs(Code::kInvalidArgument, HasSubstr("[3] has 3 elements, [2] has 2")));
  EXPECT_THAT(Values<float>(target), ElementsAre(0, 1));
}

TEST(Caffe2, ShareExternal) {
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    ResizableTensor tensor = Counting<int8_t>({3});
    ASSERT_OK(tensor.ShareExternal(DType::kFloat32, memory, sizeof(memory), [&] { ++released; }));
    EXPECT_THAT(Values<float>(tensor), ElementsAre(0, 1, 2));
    (*tensor.MutableData<float>())[0] = 7;
    EXPECT_EQ(memory[0], 7);
    ASSERT_OK(tensor.Extend(2, 100));
    EXPECT_THAT(Values<float>(tensor), ElementsAre(7, 1, 2, 3, 4));
    ASSERT_OK(tensor.Resize({2, 3}));
    ASSERT_OK_AND_ASSIGN(int32_t* const ints, tensor.MutableData<int32_t>());
    EXPECT_EQ(static_cast<void*>(ints), memory) << "another type of the same size";

    // Whatever needs more is refused, and nothing has changed.
    const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr("external memory of 24 bytes is too small"));
    EXPECT_THAT(tensor.Resize({7}), refused);
    EXPECT_THAT(tensor.Extend(1, 0), refused);
    EXPECT_THAT(tensor.ReserveSpace(3), refused);
    EXPECT_THAT(tensor.MutableData<double>(), refused);
    EXPECT_THAT(tensor.MutableData<std::string>(), refused);
    EXPECT_THAT(tensor.CopyFrom(Tensor::FromValues<int32_t>({1, 2, 3, 4, 5, 6, 7})), refused);
    EXPECT_THAT(tensor.CopyFrom(Tensor::FromValues<double>({1})), refused);
    EXPECT_EQ(tensor.shape(), TensorShape({2, 3}));
    EXPECT_EQ(*tensor.MutableData<int32_t>(), ints);

    // It keeps its address, also while another tensor shares it.
    ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
    ASSERT_OK(tensor.Resize({1}));
    EXPECT_EQ(Pointer(tensor), memory);
    tensor.FreeMemory();
    EXPECT_EQ(released, 0) << "the alias uses it";
    ASSERT_OK(tensor.Resize({100}));
    EXPECT_OK(tensor.MutableData<double>());
  }
  EXPECT_EQ(released, 1);
}

TEST(ResizableTensor, ExternalMemoryStaysExternalWhenItMoves) {
  float memory[2] = {0, 1};
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2}));
  ASSERT_OK(tensor.ShareExternal(DType::kFloat32, memory));
  ResizableTensor moved = Counting<float>({3});
  moved = std::move(tensor);
  EXPECT_THAT(moved.Resize({3}), StatusIs(Code::kFailedPrecondition, HasSubstr("external memory of 8 bytes")));
  EXPECT_THAT(Values<float>(moved), ElementsAre(0, 1));
  // And the one that it was taken from has none.
  ASSERT_OK(tensor.Resize({3}));  // NOLINT(bugprone-use-after-move)
  EXPECT_OK(tensor.MutableData<float>());
}

TEST(Caffe2, ShareExternalOfSizeZeroIsJustLargeEnough) {
  int64_t memory[2] = {5, 6};
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({2}));
  ASSERT_OK(tensor.ShareExternal(DType::kInt64, memory));
  EXPECT_EQ(tensor.capacity_bytes(), 16u);
  EXPECT_THAT(Values<int64_t>(tensor), ElementsAre(5, 6));
}

TEST(Caffe2, ShareExternalRefusesAndReleases) {
  alignas(8) char memory[24] = {};
  int released = 0;
  const auto release = [&] { ++released; };
  ResizableTensor tensor = Counting<float>({2});
  const auto refuses = [&](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(tensor.ShareExternal(DType::kInvalid, memory, 24, release), refuses("dtype invalid"));
  EXPECT_THAT(tensor.ShareExternal(DType::kString, memory, 24, release), refuses("dtype string"));
  EXPECT_THAT(tensor.ShareExternal(DType::kFloat64, memory, 15, release), refuses("15 bytes, but 16 are needed"));
  EXPECT_THAT(tensor.ShareExternal(DType::kFloat64, memory + 4, 16, release), refuses("not a multiple of 8"));
  EXPECT_THAT(tensor.ShareExternal(DType::kFloat64, nullptr, 16, release), refuses("16 are needed"));
  EXPECT_EQ(released, 5);
  EXPECT_THAT(Values<float>(tensor), ElementsAre(0, 1));
  ResizableTensor huge;
  ASSERT_OK(huge.Resize({2, 4, k2To29, k2To29}));
  EXPECT_THAT(huge.ShareExternal(DType::kFloat64, memory, 0, release), refuses("exceeds 2^63-1"));
  EXPECT_THAT(huge.ShareExternal(DType::kFloat64, memory, 24, release), refuses("exceeds 2^63-1"));
  EXPECT_EQ(released, 7);
  ResizableTensor empty;
  EXPECT_OK(empty.ShareExternal(DType::kFloat64, memory, 24, release));
  EXPECT_EQ(released, 8) << "without elements at once";
}

// ---- Copying --------------------------------------------------------------------------------------------------------

TEST(Caffe2, CopyFromTakesDimsAndDType) {
  ResizableTensor tensor = Counting<float>({6});
  const void* const pointer = Pointer(tensor);
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<float>({{1, 2}, {3, 4}})));
  EXPECT_EQ(tensor.shape(), TensorShape({2, 2}));
  EXPECT_THAT(Values<float>(tensor), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(Pointer(tensor), pointer) << "in the memory that was there";
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<int32_t>({7})));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(7));
  EXPECT_EQ(tensor.capacity_bytes(), 4u) << "another dtype, other memory";
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<std::string>({"a", "b"})));
  EXPECT_THAT(Values<std::string>(tensor), ElementsAre("a", "b"));
  ASSERT_OK(tensor.CopyFrom(*Tensor::Create(DType::kInt8, TensorShape({0, 3}))));
  EXPECT_EQ(tensor.shape(), TensorShape({0, 3}));
  EXPECT_EQ(tensor.dtype(), DType::kInt8);
}

TEST(Caffe2, CopyFromItselfAndFromItsOwnViews) {
  ResizableTensor tensor = Counting<int32_t>({2, 3});
  ASSERT_OK(tensor.CopyFrom(tensor));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  ASSERT_OK(tensor.CopyFrom(*tensor.View()->Transpose(0, 1)));
  EXPECT_EQ(tensor.shape(), TensorShape({3, 2}));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(0, 3, 1, 4, 2, 5));
  ASSERT_OK(tensor.CopyFrom(*tensor.View()->Slice(0, 1, 3)));
  EXPECT_THAT(Values<int32_t>(tensor), ElementsAre(1, 4, 2, 5));
}

TEST(ResizableTensor, CopyFromAnotherBufferOnTheSameMemory) {
  int32_t memory[5] = {1, 2, 3, 4, 5};
  ResizableTensor tensor;
  ASSERT_OK(tensor.Resize({4}));
  ASSERT_OK(tensor.ShareExternal(DType::kInt32, memory + 1));
  ASSERT_OK_AND_ASSIGN(const Tensor source, Tensor::FromExternal(DType::kInt32, TensorShape({4}), memory, 16, nullptr));
  ASSERT_OK(tensor.CopyFrom(source));
  EXPECT_THAT(memory, ElementsAre(1, 1, 2, 3, 4));
  ASSERT_OK(tensor.CopyFrom(*TensorView(source).Flip({0})));
  EXPECT_THAT(memory, ElementsAre(1, 3, 2, 1, 1));
}

TEST(Caffe2, CopyFromWritesWhereAliasesSeeIt) {
  ResizableTensor tensor = Counting<float>({2});
  ASSERT_OK_AND_ASSIGN(const Tensor alias, tensor.ToTensor());
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<float>({8, 9})));
  EXPECT_EQ(alias.flat<float>()[1], 9);
  ASSERT_OK(tensor.CopyFrom(Tensor::FromValues<float>({1, 2, 3})));
  EXPECT_EQ(alias.flat<float>()[1], 9) << "CopyFrom of another size must leave the old buffer unchanged";
}

TEST(Caffe2, CopyFromATensorWithoutMemoryIsRefused) {
  ResizableTensor source = Counting<float>({2});
  source.FreeMemory();
  ResizableTensor target = Counting<float>({1});
  EXPECT_THAT(target.CopyFrom(source), StatusIs(Code::kFailedPrecondition, HasSubstr("no memory")));
  EXPECT_THAT(source.Clone(), StatusIs(Code::kFailedPrecondition, HasSubstr("no memory")));
  const auto absent = Tensor::FromBuffer(DType::kFloat32, TensorShape({2}),
                                         TensorBuffer::MakeWithoutData(8, "the payload was skipped"));
  ASSERT_OK(absent);
  EXPECT_THAT(target.CopyFrom(*absent), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  ResizableTensor there = ResizableTensor::FromTensor(*absent);
  EXPECT_THAT(there.Data<float>(), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  EXPECT_THAT(there.MutableData<float>(), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  EXPECT_THAT(there.Extend(1, 0), StatusIs(Code::kFailedPrecondition, HasSubstr("payload was skipped")));
  EXPECT_EQ(target.shape(), TensorShape({1}));
}

TEST(Caffe2, CloneHasMemoryOfItsOwn) {
  const ResizableTensor source = Counting<std::string>({2, 2});
  ASSERT_OK_AND_ASSIGN(const ResizableTensor clone, source.Clone());
  EXPECT_FALSE(clone.SharesMemoryWith(source));
  EXPECT_EQ(Values<std::string>(clone), Values<std::string>(source));
}

}  // namespace
}  // namespace tensorcask
