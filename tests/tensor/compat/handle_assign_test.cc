#include "tensorcask/tensor/compat/handle.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/axis_index.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/compat/handle_samples.h"

namespace tensorcask {
namespace {

using testing::Block;
using testing::BufferCount;
using testing::BufferOf;
using testing::Floats;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::LazyCloneOf;
using testing::Matrix;
using testing::One;
using testing::Shown;
using testing::StatusIs;
using testing::Vector;
using Code = absl::StatusCode;

struct AssignCase {
  const char* name;
  std::vector<AxisIndex> index;
  TensorView value;
  Floats expected;  // what becomes of [[1,2,3],[4,5,6]]
};
class Assign : public ::testing::TestWithParam<AssignCase> {};

TEST_P(Assign, WritesThePartInEitherMode) {
  for (const AssignMode mode : {AssignMode::kCopyIfShared, AssignMode::kWriteThrough}) {
    for (const bool shared : {false, true}) {
      TensorHandle a = Matrix();
      const TensorHandle alias = shared ? *a.Alias(false) : TensorHandle();
      ASSERT_OK(a.Assign(GetParam().index, GetParam().value, mode));
      EXPECT_EQ(Shown(a), GetParam().expected);
    }
  }
}

const AxisIndex kAll = AxisIndex::All();
const AssignCase kAssignCases[] = {
    {"Element", {1, 2}, Tensor::Scalar<float>(9), {1, 2, 3, 4, 5, 9}},
    {"ElementFromTheBack", {-1, -3}, Tensor::Scalar<float>(9), {1, 2, 3, 9, 5, 6}},
    {"Row", {0}, Tensor::FromValues<float>({7, 8, 9}), {7, 8, 9, 4, 5, 6}},
    {"RowOfOneValue", {0}, Tensor::Scalar<float>(9), {9, 9, 9, 4, 5, 6}},
    {"Column", {kAll, 1}, Tensor::FromValues<float>({8, 9}), {1, 8, 3, 4, 9, 6}},
    {"All", {}, Tensor::Scalar<float>(9), {9, 9, 9, 9, 9, 9}},
    {"AllRowsFromOne", {kAll}, Tensor::FromValues<float>({7, 8, 9}), {7, 8, 9, 7, 8, 9}},
    {"EverySecond",
     {kAll, AxisIndex::Slice(std::nullopt, std::nullopt, 2)},
     *TensorView(Tensor::FromValues<float>({7, 9})).Unsqueeze(1),
     {7, 2, 7, 9, 5, 9}},
    {"Backwards",
     {0, AxisIndex::Slice(std::nullopt, std::nullopt, -1)},
     Tensor::FromValues<float>({7, 8, 9}),
     {9, 8, 7, 4, 5, 6}},
    {"ClampedSlice", {AxisIndex::Slice(1, 100)}, Tensor::Scalar<float>(9), {1, 2, 3, 9, 9, 9}},
    {"Nothing", {AxisIndex::Slice(2, 5)}, Tensor::Scalar<float>(9), {1, 2, 3, 4, 5, 6}},
};
INSTANTIATE_TEST_SUITE_P(Parts, Assign, ::testing::ValuesIn(kAssignCases),
                         [](const auto& info) { return std::string(info.param.name); });

struct AssignRefusal {
  const char* name;
  std::vector<AxisIndex> index;
  TensorView value;
  Code code;
  const char* says;
};
class AssignRefuses : public ::testing::TestWithParam<AssignRefusal> {};

TEST_P(AssignRefuses, AndNothingHasChanged) {
  for (const AssignMode mode : {AssignMode::kCopyIfShared, AssignMode::kWriteThrough}) {
    for (const bool shared : {false, true}) {
      TensorHandle a = Matrix();
      const TensorHandle alias = shared ? *a.Alias(false) : TensorHandle();
      const TensorBuffer* const buffer = BufferOf(a);
      EXPECT_THAT(a.Assign(GetParam().index, GetParam().value, mode),
                  StatusIs(GetParam().code, HasSubstr(GetParam().says)));
      EXPECT_EQ(BufferOf(a), buffer);
      EXPECT_EQ(BufferCount(a), shared ? 2 : 1);
      EXPECT_EQ(Shown(a), Floats({1, 2, 3, 4, 5, 6}));
    }
  }
}

const AssignRefusal kAssignRefusals[] = {
    {"TooManyIndices", {0, 0, 0}, Tensor::Scalar<float>(9), Code::kInvalidArgument, "3 indices for the 2 axes"},
    {"ElementOutside", {2}, Tensor::Scalar<float>(9), Code::kOutOfRange, "Select"},
    {"StepZero", {AxisIndex::Slice(0, 1, 0)}, Tensor::Scalar<float>(9), Code::kInvalidArgument, "step"},
    {"ValueTooLong", {0}, Tensor::FromValues<float>({7, 8, 9, 10}), Code::kInvalidArgument, "[3]"},
    {"ValueOfHigherRank", {0, 0}, Tensor::FromValues<float>({7}), Code::kInvalidArgument, "Expand"},
    {"OtherDType", {0}, Tensor::Scalar<double>(9), Code::kInvalidArgument, "dtype"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, AssignRefuses, ::testing::ValuesIn(kAssignRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(AssignCopyIfShared, WhoCountsAsAnother) {
  const auto stays = [](TensorHandle& a) {
    const TensorBuffer* const buffer = BufferOf(a);
    EXPECT_OK(a.Assign({0}, One(), AssignMode::kCopyIfShared));
    return BufferOf(a) == buffer;
  };
  {
    TensorHandle a = Vector();
    EXPECT_TRUE(stays(a)) << "no other handle";
  }
  {
    TensorHandle a = Vector();
    const TensorHandle same = a;
    const WeakTensorHandle weak(a);
    EXPECT_TRUE(stays(a)) << "handles on the object, strong and weak";
  }
  {
    TensorHandle a = Vector();
    const TensorView view = *a.view();
    EXPECT_FALSE(stays(a)) << "a view that was kept";
    EXPECT_EQ(Shown(view), Floats({1, 2}));
  }
  {
    Tensor tensor = Tensor::FromValues<float>({1, 2});
    TensorHandle a(tensor);
    EXPECT_FALSE(stays(a)) << "the tensor it was made from";
    EXPECT_EQ(tensor.flat<float>()[0], 1);
  }
  {
    Tensor tensor = Tensor::FromValues<float>({{3, 2}, {5, 4}});
    TensorHandle a(*tensor.SubSlice(1));
    EXPECT_FALSE(stays(a)) << "the root of a sub-buffer";
    EXPECT_EQ(tensor.flat<float>()[2], 5);
    tensor = Tensor();
    EXPECT_TRUE(stays(a)) << "a sub-buffer that alone keeps its root";
  }
  {
    TensorHandle a = Block();
    TensorHandle clone = LazyCloneOf(a);
    EXPECT_FALSE(stays(a)) << "a lazy clone";
    EXPECT_TRUE(stays(clone)) << "the last on the memory";
  }
  {
    float memory[] = {1, 2};
    TensorHandle a(*Tensor::FromExternal(DType::kFloat32, TensorShape({2}), memory, sizeof(memory), nullptr));
    EXPECT_FALSE(stays(a)) << "external memory: its owner may look";
    EXPECT_EQ(memory[0], 1);
    EXPECT_TRUE(stays(a));
  }
}

TEST(AssignCopyIfShared, CopiesTheElementsOfTheObjectAndNotTheRestOfTheBuffer) {
  TensorHandle a = Block();
  TensorHandle part = *a.Slice(0, 8, 12, 2);
  ASSERT_OK(part.Assign({1}, One(), AssignMode::kCopyIfShared));
  EXPECT_EQ(Shown(part), Floats({0, 1}));
  EXPECT_EQ(BufferOf(part)->size_bytes(), 8u);
  EXPECT_EQ(part.object()->view().ToString(), "float32 [2] strides [1] offset 0");
}

TEST(AssignCopyIfShared, GivesRepeatedElementsMemoryOfTheirOwn) {
  TensorHandle a = Vector();
  TensorHandle rows = *a.View([](const TensorView& view) { return view.Expand({2, 2}); });
  EXPECT_THAT(rows.Assign({0}, One(), AssignMode::kWriteThrough), IsOk());  // one row has no overlap
  EXPECT_EQ(Shown(rows), Floats({1, 1, 1, 1}));
  EXPECT_THAT(rows.Assign({}, One(), AssignMode::kWriteThrough), StatusIs(Code::kInvalidArgument));
  a = TensorHandle();  // now rows alone has the buffer, and its rows share it
  ASSERT_OK(rows.Assign({0}, Tensor::Scalar<float>(9), AssignMode::kCopyIfShared));
  EXPECT_EQ(Shown(rows), Floats({9, 9, 1, 1}));
}

TEST(Assign, ValueMayShareTheBuffer) {
  for (const AssignMode mode : {AssignMode::kCopyIfShared, AssignMode::kWriteThrough}) {
    TensorHandle a(Tensor::FromValues<float>({1, 2, 3, 4}));
    const TensorView shifted = *a.object()->view().Slice(0, 0, 3);
    ASSERT_OK(a.Assign({AxisIndex::Slice(1, std::nullopt)}, shifted, mode));
    EXPECT_EQ(Shown(a), Floats({1, 1, 2, 3}));
    EXPECT_EQ(Shown(shifted), mode == AssignMode::kCopyIfShared ? Floats({1, 2, 3}) : Floats({1, 1, 2}));
  }
}

TEST(Assign, MovesStrings) {
  TensorHandle a(Tensor::FromValues<std::string>({"one", "two"}));
  const TensorHandle alias = *a.Alias(false);
  ASSERT_OK(a.Assign({1}, Tensor::Scalar<std::string>("new"), AssignMode::kCopyIfShared));
  EXPECT_EQ(a.object()->view().data<std::string>()[1], "new");
  EXPECT_EQ(alias.object()->view().data<std::string>()[1], "two");
}

TEST(Assign, WithoutElementsOrData) {
  TensorHandle empty(*Tensor::Create(DType::kFloat32, TensorShape({0, 3})));
  EXPECT_OK(empty.Assign({}, One(), AssignMode::kCopyIfShared));
  EXPECT_OK(empty.Assign({}, One(), AssignMode::kWriteThrough));

  TensorHandle nowhere(*TensorView::Create(TensorBuffer::MakeWithoutData(8, "it is on the moon"), DType::kFloat32,
                                           Layout::RowMajor(TensorShape({2}))));
  for (const AssignMode mode : {AssignMode::kCopyIfShared, AssignMode::kWriteThrough}) {
    EXPECT_THAT(nowhere.Assign({0}, One(), mode), StatusIs(Code::kFailedPrecondition, HasSubstr("on the moon")));
  }
  EXPECT_EQ(*nowhere.Select(0, 1)->shape(), TensorShape());  // geometry needs no data
}

TEST(Assign, ReportsMemoryThatCannotBeHadAndChangesNothing) {
  const auto allocator = MakeRef<testing::FailingAllocator>(/*fail_at=*/2, /*for_good=*/true);
  const Tensor memory = *Tensor::Zeros(DType::kFloat32, TensorShape({1024}), allocator);
  TensorHandle a(memory);
  TensorHandle clone = LazyCloneOf(a);  // its first write must copy with the same allocator
  const TensorBuffer* const buffer = BufferOf(clone);
  EXPECT_THAT(clone.Assign({0}, One(), AssignMode::kWriteThrough), StatusIs(Code::kResourceExhausted));
  EXPECT_EQ(BufferOf(clone), buffer);
  EXPECT_EQ(clone.object()->view().data<float>()[0], 0);
  EXPECT_EQ(a.object()->view().data<float>()[0], 0);
}

}  // namespace
}  // namespace tensorcask
