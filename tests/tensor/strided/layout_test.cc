#include "tensorcask/tensor/strided/layout.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;
using Code = absl::StatusCode;
using Numbers = std::vector<int64_t>;

constexpr int64_t kMost = INT64_MAX;
constexpr int64_t kLeast = INT64_MIN;

Layout Of(const Numbers& dims, const Numbers& strides, int64_t offset = 0) {
  absl::StatusOr<Layout> layout = Layout::Create(dims, strides, offset);
  EXPECT_OK(layout);
  return layout.ok() ? *layout : Layout();
}

Layout Dense(const Numbers& dims) { return Layout::RowMajor(*TensorShape::Create(dims)); }

std::string Text(const absl::StatusOr<Layout>& layout) {
  return layout.ok() ? layout->ToString() : layout.status().ToString();
}

TEST(Layout, IsAValueWithAndWithoutHeap) {
  EXPECT_EQ(Layout().ToString(), "[0] strides [1] offset 0");
  for (const int rank : {0, 1, 5, 6, 254}) {
    SCOPED_TRACE(rank);
    Numbers dims(static_cast<size_t>(rank), 1);
    if (rank > 0) dims.back() = 3;
    const Layout original = Dense(dims);
    Layout copy = original;
    EXPECT_EQ(copy, original);
    Layout moved = std::move(copy);
    EXPECT_EQ(moved, original);
    EXPECT_EQ(copy, Layout());  // NOLINT(bugprone-use-after-move): what it must be
    for (const Layout& other : {Dense({2, 3}), Dense({1, 2, 3, 4, 5, 6, 7})}) {
      Layout target = other;
      target = original;
      EXPECT_EQ(target, original);
      target = Layout(other);
      EXPECT_EQ(target, other);
      const Layout& alias = target;
      target = alias;
      EXPECT_EQ(target, other);
    }
  }
  std::ostringstream out;
  out << Dense({2, 3});
  EXPECT_EQ(out.str(), "[2,3] strides [3,1] offset 0");
  EXPECT_NE(Of({2}, {1}), Of({2}, {1}, 1));
  EXPECT_NE(Of({2}, {1}), Of({2}, {2}));
}

TEST(Layout, NegativeAxesCountFromTheBack) {
  for (const TensorShape& shape : {TensorShape({2, 3, 4}), TensorShape({1, 1, 1, 2, 3, 4})}) {
    const Layout layout = Layout::RowMajor(shape);
    EXPECT_EQ(layout.dim(-1), 4);
    EXPECT_EQ(layout.stride(-1), 1);
    EXPECT_EQ(layout.dim(-3), 2);
    EXPECT_EQ(layout.stride(-3), 12);
  }
}

TEST(LayoutDeathTest, NamesTheAxisAndTheLayout) {
  const Layout layout = Layout::RowMajor(TensorShape({2, 3}));
  EXPECT_DEATH(layout.dim(2), "axis 2 is outside the layout \\[2,3\\] strides \\[3,1\\] offset 0");
  EXPECT_DEATH(layout.stride(-3), "axis -3 is outside the layout");
}

TEST(Layout, ReachableElementsAreBounded) {
  const Layout flipped = Of({3, 4}, {-4, 1}, 8);
  EXPECT_EQ(flipped.bounds().begin, 0);
  EXPECT_EQ(flipped.bounds().end, 12);
  EXPECT_EQ(Of({}, {}, 7).bounds().end, 8);
  EXPECT_EQ(Of({2}, {kMost - 1}).bounds().end, kMost);
  EXPECT_EQ(Of({0, 3}, {kMost, kLeast}, kMost).bounds().end, 0);  // ST-04: no elements, nothing is reached
  EXPECT_EQ(Of({1, 2}, {kLeast, 1}).bounds().end, 2);             // nothing is stepped along axis 0
  EXPECT_EQ(flipped.shape(), TensorShape({3, 4}));
}

