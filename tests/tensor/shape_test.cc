#include "tensorcask/tensor/shape.h"

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;
using Dims = std::vector<int64_t>;

constexpr int64_t k2To32 = int64_t{1} << 32;
constexpr int64_t k2To62 = int64_t{1} << 62;

Dims DimsOf(const TensorShape& shape) {
  const DimVector dims = shape.dims();
  return Dims(dims.begin(), dims.end());
}

static_assert(sizeof(TensorShape) == 24, "the header promises 24 bytes");

// In each of the three forms in which dims are stored.
TEST(TensorShape, NegativeAxesCountFromTheBack) {
  for (const TensorShape& shape : {TensorShape({2, 3}), TensorShape({k2To32, 3}), TensorShape({2, 70000})}) {
    EXPECT_EQ(shape.dim(-1), shape.dim(1));
    EXPECT_EQ(shape.dim(-2), shape.dim(0));
    EXPECT_EQ(shape[0], shape.dim(0));
    EXPECT_EQ(shape[-1], shape.dim(1));
  }
}

TEST(TensorShape, IteratesOverDims) {
  for (const Dims& dims : {Dims(), Dims({7}), Dims({2, 0, 3}), Dims({70000, 3}), Dims({k2To32, 1, 1, 1})}) {
    const TensorShape shape = *TensorShape::Create(dims);
    EXPECT_EQ(Dims(shape.begin(), shape.end()), dims);
    Dims visited;
    for (const int64_t dim : shape) visited.push_back(dim);
    EXPECT_EQ(visited, dims);
  }
  EXPECT_THAT(TensorShape({2, 3}), ElementsAre(2, 3));
  TensorShape::const_iterator at = TensorShape({5, 6}).begin();
  static_assert(std::is_same_v<decltype(*at++), int64_t>);
}

struct AcceptCase {
  const char* name;
  Dims dims;
  int64_t num_elements;
  const char* text;
};

const AcceptCase kAccepted[] = {
    {"Scalar", {}, 1, "[]"},
    {"Vector", {7}, 7, "[7]"},
    {"Image", {224, 224, 3}, 150528, "[224,224,3]"},
    {"Empty", {0, 5}, 0, "[0,5]"},
    {"Forms16And32", {65536, 2, 3}, 393216, "[65536,2,3]"},
    {"Rank7", {1, 2, 1, 2, 1, 2, 1}, 8, "[1,2,1,2,1,2,1]"},
    {"LargestDim", {INT64_MAX}, INT64_MAX, "[9223372036854775807]"},
    {"LargestProduct", {k2To32 - 1, k2To32 / 2}, (k2To32 - 1) * (k2To32 / 2), "[4294967295,2147483648]"},
    {"HugeButEmpty", {0, k2To62}, 0, "[0,4611686018427387904]"},  // SH-10
    {"HugeThenEmpty", {k2To62, 0}, 0, "[4611686018427387904,0]"},
    {"ManyZeros", {0, 0, 0}, 0, "[0,0,0]"},
};

class ShapeAccepts : public ::testing::TestWithParam<AcceptCase> {};

TEST_P(ShapeAccepts, AndKeepsDims) {
  ASSERT_OK_AND_ASSIGN(const TensorShape shape, TensorShape::Create(GetParam().dims));
  EXPECT_EQ(shape.rank(), static_cast<int>(GetParam().dims.size()));
  EXPECT_EQ(DimsOf(shape), GetParam().dims);
  EXPECT_EQ(shape.num_elements(), GetParam().num_elements);
  EXPECT_EQ(shape.ToString(), GetParam().text);
  std::ostringstream out;
  out << shape;
  EXPECT_EQ(out.str(), GetParam().text);
}
INSTANTIATE_TEST_SUITE_P(All, ShapeAccepts, ::testing::ValuesIn(kAccepted),
                         [](const auto& info) { return std::string(info.param.name); });

struct RejectCase {
  const char* name;
  Dims dims;
  const char* says;
};

