#include "tensorcask/tensor/concat.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;
using Tensors = std::vector<Tensor>;

constexpr int64_t k2To62 = int64_t{1} << 62;

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return std::vector<T>(flat.begin(), flat.end());
}

Tensor Int8(const TensorShape& shape) { return *Tensor::Zeros(DType::kInt8, shape); }

TEST(Concat, RowsAndColumns) {
  const Tensor a = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  const Tensor b = Tensor::FromValues<int32_t>({{5, 6}, {7, 8}});
  ASSERT_OK_AND_ASSIGN(const Tensor rows, Concat({a, b}));
  EXPECT_EQ(rows.shape(), TensorShape({4, 2}));
  EXPECT_THAT(Values<int32_t>(rows), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  ASSERT_OK_AND_ASSIGN(const Tensor columns, Concat({a, b, a}, 1));
  EXPECT_EQ(columns.shape(), TensorShape({2, 6}));
  EXPECT_THAT(Values<int32_t>(columns), ElementsAre(1, 2, 5, 6, 1, 2, 3, 4, 7, 8, 3, 4));
  EXPECT_TRUE(columns.IsAligned());
}

TEST(Concat, NegativeAxesCountFromTheBack) {
  const Tensor a = Tensor::FromValues<int8_t>({{1, 2}, {3, 4}});
  EXPECT_EQ(Concat({a, a}, -1)->shape(), TensorShape({2, 4}));
  EXPECT_EQ(Concat({a, a}, -2)->shape(), TensorShape({4, 2}));
}

TEST(Concat, Strings) {
  const Tensor a = Tensor::FromValues<std::string>({{"a", "b"}, {"a string longer than a small one", "d"}});
  const Tensor b = Tensor::FromValues<std::string>({{std::string("\0x", 2)}, {"f"}});
  ASSERT_OK_AND_ASSIGN(const Tensor all, Concat({a, b}, 1));
  EXPECT_THAT(Values<std::string>(all),
              ElementsAre("a", "b", std::string("\0x", 2), "a string longer than a small one", "d", "f"));
}

TEST(Concat, OneTensorIsCloned) {
  const Tensor a = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  ASSERT_OK_AND_ASSIGN(const Tensor copy, Concat({a}, 1));
  EXPECT_EQ(copy.shape(), a.shape());
  EXPECT_EQ(copy.bytes(), a.bytes());
  EXPECT_FALSE(copy.SharesBufferWith(a));
}

TEST(Concat, TensorsWithoutElementsTakePartByTheirDims) {
  const Tensor a = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  const Tensor none = *Tensor::Create(DType::kInt32, TensorShape({2, 0}));
  ASSERT_OK_AND_ASSIGN(const Tensor all, Concat({none, a, none, a}, 1));
  EXPECT_THAT(Values<int32_t>(all), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
  EXPECT_EQ(Concat({none, none}, 0)->shape(), TensorShape({4, 0}));
  EXPECT_EQ(Concat({none, none}, 1)->shape(), TensorShape({2, 0}));
  EXPECT_FALSE(Concat({none, none}, 0)->buffer());
}

TEST(Concat, SlicesAsParts) {
  const Tensor a = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}, {5, 6}});
  ASSERT_OK_AND_ASSIGN(const Tensor tail, a.Slice(1, 3));
  EXPECT_THAT(Values<int32_t>(*Concat({tail, *a.Slice(0, 2)}, 1)), ElementsAre(3, 4, 1, 2, 5, 6, 3, 4));
}

struct RejectCase {
  const char* name;
  Tensors tensors;
  int64_t axis;
  const char* says;
};