struct CreateCase {
  const char* name;
  Numbers dims, strides;
  int64_t offset;
  const char* says;
};
class CreateRejects : public ::testing::TestWithParam<CreateCase> {};
TEST_P(CreateRejects, WithCodeAndMessage) {
  const CreateCase& row = GetParam();
  EXPECT_THAT(Layout::Create(row.dims, row.strides, row.offset), StatusIs(Code::kInvalidArgument, HasSubstr(row.says)));
}
const CreateCase kBadGeometry[] = {
    {"LengthsDiffer", {2, 3}, {1}, 0, "2 dims and 1 strides"},
    {"NegativeDim", {2, -3}, {1, 1}, 0, "-3"},
    {"ProductOverflows", {kMost, 2}, {0, 0}, 0, "2"},
    {"ProductOverflowsBesideZero", {0, int64_t{1} << 62, 8}, {0, 0, 0}, 0, "8"},
    {"RankTooHigh", Numbers(255, 1), Numbers(255, 1), 0, "255"},
    {"NegativeOffset", {2}, {1}, -1, "offset is negative"},
    {"NegativeOffsetWithoutElements", {0}, {1}, -1, "offset is negative"},
    {"OneAxisOverflows", {3}, {kMost}, 0, "axis 0 positions exceed 2^63-1"},                        // ST-01
    {"OffsetOverflows", {2}, {2}, kMost - 1, "axis 0 positions exceed 2^63-1"},                     // ST-01
    {"SumOverflows", {2, 2}, {kMost / 2 + 1, kMost / 2 + 1}, 0, "axis 1 positions exceed 2^63-1"},  // ST-01
    {"LastNumberIsTaken", {2}, {kMost}, 0, "exceed 2^63-1"},
    {"OffsetIsTheLastNumber", {1}, {1}, kMost, "position 2^63-1"},
    {"LowEnd", {3}, {-1}, 1, "axis 0 an element is at position -1"},                      // ST-02
    {"LowEndIsNotMadeUpFor", {3, 9}, {-2, 8}, 3, "axis 0 an element is at position -1"},  // ST-02
    {"LeastStride", {2}, {kLeast}, kMost - 1, "axis 0 an element is at position"},        // ST-02
    {"LeastStrideOften", {3}, {kLeast}, 0, "exceed 2^63-1"},
};
INSTANTIATE_TEST_SUITE_P(Geometry, CreateRejects, ::testing::ValuesIn(kBadGeometry),
                         [](const auto& info) { return std::string(info.param.name); });