const RejectCase kRejected[] = {
    {"NegativeDim", {2, -1}, "dim 1 is -1 in shape [2,-1]"},                         // SH-01
    {"TwoNegativeDims", {-2, -3}, "dim 0 is -2"},                                    // SH-02
    {"MinDim", {INT64_MIN}, "dim 0 is -9223372036854775808"},                        // SH-03
    {"ProductWrapsToZero", {k2To32, k2To32}, "dim 1 is 4294967296"},                 // SH-04
    {"ProductOneTooLarge", {k2To62, 2}, "exceeds 2^63-1"},                           //
    {"NegativeBehindZero", {0, -1}, "dim 1 is -1"},                                  //
    {"Rank255", Dims(255, 1), "255 dims; at most 254"},                              // SH-08
    {"Rank10000", Dims(10000, 1), "10000 dims; at most 254"},                        // SH-08
    {"ZeroLast", {k2To62, 8, 0}, "the product of the nonzero dims exceeds 2^63-1"},  // SH-11, one verdict in any order
    {"ZeroMiddle", {k2To62, 0, 8}, "the product of the nonzero dims exceeds 2^63-1"},
    {"ZeroFirst", {0, k2To62, 8}, "the product of the nonzero dims exceeds 2^63-1"},
    {"ZeroFirstTurned", {0, 8, k2To62}, "the product of the nonzero dims exceeds 2^63-1"},
};

class ShapeRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ShapeRejects, WithCodeAndMessage) {
  EXPECT_THAT(TensorShape::Create(GetParam().dims), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
// The same when the dims come one by one, and nothing changes when one is refused.
TEST_P(ShapeRejects, InAddDimToo) {
  TensorShape shape;
  absl::Status status;
  Dims taken;
  for (const int64_t dim : GetParam().dims) {
    status = shape.AddDim(dim);
    if (!status.ok()) break;
    taken.push_back(dim);
  }
  EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, HasSubstr("dim")));
  EXPECT_EQ(DimsOf(shape), taken);
}
INSTANTIATE_TEST_SUITE_P(All, ShapeRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Shape, MessagesStayShort) {
  Dims dims(254, INT64_MAX);
  EXPECT_THAT(std::string(TensorShape::Create(dims).status().message()), SizeIs(::testing::Lt(600u)));
}

TEST(Shape, Rank254) {  // SH-07
  TensorShape shape;
  for (int i = 0; i < TensorShape::kMaxRank; ++i) ASSERT_OK(shape.AddDim(1));
  EXPECT_EQ(shape.rank(), 254);
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_EQ(shape, *TensorShape::Create(Dims(254, 1)));
  EXPECT_EQ(shape.ToString(), "[" + absl::StrJoin(Dims(254, 1), ",") + "]");
  const std::string says = "255 dims; at most 254";
  EXPECT_THAT(shape.AddDim(1), StatusIs(Code::kInvalidArgument, HasSubstr(says)));
  EXPECT_THAT(shape.InsertDim(7, 0), StatusIs(Code::kInvalidArgument, HasSubstr(says)));
  EXPECT_THAT(shape.AppendShape(TensorShape({1})), StatusIs(Code::kInvalidArgument, HasSubstr(says)));
  EXPECT_EQ(shape.rank(), 254);
  EXPECT_THAT(shape.AppendShape(shape), StatusIs(Code::kInvalidArgument, HasSubstr("508 dims")));
}

TEST(Shape, Queries) {
  const TensorShape shape({2, 3, 4});
  EXPECT_FALSE(shape.IsScalar() || shape.IsVector() || shape.IsMatrix());
  EXPECT_TRUE(TensorShape().IsScalar());
  EXPECT_TRUE(TensorShape({}).IsScalar());
  EXPECT_TRUE(TensorShape({3}).IsVector());
  EXPECT_TRUE(TensorShape({3, 0}).IsMatrix());
  EXPECT_EQ(shape.dim(2), 4);
  for (const TensorShape& prefix : {TensorShape(), TensorShape({2}), TensorShape({2, 3}), shape}) {
    EXPECT_TRUE(shape.StartsWith(prefix)) << prefix;
  }
  for (const TensorShape& other : {TensorShape({3}), TensorShape({2, 4}), TensorShape({2, 3, 4, 1})}) {
    EXPECT_FALSE(shape.StartsWith(other)) << other;
  }
  for (const TensorShape& suffix : {TensorShape(), TensorShape({4}), TensorShape({3, 4}), shape}) {
    EXPECT_TRUE(shape.EndsWith(suffix)) << suffix;
  }
  for (const TensorShape& other : {TensorShape({3}), TensorShape({2, 4}), TensorShape({1, 2, 3, 4})}) {
    EXPECT_FALSE(shape.EndsWith(other)) << other;
  }
  EXPECT_TRUE(shape.IsSameSize(TensorShape({2, 3, 4})));
  EXPECT_NE(shape, TensorShape({2, 3}));
  EXPECT_NE(shape, TensorShape({2, 3, 5}));
  EXPECT_NE(TensorShape({0, 2}), TensorShape({0, 3})) << "as many elements are not the same dims";
}

