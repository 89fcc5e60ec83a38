#include "tensorcask/tensor/partial_shape.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::SizeIs;
using Code = absl::StatusCode;
using Dims = std::vector<int64_t>;
using Partial = PartialTensorShape;

constexpr int64_t k2To62 = int64_t{1} << 62;

struct AcceptCase {
  const char* name;
  Dims dims;
  bool fully_defined;
  int64_t num_elements;
  const char* text;
};

const AcceptCase kAccepted[] = {
    {"Scalar", {}, true, 1, "[]"},
    {"Full", {2, 3}, true, 6, "[2,3]"},
    {"UnknownFirst", {-1, 3}, false, -1, "[?,3]"},
    {"AllUnknown", {-1, -1, -1}, false, -1, "[?,?,?]"},
    {"Empty", {0, 5}, true, 0, "[0,5]"},
    {"ZeroBesideUnknown", {0, -1}, false, -1, "[0,?]"},
    {"HugeButEmpty", {k2To62, 0, 1}, true, 0, "[4611686018427387904,0,1]"},  // SH-10
    {"LargestDim", {INT64_MAX, -1}, false, -1, "[9223372036854775807,?]"},
};

class PartialShapeAccepts : public ::testing::TestWithParam<AcceptCase> {};

TEST_P(PartialShapeAccepts, AndKeepsDims) {
  const AcceptCase& row = GetParam();
  ASSERT_OK_AND_ASSIGN(const Partial shape, Partial::Create(row.dims));
  EXPECT_TRUE(shape.has_rank());
  EXPECT_EQ(shape.rank(), static_cast<int>(row.dims.size()));
  EXPECT_THAT(shape.dims(), ElementsAreArray(row.dims));
  for (size_t axis = 0; axis < row.dims.size(); ++axis) EXPECT_EQ(shape.dim(static_cast<int>(axis)), row.dims[axis]);
  EXPECT_EQ(shape.IsFullyDefined(), row.fully_defined);
  EXPECT_EQ(shape.num_elements(), row.num_elements);
  EXPECT_EQ(shape.ToString(), row.text);
  std::ostringstream out;
  out << shape;
  EXPECT_EQ(out.str(), row.text);
}
INSTANTIATE_TEST_SUITE_P(All, PartialShapeAccepts, ::testing::ValuesIn(kAccepted),
                         [](const auto& info) { return std::string(info.param.name); });

struct RejectCase {
  const char* name;
  Dims dims;
  const char* says;
};

const RejectCase kRejected[] = {
    {"MinusTwo", {3, -2}, "dim 1 is -2 in shape [3,-2]"},
    {"MinDim", {INT64_MIN}, "dim 0 is -9223372036854775808"},
    {"MinDimBehindUnknown", {-1, INT64_MIN}, "dim 1 is -9223372036854775808"},
    {"ProductTooLarge", {k2To62, 2}, "dim 1 is 2 in shape [4611686018427387904,2]: the product of the nonzero dims"},
    {"TooLargeAroundUnknown", {k2To62, -1, 2}, "dim 2 is 2 in shape [4611686018427387904,?,2]: the product"},
    {"TooLargeAroundZero", {k2To62, 0, 8}, "dim 2 is 8"},  // SH-11: as TensorShape, in any order
    {"ZeroLast", {k2To62, 8, 0}, "dim 1 is 8"},
    {"Rank255", Dims(255, -1), "255 dims; at most 254"},
    {"Rank100000", Dims(100000, 1), "100000 dims; at most 254"},
};

class PartialShapeRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(PartialShapeRejects, WithCodeAndMessage) {
  EXPECT_THAT(Partial::Create(GetParam().dims), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(All, PartialShapeRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PartialShape, MessagesStayShort) {
  EXPECT_THAT(std::string(Partial::Create(Dims(254, INT64_MAX)).status().message()), SizeIs(Lt(600u)));
  ASSERT_OK_AND_ASSIGN(const Partial ones, Partial::Create(Dims(254, 1)));
  ASSERT_OK_AND_ASSIGN(const Partial zeros, Partial::Create(Dims(254, 0)));
  EXPECT_THAT(std::string(ones.MergeWith(zeros).status().message()), SizeIs(Lt(600u)));
  EXPECT_THAT(std::string(ones.ToString()), SizeIs(2 * 254 + 1)) << "ToString shows all of them";
}

TEST(PartialShape, DefaultHasUnknownRank) {
  const Partial unknown;
  EXPECT_FALSE(unknown.has_rank());
  EXPECT_EQ(unknown.rank(), Partial::kUnknownRank);
  EXPECT_EQ(unknown.num_elements(), -1);
  EXPECT_FALSE(unknown.IsFullyDefined());
  EXPECT_THAT(unknown.dims(), IsEmpty());
  EXPECT_EQ(unknown.ToString(), "<unknown>");
  EXPECT_NE(unknown, Partial({})) << "a scalar's rank is known";
}

TEST(PartialShapeDeathTest, LiteralsCheck) {
  EXPECT_DEATH(Partial({2, -2}), "dim 1 is -2");
  EXPECT_DEATH(static_cast<void>(Partial().dim(0)), "the rank is unknown");
  EXPECT_DEATH(static_cast<void>(Partial({-1, 3}).dim(2)), "axis 2 is outside shape \\[\\?,3\\] of rank 2");
  EXPECT_DEATH(static_cast<void>(Partial({-1, 3}).dim(-3)), "axis -3 is outside shape \\[\\?,3\\] of rank 2");
}

TEST(PartialShape, NegativeAxesCountFromTheBack) {
  EXPECT_EQ(Partial({-1, 3}).dim(-1), 3);
  EXPECT_EQ(Partial({-1, 3}).dim(-2), Partial::kUnknownDim);
}

TEST(PartialShape, FromAndToTensorShape) {
  const TensorShape full({2, 0, 3});
  const Partial partial = full;
  EXPECT_EQ(partial, Partial({2, 0, 3}));
  EXPECT_EQ(*partial.ToTensorShape(), full);
  EXPECT_EQ(*Partial({}).ToTensorShape(), TensorShape());
  EXPECT_EQ(*Partial(TensorShape()).ToTensorShape(), TensorShape());
  EXPECT_THAT(Partial({2, -1, -1}).ToTensorShape(),
              StatusIs(Code::kInvalidArgument, HasSubstr("dim 1 of shape [2,?,?] is unknown")));
  EXPECT_THAT(Partial().ToTensorShape(), StatusIs(Code::kInvalidArgument, HasSubstr("rank of shape <unknown>")));
}

// Each row both ways round: all four are symmetric.
struct PairCase {
  const char* name;
  Partial a;
  Partial b;
  bool compatible;
  bool identical;
  const char* merged;         // ToString; or a piece of the message where they are not compatible
  const char* most_specific;  // ToString
};

const PairCase kPairs[] = {
    {"UnknownRanks", Partial(), Partial(), true, true, "<unknown>", "<unknown>"},
    {"UnknownRankAndScalar", Partial(), Partial({}), true, false, "[]", "<unknown>"},
    {"UnknownRankAndFull", Partial(), Partial({2, 3}), true, false, "[2,3]", "<unknown>"},
    {"UnknownRankAndPartial", Partial(), Partial({-1, 3}), true, false, "[?,3]", "<unknown>"},
    {"Scalars", Partial({}), Partial({}), true, true, "[]", "[]"},
    {"SameFull", Partial({2, 3}), Partial({2, 3}), true, true, "[2,3]", "[2,3]"},
    {"SamePartial", Partial({-1, 3}), Partial({-1, 3}), true, true, "[?,3]", "[?,3]"},
    {"OneFillsTheOther", Partial({-1, 3}), Partial({2, 3}), true, false, "[2,3]", "[?,3]"},
    {"EachFillsTheOther", Partial({-1, 3, -1}), Partial({2, -1, -1}), true, false, "[2,3,?]", "[?,?,?]"},
    {"ZeroIsKnown", Partial({0, -1}), Partial({0, 4}), true, false, "[0,4]", "[0,?]"},
    {"ZeroConflicts", Partial({0}), Partial({4}), false, false, "dim 0 is ", "[?]"},
    {"DimConflict", Partial({-1, 2}), Partial({1, 3}), false, false, "dim 1 is ", "[?,?]"},
    {"OneIsNoWildcard", Partial({1}), Partial({2}), false, false, "dim 0 is ", "[?]"},
    {"RankConflict", Partial({-1}), Partial({-1, -1}), false, false, "differ", "<unknown>"},
    {"ScalarAndVector", Partial({}), Partial({-1}), false, false, "differ", "<unknown>"},
};

class PartialShapePairs : public ::testing::TestWithParam<PairCase> {};

void ExpectPair(const PairCase& row, const Partial& a, const Partial& b) {
  EXPECT_EQ(a.IsCompatibleWith(b), row.compatible);
  EXPECT_EQ(a.IsIdenticalTo(b), row.identical);
  EXPECT_EQ(a == b, row.identical);
  EXPECT_EQ(a != b, !row.identical);
  EXPECT_EQ(a.MostSpecificCompatible(b).ToString(), row.most_specific);
  EXPECT_TRUE(a.MostSpecificCompatible(b).IsCompatibleWith(a));
  if (row.compatible) {
    ASSERT_OK_AND_ASSIGN(const Partial merged, a.MergeWith(b));
    EXPECT_EQ(merged.ToString(), row.merged);
  } else {
    EXPECT_THAT(a.MergeWith(b), StatusIs(Code::kInvalidArgument, HasSubstr(row.merged)));
  }
}

TEST_P(PartialShapePairs, BothWaysRound) {
  ExpectPair(GetParam(), GetParam().a, GetParam().b);
  ExpectPair(GetParam(), GetParam().b, GetParam().a);
}
INSTANTIATE_TEST_SUITE_P(All, PartialShapePairs, ::testing::ValuesIn(kPairs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PartialShape, MergeErrorsNameBothShapes) {
  EXPECT_THAT(Partial({-1, 2}).MergeWith(Partial({1, 3})),
              StatusIs(Code::kInvalidArgument, "merging shape [?,2] with [1,3]: dim 1 is 2 in one and 3 in the other"));
  EXPECT_THAT(Partial({-1, 2}).MergeWith(Partial({2})),
              StatusIs(Code::kInvalidArgument, "merging shape [?,2] with [2]: ranks 2 and 1 differ"));
}

TEST(PartialShape, MergeAndConcatenateCheckTheProduct) {
  const Partial left({k2To62, -1});
  const Partial right({-1, 2});
  EXPECT_TRUE(left.IsCompatibleWith(right));
  EXPECT_THAT(left.MergeWith(right), StatusIs(Code::kInvalidArgument, HasSubstr("dim 1 is 2 in shape")));
  EXPECT_THAT(left.Concatenate(right), StatusIs(Code::kInvalidArgument, HasSubstr("dim 3 is 2 in shape")));
  EXPECT_THAT(left.Concatenate(2), StatusIs(Code::kInvalidArgument, HasSubstr("dim 2 is 2 in shape")));
}

TEST(PartialShape, MergesWithItself) {
  Partial shape({-1, 3});
  ASSERT_OK_AND_ASSIGN(shape, shape.MergeWith(shape));
  EXPECT_EQ(shape, Partial({-1, 3}));
}

TEST(PartialShape, Concatenate) {
  EXPECT_EQ(*Partial({-1, 3}).Concatenate(Partial({4, -1})), Partial({-1, 3, 4, -1}));
  EXPECT_EQ(*Partial({}).Concatenate(Partial({4})), Partial({4}));
  EXPECT_EQ(*Partial({2}).Concatenate(TensorShape({3})), Partial({2, 3}));
  EXPECT_EQ(*Partial({2}).Concatenate(7), Partial({2, 7}));
  EXPECT_EQ(*Partial({2}).Concatenate(-1), Partial({2, -1}));
  EXPECT_EQ(*Partial().Concatenate(Partial({4})), Partial());
  EXPECT_EQ(*Partial({4}).Concatenate(Partial()), Partial());
  EXPECT_EQ(*Partial().Concatenate(7), Partial()) << "TensorFlow: adding a dim to an unknown rank does nothing";
  EXPECT_THAT(Partial({2}).Concatenate(-2), StatusIs(Code::kInvalidArgument, HasSubstr("dim 0 is -2")));
  ASSERT_OK_AND_ASSIGN(const Partial longest, Partial::Create(Dims(254, -1)));
  EXPECT_THAT(longest.Concatenate(-1), StatusIs(Code::kInvalidArgument, HasSubstr("255 dims; at most 254")));
  EXPECT_THAT(longest.Concatenate(longest), StatusIs(Code::kInvalidArgument, HasSubstr("508 dims")));
  EXPECT_EQ(*longest.Concatenate(Partial({})), longest);
}

TEST(PartialShape, IsCompatibleWithTensorShapes) {
  EXPECT_TRUE(Partial({-1, 3}).IsCompatibleWith(TensorShape({8, 3})));
  EXPECT_TRUE(Partial().IsCompatibleWith(TensorShape({8, 3})));
  EXPECT_FALSE(Partial({-1, 3}).IsCompatibleWith(TensorShape({8, 4})));
  EXPECT_FALSE(Partial({-1, 3}).IsCompatibleWith(TensorShape({3})));
}

// Whatever both are compatible with: a full shape fits the merge of two exactly when it fits each of them.
TEST(PartialShape, MergeIsWhatBothAllow) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int64_t low) {
      if (low < 0 && random() % 8 == 0) return Partial();
      Dims dims(1 + random() % 2);
      for (int64_t& dim : dims) dim = low + static_cast<int64_t>(random() % static_cast<uint32_t>(3 - low));
      return *Partial::Create(dims);
    };
    const Partial a = draw(-1);
    const Partial b = draw(-1);
    const Partial full = draw(0);
    const auto merged = a.MergeWith(b);
    EXPECT_EQ(merged.ok(), a.IsCompatibleWith(b));
    const bool fits_both = a.IsCompatibleWith(full) && b.IsCompatibleWith(full);
    EXPECT_EQ(merged.ok() && merged->IsCompatibleWith(full), fits_both);
    if (a.IsCompatibleWith(full) || b.IsCompatibleWith(full)) {
      EXPECT_TRUE(a.MostSpecificCompatible(b).IsCompatibleWith(full));
    }
  }
}