struct ErrorCase {
  const char* name;
  std::function<absl::Status()> run;
  Code code;
  const char* says;
};
class ViewRejects : public ::testing::TestWithParam<ErrorCase> {};
TEST_P(ViewRejects, WithCodeAndMessage) {
  EXPECT_THAT(GetParam().run(), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

#define ROW(name, dims, call, code, says)                                    \
  {                                                                          \
    name, [] { return Dense(Numbers dims).call.status(); }, Code::code, says \
  }
const ErrorCase kBadViews[] = {
    ROW("SliceAxis", ({2, 3}), Slice(2, 0, 1), kInvalidArgument,
        "Slice: axis 2 is outside [-2, 1] of the layout [2,3]"),
    ROW("SliceLowAxis", ({2, 3}), Slice(kLeast, 0, 1), kInvalidArgument, "is outside [-2, 1]"),
    ROW("SliceOfScalar", ({}), Slice(0, 0, 1), kInvalidArgument, "Slice: axis 0"),
    ROW("SliceStep", ({2, 3}), Slice(1, 0, 1, 0), kInvalidArgument, "the step along axis 1 is 0"),
    ROW("NarrowAxis", ({2}), Narrow(-2, 0, 1), kInvalidArgument, "Narrow: axis -2"),
    ROW("NarrowStart", ({2, 3}), Narrow(1, 4, 0), kOutOfRange, "Narrow: start 4 is outside [-3, 3], axis 1"),
    ROW("NarrowLength", ({2, 3}), Narrow(1, -2, 3), kOutOfRange, "length 3 from 1; at most 2 elements remain, axis 1"),
    ROW("NarrowNegative", ({2, 3}), Narrow(1, 0, -1), kOutOfRange, "length -1"),
    ROW("NarrowOverflow", ({2, 3}), Narrow(1, 1, kMost), kOutOfRange, "length"),
    ROW("SelectIndex", ({2, 3}), Select(1, 3), kOutOfRange, "Select: index 3 is outside [-3, 2], axis 1"),
    ROW("SelectLow", ({2, 3}), Select(0, -3), kOutOfRange, "Select: index -3"),
    ROW("SelectEmpty", ({0}), Select(0, 0), kOutOfRange, "index 0"),
    ROW("SelectOfScalar", ({}), Select(0, 0), kInvalidArgument, "Select: axis 0"),
    ROW("DiagonalAxis", ({2, 3}), Diagonal(0, 0, 2), kInvalidArgument, "Diagonal: axis 2"),
    ROW("DiagonalSame", ({2, 3}), Diagonal(0, 1, -1), kInvalidArgument, "both axes are 1"),
    ROW("UnfoldSize", ({2, 3}), Unfold(1, 4, 1), kOutOfRange, "window size 4 is outside [0, 3], axis 1"),
    ROW("UnfoldNegative", ({2, 3}), Unfold(1, -1, 1), kOutOfRange, "window size -1"),
    ROW("UnfoldStep", ({2, 3}), Unfold(1, 2, 0), kInvalidArgument, "the step along axis 1 is 0"),
    ROW("UnfoldTooMany", ({kMost}), Unfold(0, 0, 1), kInvalidArgument, "there are 2^63 windows"),
    ROW("UnfoldRank", (Numbers(254, 1)), Unfold(0, 1, 1), kInvalidArgument, "the rank is already the highest possible"),
    ROW("SplitSize", ({4}), Split(0, -1), kInvalidArgument, "pieces of size -1 along axis 0"),
    ROW("SplitZero", ({4}), Split(0, 0), kInvalidArgument, "pieces of size 0"),
    ROW("SplitBomb", ({int64_t{1} << 40}), Split(0, 1), kResourceExhausted, "1099511627776 pieces of axis 0"),
    ROW("SplitSizesShort", ({4}), SplitSizes(0, {1, 2}), kInvalidArgument, "add up to 3, not 4"),
    ROW("SplitSizesLong", ({4}), SplitSizes(0, {1, kMost, kMost}), kInvalidArgument, "from 1 along axis 0"),
    ROW("ChunkNone", ({4}), Chunk(0, 0), kInvalidArgument, "0 pieces"),
    ROW("ChunkBombOfNothing", ({0}), Chunk(0, kMost), kResourceExhausted, "pieces of axis 0"),
    ROW("TensorSplitAxis", ({4}), TensorSplit(1, 2), kInvalidArgument, "TensorSplit: axis 1"),
    ROW("TensorSplitNone", ({4}), TensorSplit(0, -1), kInvalidArgument, "-1 pieces"),
    ROW("TensorSplitBomb", ({4}), TensorSplit(0, kMost), kResourceExhausted, "at most 1048576"),
    ROW("TensorSplitAtAxis", ({4}), TensorSplitAt(1, {1}), kInvalidArgument, "TensorSplitAt: axis 1"),
    ROW("TransposeAxis", ({2, 3}), Transpose(0, 2), kInvalidArgument, "Transpose: axis 2"),
    ROW("TransposeOfScalar", ({}), Transpose(0, 1), kInvalidArgument, "Transpose: axis 1"),
    ROW("PermuteShort", ({2, 3}), Permute({0}), kInvalidArgument, "1 axes for rank 2"),
    ROW("PermuteTwice", ({2, 3}), Permute({1, -1}), kInvalidArgument, "axis 1 appears twice"),
    ROW("PermuteAxis", ({2, 3}), Permute({0, 2}), kInvalidArgument,
        "Permute: axis 2 is outside [-2, 1] of the layout [2,3]"),
    ROW("MoveAxisAxis", ({2, 3}), MoveAxis(0, -3), kInvalidArgument, "MoveAxis: axis -3"),
    ROW("FlipTwice", ({2, 3}), Flip({0, -2}), kInvalidArgument, "axis 0 appears twice"),
    ROW("FlipAxis", ({2, 3}), Flip({5}), kInvalidArgument, "Flip: axis 5"),
    ROW("ReshapeCount", ({2, 3}), Reshape({4}), kInvalidArgument, "the dims [4] have 4 elements, not 6"),
    ROW("ReshapeTwoOpen", ({2, 3}), Reshape({-1, -1}), kInvalidArgument, "more than one -1"),
    ROW("ReshapeRemainder", ({2, 3}), Reshape({4, -1}), kInvalidArgument, "6 elements are not a multiple of 4"),
    ROW("ReshapeAmbiguous", ({2, 0}), Reshape({0, -1}), kInvalidArgument, "do not determine -1"),   // SH-12
    ROW("ReshapeZeroOfSome", ({2, 3}), Reshape({0, -1}), kInvalidArgument, "do not determine -1"),  // SH-12
    ROW("ReshapeNegative", ({2, 3}), Reshape({-2, -3}), kInvalidArgument, "-2"),
    ROW("ReshapeOverflow", ({2, 3}), Reshape({kMost, kMost, -1}), kInvalidArgument, "9223372036854775807"),
    ROW("FlattenOrder", ({2, 3}), Flatten(1, 0), kInvalidArgument, "the first axis, 1, comes after the last, 0"),
    ROW("FlattenAxis", ({2, 3}), Flatten(0, 2), kInvalidArgument, "Flatten: axis 2"),
    ROW("SqueezeAxis", ({2, 3}), Squeeze(2), kInvalidArgument, "Squeeze: axis 2"),
    ROW("UnsqueezeAxis", ({2, 3}), Unsqueeze(3), kInvalidArgument, "axis 3 is outside [-3, 2]"),
    ROW("UnsqueezeRank", (Numbers(254, 1)), Unsqueeze(0), kInvalidArgument, "the rank is already the highest possible"),
    ROW("ExpandSize", ({2, 3}), Expand({4, 3}), kInvalidArgument, "4 for axis 0 of the result, which has 2"),
    ROW("ExpandNegative", ({1, 3}), Expand({-2, 3}), kInvalidArgument, "-2 for axis 0"),
    ROW("ExpandKeepsWhatIsNot", ({3}), Expand({-1, 3}), kInvalidArgument, "-1 for the new axis 0"),
    ROW("ExpandRank", ({2, 3}), Expand({3}), kInvalidArgument, "to rank 1; 2 to 254 are possible"),
    ROW("ExpandRankBomb", ({1}), Expand(Numbers(10000, 1)), kInvalidArgument, "to rank 10000"),
    ROW("ExpandOverflow", ({1, 1}), Expand({int64_t{1} << 32, int64_t{1} << 32}), kInvalidArgument,
        "4294967296"),  // SH-13
    ROW("BroadcastOverflow", ({3}), BroadcastTo(TensorShape({kMost / 3, 3})).value().Expand({2, -1, -1}),
        kInvalidArgument, "2"),  // SH-13
    ROW("BitcastScalar", ({}), Bitcast(4, 8), kInvalidArgument, "a scalar has no axis"),
    ROW("BitcastRatio", ({12}), Bitcast(2, 3), kInvalidArgument, "neither is a multiple"),
    ROW("BitcastNothing", ({12}), Bitcast(4, 0), kInvalidArgument, "at least 1"),
    ROW("BitcastSize", ({3}), Bitcast(4, 8), kInvalidArgument, "the size of the last axis, 3, is not a multiple of 2"),
    ROW("BitcastOverflow", ({int64_t{1} << 62}), Bitcast(8, 1), kInvalidArgument, "exceeds 2^63-1"),
    ROW("AsStridedNegative", ({4}), AsStrided({5}, {-1}, 3), kInvalidArgument, "an element is at position -1"),
    ROW("SetLengths", ({4}), SetDimsAndStrides({5}, {}), kInvalidArgument, "1 dims and 0 strides"),
    ROW("SetOverflow", ({4}), SetDimsAndStrides({2, kMost}, {-1, 2}), kInvalidArgument, "axis 0 exceeds 2^63-1"),
    ROW("SetDimAxis", ({4}), SetDim(1, 2), kInvalidArgument, "SetDim: axis 1 is outside"),
    ROW("SetDimNegative", ({4}), SetDim(0, -2), kInvalidArgument, "-2"),
    ROW("SetStrideAxis", ({4}), SetStride(-2, 2), kInvalidArgument, "SetStride: axis -2 is outside"),
    ROW("SetStrideBefore", ({4}), SetStride(0, -1), kInvalidArgument, "position -3"),
    ROW("ResizeNegative", ({4}), ResizeDim(-1), kInvalidArgument, "to rank -1"),
    ROW("ResizeRank", ({4}), ResizeDim(255), kInvalidArgument, "to rank 255"),
};
#undef ROW
INSTANTIATE_TEST_SUITE_P(Views, ViewRejects, ::testing::ValuesIn(kBadViews),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LayoutViews, RefuseGeometryThatDoesNotDivide) {
  EXPECT_THAT(Of({4}, {2}).Bitcast(4, 2), StatusIs(Code::kInvalidArgument, HasSubstr("stride of the last axis is 2")));
  EXPECT_THAT(Of({4}, {1}, 1).Bitcast(2, 4), StatusIs(Code::kInvalidArgument, HasSubstr("the offset, 1")));
  EXPECT_THAT(Of({2, 4}, {5, 1}).Bitcast(2, 4), StatusIs(Code::kInvalidArgument, HasSubstr("stride of axis 0, 5")));
  EXPECT_THAT(Of({2}, {1}, 1).ViewAsComplex(), StatusIs(Code::kInvalidArgument, HasSubstr("offset is odd")));
  EXPECT_THAT(Of({2, 2}, {3, 1}).ViewAsComplex(), StatusIs(Code::kInvalidArgument, HasSubstr("axis 0 is odd")));
  EXPECT_THAT(Of({2}, {int64_t{1} << 62}).ViewAsReal(), StatusIs(Code::kInvalidArgument, HasSubstr("2^63-1")));
  EXPECT_THAT(Of({2, 1}, {int64_t{1} << 62, 1}).Bitcast(8, 1), StatusIs(Code::kInvalidArgument, HasSubstr("2^63-1")));
  EXPECT_THAT(Of({3, 0}, {kMost, 1}).ResizeDim(1), StatusIs(Code::kInvalidArgument, HasSubstr("2^63-1")));
  EXPECT_THAT(Of({2, 3}, {1, 2}).Reshape({6}),
              StatusIs(Code::kInvalidArgument, HasSubstr("only a copy (ReshapeOrCopy) does")));
}

TEST(LayoutViews, CutOutABox) {
  const auto box = [](const char* text) { return TensorSlice::Parse(text).value(); };
  EXPECT_EQ(Text(Dense({4, 20}).Slice(box("1,2:3,5"))), "[2,5] strides [20,1] offset 23");
  EXPECT_EQ(Text(Dense({4, 20}).Slice(box("-:3,5"))), "[4,5] strides [20,1] offset 3");
  EXPECT_EQ(Text(Of({4, 20}, {-1, 4}, 3).Slice(box("3,1:-"))), "[1,20] strides [-1,4] offset 0");
  EXPECT_EQ(Text(Dense({}).Slice(box(""))), "[] strides [] offset 0");
  EXPECT_THAT(Dense({4, 20}).Slice(box("-")), StatusIs(Code::kInvalidArgument, HasSubstr("rank")));
  EXPECT_THAT(Dense({4, 20}).Slice(box("-:19,2")), StatusIs(Code::kOutOfRange, HasSubstr("axis 1")));
}

TEST(LayoutViews, StepBack) {
  const Layout row = Dense({6});
  const std::optional<int64_t> none;
  EXPECT_EQ(Text(row.Slice(0, none, none, -1)), "[6] strides [-1] offset 5");
  EXPECT_EQ(Text(row.Slice(0, 4, 0, -2)), "[2] strides [-2] offset 4");
  EXPECT_EQ(Text(row.Slice(0, -1, -100, -5)), "[2] strides [-5] offset 5");
  EXPECT_EQ(Text(row.Slice(0, 0, 5, -1)), "[0] strides [-1] offset 0");
  EXPECT_EQ(Text(row.Slice(0, none, none, kLeast)), "[1] strides [-9223372036854775808] offset 5");
  EXPECT_EQ(Text(row.Slice(0, 1, none, kMost)), "[1] strides [9223372036854775807] offset 1");
  EXPECT_EQ(Text(row.Flip({0})->Flip({-1})), row.ToString());
  EXPECT_EQ(Text(Dense({2, 0, 3}).Flip({0, 1, 2})), Dense({2, 0, 3}).ToString());
  EXPECT_EQ(Text(Of({2, 1}, {1, kLeast}).Flip({0, 1})), "[2,1] strides [-1,-9223372036854775808] offset 1");
}

// Steps that overflow where nothing is stepped along: the stride stays, the offset too.
TEST(LayoutViews, WithoutElementsArithmeticMayNotOverflow) {
  const Layout empty = Of({0, 5, 5}, {1, kMost, kLeast}, 9);
  EXPECT_EQ(Text(empty.Slice(1, 3, 5, 2)), "[0,1,5] strides [1,9223372036854775807,-9223372036854775808] offset 9");
  EXPECT_EQ(Text(empty.Select(2, 3)), "[0,5] strides [1,9223372036854775807] offset 9");
  EXPECT_THAT(empty.Flip({0, 1, 2}), IsOk());
  EXPECT_THAT(empty.Diagonal(-3, 1, 2), IsOk());
  EXPECT_THAT(empty.Unfold(1, 2, 2), IsOk());
  EXPECT_THAT(empty.Unsqueeze(1), IsOk());
  EXPECT_THAT(empty.ViewAsReal(), IsOk());
  EXPECT_THAT(empty.Reshape({5, 5, 0}), IsOk());
  EXPECT_THAT(Of({1, 2}, {kLeast, 1}).Unsqueeze(0), IsOk());
  EXPECT_THAT(Of({1}, {kLeast}).Reshape({1, 1}), IsOk());
  EXPECT_EQ(Text(Dense({3, 4}).Diagonal(kLeast)), "[0] strides [5] offset 0");
  EXPECT_EQ(Text(Dense({3, 4}).Diagonal(kMost)), "[0] strides [5] offset 0");
}

TEST(LayoutViews, PiecesAreAsPyTorchCutsThem) {
  const auto sizes = [](const absl::StatusOr<std::vector<Layout>>& pieces) {
    Numbers result;
    EXPECT_OK(pieces);
    for (const Layout& piece : *pieces) result.push_back(piece.dim(0));
    return result;
  };
  const Layout seven = Dense({7, 2});
  EXPECT_THAT(sizes(seven.Split(0, 3)), ElementsAre(3, 3, 1));
  EXPECT_THAT(sizes(seven.Split(-2, 100)), ElementsAre(7));
  EXPECT_THAT(sizes(Dense({0, 2}).Split(0, 3)), ElementsAre(0));
  EXPECT_THAT(sizes(Dense({0, 2}).Split(0, 0)), ElementsAre(0));
  EXPECT_THAT(sizes(seven.SplitSizes(0, {0, 5, 2})), ElementsAre(0, 5, 2));
  EXPECT_THAT(sizes(Dense({0}).SplitSizes(0, {})), IsEmpty());
  EXPECT_THAT(sizes(seven.Chunk(0, 3)), ElementsAre(3, 3, 1));
  EXPECT_THAT(sizes(Dense({5}).Chunk(0, 4)), ElementsAre(2, 2, 1));
  EXPECT_THAT(sizes(Dense({0}).Chunk(0, 3)), ElementsAre(0, 0, 0));
  EXPECT_THAT(sizes(seven.TensorSplit(0, 3)), ElementsAre(3, 2, 2));
  EXPECT_THAT(sizes(Dense({2}).TensorSplit(0, 3)), ElementsAre(1, 1, 0));
  EXPECT_THAT(sizes(seven.TensorSplitAt(0, {1, 100, 3})), ElementsAre(1, 6, 0, 4));
  EXPECT_THAT(sizes(seven.TensorSplitAt(0, {})), ElementsAre(7));
  EXPECT_EQ(Text((*seven.Split(0, 3))[2]), "[1,2] strides [2,1] offset 12");
}

TEST(LayoutViews, CrossTheLimitOfInlineRank) {
  const Layout five = Dense({2, 3, 4, 5, 6});
  EXPECT_EQ(Text(five.Unsqueeze(2)), "[2,3,1,4,5,6] strides [360,120,120,30,6,1] offset 0");
  EXPECT_EQ(five.Unsqueeze(2)->Squeeze(), five);
  EXPECT_EQ(*five.Unsqueeze(-1)->Squeeze(5), five);
  EXPECT_EQ(Text(five.Unfold(4, 2, 2)), "[2,3,4,5,3,2] strides [360,120,30,6,2,1] offset 0");
  EXPECT_EQ(Text(five.Unfold(4, 2, 2)->Select(0, 1)), "[3,4,5,3,2] strides [120,30,6,2,1] offset 360");
  EXPECT_EQ(Text(Dense({2, 2, 2, 2, 2, 2}).Diagonal(1)), "[2,2,2,2,1] strides [8,4,2,1,48] offset 16");
  EXPECT_EQ(Text(five.Unsqueeze(0)->Permute({5, 4, 3, 2, 1, 0})),
            "[6,5,4,3,2,1] strides [1,6,30,120,360,720] offset 0");
  EXPECT_EQ(Text(five.Unsqueeze(0)->MoveAxis(0, -1)), "[2,3,4,5,6,1] strides [360,120,30,6,1,720] offset 0");
  EXPECT_THAT(Dense({1}).Expand(Numbers(254, 1)), IsOk());
}

TEST(Layout, FillsStridesFromTheBack) {
  const auto fill = [](const Numbers& dims, const Numbers& strides) {
    const absl::StatusOr<DimVector> filled = Layout::FillStrides(dims, strides);
    EXPECT_OK(filled);
    return Numbers(filled->begin(), filled->end());
  };
  EXPECT_THAT(fill({2, 3, 4}, {-1, 8, -1}), ElementsAre(24, 8, 1));
  EXPECT_THAT(fill({2, 0, 4}, {-1, -1, -1}), ElementsAre(4, 4, 1));
  EXPECT_THAT(fill({}, {}), IsEmpty());
  EXPECT_EQ(Text(Of({9}, {1}, 3).SetDimsAndStrides({2, 3}, {-1, -7})), "[2,3] strides [3,1] offset 3");
  EXPECT_EQ(Text(Dense({2, 3}).SetDim(-1, 2)), "[2,2] strides [3,1] offset 0");
  EXPECT_EQ(Text(Dense({2, 3}).SetStride(0, 4)), "[2,3] strides [4,1] offset 0");
  EXPECT_EQ(Text(Dense({2, 3}).ResizeDim(3)), "[2,3,0] strides [3,1,0] offset 0");
  EXPECT_EQ(Text(Dense({2, 3}).ResizeDim(0)), "[] strides [] offset 0");
}

TEST(MemoryFormat, HasNamesAndStrides) {
  EXPECT_EQ(MemoryFormatName(MemoryFormat::kContiguous), "contiguous");
  EXPECT_EQ(MemoryFormatName(MemoryFormat::kChannelsLast2d), "channels_last_2d");
  EXPECT_EQ(MemoryFormatName(MemoryFormat::kChannelsLast3d), "channels_last_3d");
  EXPECT_EQ(MemoryFormatName(MemoryFormat::kPreserve), "preserve");
  EXPECT_THAT(*CanonicalStrides({2, 3, 4, 5}, MemoryFormat::kChannelsLast2d), ElementsAre(60, 1, 15, 3));
  EXPECT_THAT(CanonicalStrides({2, 3, 4}, MemoryFormat::kChannelsLast2d),
              StatusIs(Code::kInvalidArgument, HasSubstr("channels_last_2d is for rank 4; the rank is 3")));
  EXPECT_THAT(CanonicalStrides({2}, MemoryFormat::kPreserve), StatusIs(Code::kInvalidArgument, HasSubstr("preserve")));
}

// The tie breaks that PyTorch documents at is_channels_last_strides.
TEST(Layout, SuggestsAMemoryFormat) {
  using F = MemoryFormat;
  EXPECT_EQ(Of({2, 3, 4, 5}, {60, 1, 15, 3}).SuggestMemoryFormat(), F::kChannelsLast2d);
  EXPECT_EQ(Dense({2, 3, 4, 5}).SuggestMemoryFormat(), F::kContiguous);
  EXPECT_EQ(Of({2, 3, 2, 2, 2}, {24, 1, 12, 6, 3}).SuggestMemoryFormat(), F::kChannelsLast3d);
  EXPECT_EQ(Of({4, 1, 1, 1}, {1, 1, 1, 1}).SuggestMemoryFormat(), F::kContiguous);      // cannot be told apart
  EXPECT_EQ(Of({4, 1, 1, 1}, {4, 4, 4, 4}).SuggestMemoryFormat(), F::kContiguous);      // a slice along W
  EXPECT_EQ(Of({4, 4, 1, 1}, {4, 1, 4, 4}).SuggestMemoryFormat(), F::kChannelsLast2d);  // size-1 strides count
  EXPECT_EQ(Of({4, 4, 1, 1}, {4, 1, 1, 1}).SuggestMemoryFormat(), F::kContiguous);
  EXPECT_EQ(Of({2, 3, 4, 5}, {60, 0, 15, 3}).SuggestMemoryFormat(), F::kContiguous);  // stride 0 of C
  EXPECT_EQ(Of({0, 3, 2, 2}, {12, 1, 6, 3}).SuggestMemoryFormat(), F::kContiguous);   // no elements
  EXPECT_EQ(Dense({2, 3, 4}).SuggestMemoryFormat(), F::kContiguous);
}

TEST(Layout, IsContiguousPerFormat) {
  EXPECT_TRUE(Of({1, 3}, {7, 1}).IsContiguous());
  EXPECT_TRUE(Of({0}, {9}).IsContiguous());
  EXPECT_FALSE(Of({3}, {-1}, 2).IsContiguous());
  EXPECT_TRUE(Of({3}, {-1}, 2).IsContiguous(MemoryFormat::kPreserve));
  EXPECT_FALSE(Dense({2, 3}).IsContiguous(MemoryFormat::kChannelsLast2d));
  EXPECT_EQ(Text(Of({2, 3}, {-1, 2}, 1).Dense(MemoryFormat::kPreserve)), "[2,3] strides [1,2] offset 0");
  EXPECT_EQ(Text(Dense({10, 8}).Transpose(0, 1)->Slice(0, 0, 8, 2)->Slice(1, 0, 10, 2)->Dense(MemoryFormat::kPreserve)),
            "[4,5] strides [1,4] offset 0");
  EXPECT_THAT(Dense({2}).Dense(MemoryFormat::kChannelsLast3d), StatusIs(Code::kInvalidArgument, HasSubstr("rank 5")));
}

// Unrelated strides on many axes: an answer comes in bounded time, and it is never a wrong "no".
TEST(Layout, OverlapSearchIsBounded) {
  std::mt19937_64 random(3);
  const auto unrelated = [&](int axes, int bits) {
    Numbers strides(static_cast<size_t>(axes));
    for (int64_t& stride : strides) stride = static_cast<int64_t>(random() >> (64 - bits)) | 1;
    return Of(Numbers(strides.size(), 2), strides);
  };
  EXPECT_TRUE(unrelated(48, 57).HasInternalOverlap());   // gives up
  EXPECT_FALSE(unrelated(19, 57).HasInternalOverlap());  // gives up searching, and looks at all 2^19 places
  Numbers dims, strides;
  int64_t stride = 982451653;
  for (int i = 0; i < 40; ++i) {
    dims.push_back(2);
    strides.push_back(stride = 1 + stride * 48271 % 2147483647);
  }
  EXPECT_TRUE(Of(dims, strides).HasInternalOverlap());  // 2^40 elements in fewer than 2^37 places
  EXPECT_FALSE(
      Of({int64_t{1} << 20, int64_t{1} << 20}, {(int64_t{1} << 20) + 1, int64_t{1} << 41}).HasInternalOverlap());
  EXPECT_TRUE(Of({int64_t{1} << 30, int64_t{1} << 20}, {3, int64_t{1} << 20}).HasInternalOverlap());
}

TEST(LayoutViews, ReshapeGoesUpToTheGreatestRank) {
  Numbers dims = Numbers(253, 1);
  dims.push_back(6);
  ASSERT_OK_AND_ASSIGN(const Layout most, Dense({2, 3}).Reshape(dims));
  EXPECT_EQ(most.rank(), 254);
  EXPECT_EQ(most.num_elements(), 6);
  EXPECT_EQ(*most.Reshape({2, 3}), Dense({2, 3}));
  dims.insert(dims.begin(), 1);
  EXPECT_THAT(Dense({2, 3}).Reshape(dims), StatusIs(Code::kInvalidArgument, HasSubstr("255")));
}

}  // namespace
}  // namespace tensorcask