// Equal dims are equal whatever form holds them.
TEST(Shape, ComparesDimsNotForms) {
  TensorShape shape({70000, 1, 1});
  ASSERT_OK(shape.AddDim(5));  // heap
  ASSERT_OK(shape.SetDim(0, 7));
  EXPECT_EQ(shape, TensorShape({7, 1, 1, 5}));
}

TEST(Shape, Changes) {
  TensorShape shape({2, 3});
  ASSERT_OK(shape.InsertDim(0, 7));
  ASSERT_OK(shape.InsertDim(3, 9));
  EXPECT_EQ(shape, TensorShape({7, 2, 3, 9}));
  ASSERT_OK(shape.SetDim(1, 0));
  EXPECT_EQ(shape.num_elements(), 0);
  ASSERT_OK(shape.RemoveDim(1));
  EXPECT_EQ(shape, TensorShape({7, 3, 9}));
  EXPECT_EQ(shape.num_elements(), 189);
  ASSERT_OK(shape.AppendShape(shape));
  EXPECT_EQ(shape, TensorShape({7, 3, 9, 7, 3, 9}));
  ASSERT_OK(shape.RemoveDimRange(1, 5));
  EXPECT_EQ(shape, TensorShape({7, 9}));
  ASSERT_OK(shape.RemoveDimRange(2, 2));
  ASSERT_OK(shape.RemoveDimRange(0, 2));
  EXPECT_EQ(shape, TensorShape());
}

TEST(Shape, RefusesAxesOutside) {
  TensorShape shape({2, 3});
  const auto outside = [](const char* says) { return StatusIs(Code::kInvalidArgument, HasSubstr(says)); };
  EXPECT_THAT(shape.InsertDim(-1, 1), outside("InsertDim: axis -1 is outside shape [2,3]"));
  EXPECT_THAT(shape.InsertDim(3, 1), outside("InsertDim: axis 3"));
  EXPECT_THAT(shape.SetDim(-1, 1), outside("SetDim: axis -1"));
  EXPECT_THAT(shape.SetDim(2, 1), outside("SetDim: axis 2"));
  EXPECT_THAT(shape.SetDim(1, -1), outside("dim 1 is -1"));
  EXPECT_THAT(shape.RemoveDim(-1), outside("RemoveDim: axis -1"));
  EXPECT_THAT(shape.RemoveDim(2), outside("RemoveDim: axis 2"));
  EXPECT_THAT(shape.RemoveDim(INT32_MAX), outside("RemoveDim: axis 2147483647"));
  EXPECT_THAT(shape.RemoveDimRange(-1, 1), outside("[-1, 1)"));
  EXPECT_THAT(shape.RemoveDimRange(2, 1), outside("[2, 1)"));
  EXPECT_THAT(shape.RemoveDimRange(0, 3), outside("[0, 3)"));
  EXPECT_EQ(shape, TensorShape({2, 3}));
}

TEST(Shape, AppendingTwoLegalShapesMayOverflow) {  // SH-13
  TensorShape shape({k2To32});
  EXPECT_THAT(shape.AppendShape(TensorShape({k2To32})), StatusIs(Code::kInvalidArgument, HasSubstr("2^63-1")));
  EXPECT_EQ(shape, TensorShape({k2To32}));
  ASSERT_OK(shape.AppendShape(TensorShape({0})));
  EXPECT_THAT(shape.AppendShape(TensorShape({k2To32})), StatusIs(Code::kInvalidArgument, HasSubstr("2^63-1")));
}

TEST(Shape, MovedFromIsTheScalar) {
  TensorShape shape({1, 2, 3, 4, 5, 6, 7, 8});
  const TensorShape taken = std::move(shape);
  EXPECT_EQ(shape, TensorShape());  // NOLINT(bugprone-use-after-move): promised
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_EQ(taken.num_elements(), 40320);
}

// ---- Random changes against exact arithmetic ------------------------------------------------------------------------