const RejectCase kRejected[] = {
    {"None", {}, 0, "no tensors"},
    {"Scalars", {Tensor::Scalar<int8_t>(1), Tensor::Scalar<int8_t>(2)}, 0, "a scalar has no axis"},
    {"ScalarBehindVector", {Int8(TensorShape({2})), Tensor::Scalar<int8_t>(2)}, 0, "tensor 1 has rank 0 ([])"},
    {"AxisOutside", {Int8(TensorShape({2, 3}))}, 2, "axis 2 is outside shape [2,3]"},
    {"AxisFarOutside", {Int8(TensorShape({2, 3}))}, (int64_t{1} << 32), "axis 4294967296 is outside"},
    {"AxisBelow", {Int8(TensorShape({2, 3}))}, -3, "axis -3 is outside shape [2,3]"},
    {"AxisMin", {Int8(TensorShape({2, 3}))}, INT64_MIN, "axis -9223372036854775808 is outside"},
    {"DTypes",
     {Int8(TensorShape({2})), Int8(TensorShape({2})), Tensor::FromValues<float>({1, 2})},
     0,
     "Concat along axis 0: tensor 2 is float32, tensor 0 is int8"},
    {"DTypesWithoutElements", {Int8(TensorShape({2})), Tensor()}, 0, "tensor 1 is float32, tensor 0 is int8"},
    {"Ranks", {Int8(TensorShape({2})), Int8(TensorShape({2, 1}))}, 0, "tensor 1 has rank 2 ([2,1]), tensor 0 has rank"},
    {"OtherDim",
     {Int8(TensorShape({2, 3})), Int8(TensorShape({2, 4}))},
     0,
     "tensor 1 has 4 on axis 1 ([2,4]), tensor 0 has 3 ([2,3])"},
    {"OtherDimOfNegativeAxis", {Int8(TensorShape({2, 3})), Int8(TensorShape({5, 3}))}, -1, "tensor 1 has 5 on axis 0"},
    {"NoBroadcast", {Int8(TensorShape({2, 3})), Int8(TensorShape({2, 1}))}, 0, "tensor 1 has 1 on axis 1"},
    {"EmptyPartOfOtherDim", {Int8(TensorShape({2, 3})), Int8(TensorShape({0}))}, 0, "tensor 1 has rank 1"},
    // SH-13: two shapes that are legal, as they have no elements, and a result that is not.
    {"SumTooLarge",
     {Int8(TensorShape({k2To62, 0})), Int8(TensorShape({k2To62, 0}))},
     0,
     "tensor 1 has 4611686018427387904 on that axis: the sum exceeds 2^63-1"},
    {"ProductTooLarge",
     {Int8(TensorShape({0, k2To62, 1})), Int8(TensorShape({0, k2To62, 1}))},
     2,
     "Concat along axis 2: dim 2 is 2 in shape [0,4611686018427387904,2]: the product"},
};

class ConcatRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ConcatRejects, WithCodeAndMessage) {
  EXPECT_THAT(Concat(GetParam().tensors, GetParam().axis),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(All, ConcatRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Concat, HugeDimsWithoutElements) {
  const Tensor huge = Int8(TensorShape({k2To62, 0}));
  EXPECT_EQ(Concat({huge, huge}, 1)->shape(), TensorShape({k2To62, 0}));
}

TEST(Concat, DataThatIsNotThere) {
  const auto absent = Tensor::FromBuffer(DType::kInt8, TensorShape({1, 4}),
                                         TensorBuffer::MakeWithoutData(4, "the data of \"w\" was skipped"));
  ASSERT_OK(absent);
  EXPECT_THAT(Concat({Int8(TensorShape({1, 4})), *absent}),
              StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\" was skipped")));
  EXPECT_THAT(Split(*absent, {1, 3}, 1), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\" was skipped")));
  EXPECT_OK(Split(*absent, {1, 0}, 0)) << "rows only share what is there";
}

TEST(Concat, AllocationFailure) {
  const auto allocator = MakeRef<FailingAllocator>(1);
  const Tensor a = Tensor::FromValues<float>({1, 2});
  EXPECT_THAT(Concat({a, a}, 0, allocator), StatusIs(Code::kResourceExhausted, HasSubstr("float32 [4]")));
  EXPECT_OK(Concat({a, a}, 0, allocator));
}

TEST(Split, RowsShareMemory) {
  Tensor tensor = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}, {5, 6}});
  ASSERT_OK_AND_ASSIGN(Tensors parts, Split(tensor, {1, 0, 2}));
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(parts[0].shape(), TensorShape({1, 2}));
  EXPECT_EQ(parts[1].shape(), TensorShape({0, 2}));
  EXPECT_EQ(parts[2].shape(), TensorShape({2, 2}));
  EXPECT_TRUE(parts[2].SharesBufferWith(tensor));
  parts[2].mutable_matrix<int32_t>()(0, 1) = 40;
  EXPECT_EQ(tensor.matrix<int32_t>()(1, 1), 40);
}

