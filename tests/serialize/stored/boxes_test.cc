// Boxes that tile a shape and boxes that do not, and reading from them.

#include "tensorcask/serialize/stored/boxes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::stored {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Random = std::mt19937_64;

absl::Status Check(const TensorShape& shape, const std::vector<Box>& boxes) {
  TilingBudget budget(/*index_bytes=*/0);
  return CheckTiling(shape, boxes, &budget);
}

TEST(BoxesTest, Tile) {
  EXPECT_OK(Check(TensorShape({4, 6}), {{{0, 0}, {4, 2}}, {{0, 2}, {4, 4}}}));
  // Around a middle: no line divides all of them.
  EXPECT_OK(Check(TensorShape({3, 3}),
                  {{{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}}));
  EXPECT_OK(Check(TensorShape(), {{{}, {}}}));
  EXPECT_OK(Check(TensorShape({0, 3}), {{{0, 0}, {0, 3}}}));
  EXPECT_OK(Check(TensorShape({0, 3}), {}));
  EXPECT_OK(Check(TensorShape({5}), {{{0}, {3}}, {{3}, {2}}, {{5}, {0}}}));  // one has no element
  EXPECT_OK(Check(TensorShape({INT64_MAX}), {{{1}, {INT64_MAX - 1}}, {{0}, {1}}}));
}

struct RejectCase {
  const char* name;
  TensorShape shape;
  std::vector<Box> boxes;
  const char* says;
};

class BoxesRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(BoxesRejects, WithTheElement) {
  EXPECT_THAT(Check(GetParam().shape, GetParam().boxes), StatusIs(Code::kDataLoss, HasSubstr(GetParam().says)));
}

const RejectCase kRejects[] = {
    {"None", TensorShape({2, 3}), {}, "element [0,0] is in no box"},
    {"NoScalar", TensorShape(), {}, "element [] is in no box"},
    {"TwoScalars", TensorShape(), {{{}, {}}, {{}, {}}}, "element [] is in 2 boxes"},
    {"Hole", TensorShape({4}), {{{0}, {1}}, {{2}, {2}}}, "element [1] is in no box"},
    {"Overlap", TensorShape({4}), {{{0}, {3}}, {{2}, {2}}}, "element [2] is in 2 boxes"},
    // As many elements as the shape has.
    {"HoleAndOverlap", TensorShape({2, 2}), {{{0, 0}, {2, 1}}, {{0, 0}, {1, 2}}}, "element [0,0] is in 2 boxes"},
    {"Thrice", TensorShape({1}), {{{0}, {1}}, {{0}, {1}}, {{0}, {1}}}, "element [0] is in 3 boxes"},
    {"EndOutside", TensorShape({4}), {{{0}, {5}}}, "leaves the shape [4] on axis 0"},
    {"BeginOutside", TensorShape({4}), {{{0}, {4}}, {{5}, {0}}}, "leaves the shape [4] on axis 0"},
    {"NegativeOffset", TensorShape({4}), {{{-1}, {5}}}, "leaves the shape"},
    {"NegativeSize", TensorShape({4}), {{{2}, {-2}}}, "leaves the shape"},
    {"Overflow", TensorShape({4}), {{{2}, {INT64_MAX}}}, "leaves the shape"},
    {"OutsideOfNothing", TensorShape({0, 3}), {{{0, 2}, {0, 2}}}, "leaves the shape [0,3] on axis 1"},
    {"Rank", TensorShape({4}), {{{0, 0}, {4, 1}}}, "rank 1"},
};
INSTANTIATE_TEST_SUITE_P(Boxes, BoxesRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

// Divides a box in two along an axis until each part is small.
void Divide(const Box& box, Random& random, std::vector<Box>* boxes) {
  const size_t axis = box.sizes.empty() ? 0 : random() % box.sizes.size();
  if (box.sizes.empty() || box.sizes[axis] < 2 || random() % 5 == 0) {
    boxes->push_back(box);
    return;
  }
  const auto at = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(box.sizes[axis] - 1));
  Box first = box;
  Box second = box;
  first.sizes[axis] = at;
  second.offsets[axis] += at;
  second.sizes[axis] -= at;
  Divide(first, random, boxes);
  Divide(second, random, boxes);
}

TensorShape RandomShape(Random& random) {
  std::vector<int64_t> dims(random() % 5);
  for (int64_t& dim : dims) dim = static_cast<int64_t>(1 + random() % 6);
  return *TensorShape::Create(dims);
}

std::vector<int64_t> DimsOf(const TensorShape& shape) {
  std::vector<int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) dims.push_back(shape.dim(axis));
  return dims;
}

// How many boxes have each element.
std::vector<int> Count(const TensorShape& shape, const std::vector<Box>& boxes) {
  std::vector<int> counts(static_cast<size_t>(shape.num_elements()), 0);
  for (const Box& box : boxes) {
    for (size_t i = 0; i < counts.size(); ++i) {
      bool inside = true;
      int64_t rest = static_cast<int64_t>(i);
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        const auto a = static_cast<size_t>(axis);
        const int64_t at = rest % shape.dim(axis);
        rest /= shape.dim(axis);
        inside = inside && at >= box.offsets[a] && at - box.offsets[a] < box.sizes[a];
      }
      counts[i] += inside;
    }
  }
  return counts;
}