// True if the promises of shape.h hold.
bool ModelAllows(const Dims& dims) {
  if (dims.size() > 254) return false;
  unsigned __int128 product = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return false;
    if (dim > 0 && product <= INT64_MAX) product *= static_cast<uint64_t>(dim);
  }
  return product <= INT64_MAX;
}

int64_t ModelNumElements(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (dim == 0) return 0;
    product *= dim;
  }
  return product;
}

TEST(Shape, AgreesWithExactArithmetic) {
  const int64_t kSizes[] = {0,      1,          1,          1,          2,      2,
                            3,      7,          255,        65533,      65534,  65535,
                            65536,  4294967293, 4294967294, 4294967295, k2To32, int64_t{1} << 31,
                            k2To62, INT64_MAX,  -1,         INT64_MIN};
  int accepted = 0;
  int refused = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int end) { return static_cast<int>(random() % static_cast<uint32_t>(end)); };
    const auto draw_size = [&] { return kSizes[draw(static_cast<int>(std::size(kSizes)))]; };
    TensorShape shape;
    Dims model;
    std::string history;
    for (int step = 0; step < 30; ++step) {
      Dims wanted = model;
      absl::Status status;
      const int rank = static_cast<int>(model.size());
      switch (draw(7)) {
        case 0:
        case 1: {
          const int64_t size = draw_size();
          wanted.push_back(size);
          status = shape.AddDim(size);
          history += "AddDim ";
          break;
        }
        case 2: {
          const int axis = draw(rank + 1);
          const int64_t size = draw_size();
          wanted.insert(wanted.begin() + axis, size);
          status = shape.InsertDim(axis, size);
          history += "InsertDim ";
          break;
        }
        case 3: {
          if (rank == 0) continue;
          const int axis = draw(rank);
          wanted[static_cast<size_t>(axis)] = draw_size();
          status = shape.SetDim(axis, wanted[static_cast<size_t>(axis)]);
          history += "SetDim ";
          break;
        }
        case 4: {
          if (rank == 0) continue;
          const int axis = draw(rank);
          wanted.erase(wanted.begin() + axis);
          status = shape.RemoveDim(axis);
          history += "RemoveDim ";
          break;
        }
        case 5: {
          const int begin = draw(rank + 1);
          const int end = begin + draw(rank - begin + 1);
          wanted.erase(wanted.begin() + begin, wanted.begin() + end);
          status = shape.RemoveDimRange(begin, end);
          history += "RemoveDimRange ";
          break;
        }
        default: {
          Dims suffix;
          for (int i = draw(draw(20) == 0 ? 250 : 3); i > 0; --i) suffix.push_back(draw(4) == 0 ? draw_size() : 1);
          const absl::StatusOr<TensorShape> other = TensorShape::Create(suffix);
          ASSERT_EQ(other.ok(), ModelAllows(suffix)) << absl::StrJoin(suffix, ",");
          if (!other.ok()) continue;
          wanted.insert(wanted.end(), suffix.begin(), suffix.end());
          status = shape.AppendShape(*other);
          history += "AppendShape ";
          break;
        }
      }
      ASSERT_EQ(status.ok(), ModelAllows(wanted))
          << "seed " << seed << ": " << history << "to [" << absl::StrJoin(wanted, ",") << "]: " << status;
      ++(status.ok() ? accepted : refused);
      if (status.ok()) model = wanted;
      ASSERT_EQ(DimsOf(shape), model) << "seed " << seed << ": " << history;
      ASSERT_EQ(shape.num_elements(), ModelNumElements(model)) << "seed " << seed << ": " << history;
      ASSERT_EQ(shape, *TensorShape::Create(model));
    }
  }
  EXPECT_GT(accepted, 10000);
  EXPECT_GT(refused, 10000);
}

TEST(ShapeDeathTest, ChecksWhatOnlyABugCanDo) {
  EXPECT_DEATH(TensorShape({2, -3}), "dim 1 is -3");
  const TensorShape shape({2, 3});
  EXPECT_DEATH(shape.dim(2), "dim: axis 2 is outside shape \\[2,3\\] of rank 2");
  EXPECT_DEATH(shape.dim(-3), "dim: axis -3 is outside shape \\[2,3\\] of rank 2");
  EXPECT_DEATH(shape[2], "dim: axis 2 is outside shape \\[2,3\\] of rank 2");
  EXPECT_DEATH(TensorShape().dim(-1), "dim: axis -1 is outside shape \\[\\] of rank 0");
}

}  // namespace
}  // namespace tensorcask