TEST(PartialShape, Changes) {
  Partial shape({2, -1});
  ASSERT_OK(shape.AddDim(3));
  ASSERT_OK(shape.InsertDim(0, -1));
  EXPECT_EQ(shape.ToString(), "[?,2,?,3]");
  ASSERT_OK(shape.SetDim(2, 5));
  ASSERT_OK(shape.RemoveDim(0));
  EXPECT_EQ(shape.ToString(), "[2,5,3]");
  ASSERT_OK(shape.AppendShape(Partial({-1, 7})));
  EXPECT_EQ(shape.ToString(), "[2,5,3,?,7]");
  Partial anything;
  ASSERT_OK(anything.AddDim(3));
  ASSERT_OK(anything.AppendShape(shape));
  EXPECT_EQ(anything.ToString(), "<unknown>");
  ASSERT_OK(shape.AppendShape(anything));
  EXPECT_EQ(shape.ToString(), "<unknown>");
}

TEST(PartialShape, ThatCannotChangeStays) {
  Partial shape({2, -1});
  const auto refused = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(shape.AddDim(-2), refused("dim 0 is -2"));
  EXPECT_THAT(shape.AddDim(INT64_MAX), refused("exceeds 2^63-1"));
  EXPECT_THAT(shape.InsertDim(3, 1), refused("InsertDim: axis 3 is outside shape [2,?]"));
  EXPECT_THAT(shape.SetDim(-1, 1), refused("SetDim: axis -1"));
  EXPECT_THAT(shape.SetDim(INT_MAX, 1), refused("SetDim: axis"));
  EXPECT_THAT(shape.SetDim(1, -2), refused("dim 1 is -2"));
  EXPECT_THAT(shape.RemoveDim(2), refused("RemoveDim: axis 2"));
  EXPECT_THAT(shape.AppendShape(Partial({INT64_MAX})), refused("exceeds 2^63-1"));
  EXPECT_EQ(shape.ToString(), "[2,?]");
  EXPECT_THAT(Partial().InsertDim(0, 1), refused("outside shape <unknown>"));
  EXPECT_THAT(Partial().SetDim(0, 1), refused("outside shape <unknown>"));
  EXPECT_THAT(Partial().RemoveDim(0), refused("outside shape <unknown>"));
}

}  // namespace
}  // namespace tensorcask