TEST(BoxesTest, AgreeWithCountingEachElement) {
  int tiled = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TensorShape shape = RandomShape(random);
    const std::vector<int64_t> dims = DimsOf(shape);
    std::vector<Box> boxes;
    Divide({std::vector<int64_t>(dims.size(), 0), dims}, random, &boxes);
    std::shuffle(boxes.begin(), boxes.end(), random);
    if (seed % 2 == 1 && !dims.empty()) {  // one box more, less, larger or moved, where that stays inside
      Box& box = boxes[random() % boxes.size()];
      const size_t axis = random() % dims.size();
      const auto size = static_cast<int64_t>(random() % static_cast<uint64_t>(dims[axis] + 1));
      box.sizes[axis] = size;
      box.offsets[axis] = static_cast<int64_t>(random() % static_cast<uint64_t>(dims[axis] - size + 1));
    }
    const std::vector<int> counts = Count(shape, boxes);
    const bool tiles = std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; });
    EXPECT_EQ(Check(shape, boxes).ok(), tiles);
    tiled += tiles;
  }
  EXPECT_GT(tiled, 1500);
}

TEST(BoxesTest, SlicesAreReadFromTheBoxesTheyMeet) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TensorShape shape = RandomShape(random);
    Tensor whole = *Tensor::Create(DType::kInt32, shape);
    std::iota(whole.mutable_data<int32_t>(), whole.mutable_data<int32_t>() + whole.num_elements(), 0);
    std::vector<Box> boxes;
    const std::vector<int64_t> dims = DimsOf(shape);
    Divide({std::vector<int64_t>(dims.size(), 0), dims}, random, &boxes);
    std::vector<TensorSlice::Extent> extents(dims.size());
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (random() % 3 == 0) continue;
      const auto start = static_cast<int64_t>(random() % static_cast<uint64_t>(dims[axis]));
      extents[axis] = {start, static_cast<int64_t>(1 + random() % static_cast<uint64_t>(dims[axis] - start))};
    }
    const TensorSlice slice = *TensorSlice::Create(extents);
    Tensor part = *Tensor::Create(DType::kInt32, *slice.Apply(shape));
    TensorView out = part;
    ASSERT_OK(ReadSliceFromBoxes(
        boxes, slice,
        [&](size_t number, const TensorSlice& of_box, TensorView* to) {
          const Box& box = boxes[number];
          std::vector<TensorSlice::Extent> at(dims.size());
          for (size_t axis = 0; axis < dims.size(); ++axis) at[axis] = {box.offsets[axis], box.sizes[axis]};
          const TensorView in_box = *TensorView(whole).Slice(*TensorSlice::Create(at));
          return internal::CopyFromHost(*in_box.Slice(of_box), to);
        },
        &out));
    EXPECT_TRUE(Equal(part, *TensorView(whole).Slice(slice)));
  }
}

TEST(BoxesTest, RowsAreWholeBoxesInOrder) {
  EXPECT_TRUE(AreRows(TensorShape({4, 6}), {{{0, 0}, {1, 6}}, {{1, 0}, {3, 6}}}));
  EXPECT_TRUE(AreRows(TensorShape({4, 6}), {{{0, 0}, {4, 6}}}));
  EXPECT_TRUE(AreRows(TensorShape(), {{{}, {}}}));
  EXPECT_FALSE(AreRows(TensorShape({4, 6}), {{{0, 0}, {4, 1}}, {{0, 1}, {4, 5}}}));
}

// Each of many boxes is compared with few others: otherwise this takes seconds.
TEST(BoxesTest, AGridOfManyBoxes) {
  constexpr int64_t kSide = 320;
  std::vector<Box> boxes;
  for (int64_t row = 0; row < kSide; ++row) {
    for (int64_t column = 0; column < kSide; ++column) boxes.push_back({{row * 3, column * 5, 0}, {3, 5, 7}});
  }
  const TensorShape shape({kSide * 3, kSide * 5, 7});
  EXPECT_OK(Check(shape, boxes));
  boxes[kSide * 100 + 17].offsets[1] += 5;
  EXPECT_THAT(Check(shape, boxes), StatusIs(Code::kDataLoss, HasSubstr("element [300,85,0] is in no box")));
}

TEST(BoxesTest, MoreAxesThanCanBeChecked) {
  for (const size_t rank : {8, 9, 30}) {
    const TensorShape shape = *TensorShape::Create(std::vector<int64_t>(rank, 2));
    const std::vector<Box> boxes = {{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 1)}};
    EXPECT_EQ(Check(shape, boxes).code(), rank == 8 ? Code::kDataLoss : Code::kResourceExhausted) << rank;
  }
}

// 2^14 boxes that divide 8 axes have 2^22 corners.
TEST(BoxesTest, AllTensorsOfACheckpointHaveOneBudget) {
  const TensorShape shape({4, 4, 4, 4, 4, 4, 2, 2});
  std::vector<Box> boxes;
  for (int64_t number = 0; number < shape.num_elements(); ++number) {
    Box box{std::vector<int64_t>(8), std::vector<int64_t>(8, 1)};
    int64_t rest = number;
    for (size_t axis = 8; axis-- > 0; rest /= shape.dim(static_cast<int>(axis))) {
      box.offsets[axis] = rest % shape.dim(static_cast<int>(axis));
    }
    boxes.push_back(std::move(box));
  }
  ASSERT_EQ(boxes.size(), size_t{1} << 14);
  TilingBudget budget(/*index_bytes=*/256);
  EXPECT_OK(CheckTiling(shape, boxes, &budget));
  EXPECT_THAT(CheckTiling(shape, boxes, &budget), StatusIs(Code::kResourceExhausted, HasSubstr("16384 boxes")));
  EXPECT_OK(CheckTiling(TensorShape({2}), std::vector<Box>{{{0}, {1}}, {{1}, {1}}}, &budget));
}

}  // namespace
}  // namespace tensorcask::stored