TEST(Split, OtherAxesAreCopied) {
  Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(const Tensors parts, Split(tensor, {2, 0, 1}, -1));
  ASSERT_THAT(parts, SizeIs(3));
  tensor.mutable_matrix<int32_t>()(0, 0) = 10;
  EXPECT_THAT(Values<int32_t>(parts[0]), ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(parts[1].shape(), TensorShape({2, 0}));
  EXPECT_THAT(Values<int32_t>(parts[2]), ElementsAre(3, 6));
  for (const Tensor& part : parts) EXPECT_FALSE(part.SharesBufferWith(tensor));
}

TEST(Split, AxesWithoutSize) {
  const Tensor tensor = Int8(TensorShape({2, 0}));
  EXPECT_THAT(*Split(tensor, {}, 1), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const Tensors parts, Split(tensor, {0, 0}, 1));
  EXPECT_EQ(parts[1].shape(), TensorShape({2, 0}));
  EXPECT_EQ((*Split(Int8(TensorShape({0, 3})), {1, 2}, 1))[1].shape(), TensorShape({0, 2}));
}

struct SplitRejectCase {
  const char* name;
  TensorShape shape;
  std::vector<int64_t> sizes;
  int64_t axis;
  const char* says;
};

const SplitRejectCase kSplitRejected[] = {
    {"Scalar", TensorShape(), {1}, 0, "Split: a scalar has no axis"},
    {"AxisOutside", TensorShape({3}), {3}, 1, "Split: axis 1 is outside shape [3]"},
    {"TooMuch", TensorShape({2, 3}), {2, 2}, 1, "axis 1 of shape [2,3]: size 1 is 2; only 1 are left"},
    {"TooLittle", TensorShape({2, 3}), {1, 1}, 1, "the sizes leave 1 over"},
    {"None", TensorShape({3}), {}, 0, "the sizes leave 3 over"},
    {"Negative", TensorShape({3}), {4, -1}, 0, "size 0 is 4; only 3 are left"},
    {"NegativeFirst", TensorShape({3}), {-1, 4}, 0, "size 0 is -1; sizes are not negative"},
    {"SumWraps", TensorShape({3}), {INT64_MAX, INT64_MAX, 5}, 0, "size 0 is 9223372036854775807; only 3"},
    {"MinSize", TensorShape({3}), {INT64_MIN}, 0, "size 0 is -9223372036854775808"},
};

class SplitRejects : public ::testing::TestWithParam<SplitRejectCase> {};

TEST_P(SplitRejects, WithCodeAndMessage) {
  EXPECT_THAT(Split(Int8(GetParam().shape), GetParam().sizes, GetParam().axis),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(All, SplitRejects, ::testing::ValuesIn(kSplitRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Split, AllocationFailureAtEachPart) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  for (int64_t fail_at = 1; fail_at <= 3; ++fail_at) {
    const auto allocator = MakeRef<FailingAllocator>(fail_at);
    EXPECT_THAT(Split(tensor, {1, 1, 1}, 1, allocator), StatusIs(Code::kResourceExhausted, HasSubstr("int32 [2,1]")));
    EXPECT_EQ(allocator->live_blocks(), 0);
  }
}

// Element by element, and there and back.
TEST(ConcatSplit, AreInverse) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int rank = 1 + static_cast<int>(random() % 4);
    const int axis = static_cast<int>(random() % static_cast<uint32_t>(rank));
    TensorShape shape;
    for (int i = 0; i < rank; ++i) ASSERT_OK(shape.AddDim(random() % 4));
    Tensors parts;
    std::vector<int64_t> sizes;
    int64_t next = 0;
    for (uint32_t i = 0; i < 1 + random() % 4; ++i) {
      sizes.push_back(random() % 4);
      ASSERT_OK(shape.SetDim(axis, sizes.back()));
      Tensor part = *Tensor::Create(DType::kInt16, shape);
      for (int16_t& value : part.mutable_flat<int16_t>()) value = static_cast<int16_t>(next++);
      parts.push_back(part);
    }
    ASSERT_OK_AND_ASSIGN(const Tensor whole, Concat(parts, axis - (seed % 2 == 0 ? rank : 0)));
    EXPECT_EQ(whole.dim(axis), std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    EXPECT_EQ(whole.num_elements(), next);
    int64_t inner = 1;
    for (int i = axis + 1; i < rank; ++i) inner *= shape.dim(i);
    for (int64_t at = 0; at < whole.num_elements(); ++at) {  // where each element came from
      const int64_t outer = at / inner / whole.dim(axis);
      int64_t step = at / inner % whole.dim(axis);
      size_t part = 0;
      while (step >= sizes[part]) step -= sizes[part++];
      EXPECT_EQ(whole.flat<int16_t>()[at],
                parts[part].flat<int16_t>()[(outer * sizes[part] + step) * inner + at % inner]);
    }
    ASSERT_OK_AND_ASSIGN(const Tensors again, Split(whole, sizes, axis));
    ASSERT_EQ(again.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(again[i].shape(), parts[i].shape());
      EXPECT_EQ(Values<int16_t>(again[i]), Values<int16_t>(parts[i]));
    }
  }
}

}  // namespace
}  // namespace tensorcask
