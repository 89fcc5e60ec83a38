#include "tensorcask/tensor/slice_set.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Extent = TensorSlice::Extent;

TensorSlice Slice(absl::string_view text) {
  absl::StatusOr<TensorSlice> slice = TensorSlice::Parse(text);
  EXPECT_OK(slice) << text;
  return slice.ok() ? *slice : TensorSlice();
}

// The tags of what a query finds.
absl::StatusOr<std::vector<std::string>> TagsOf(const TensorSliceSet& set, const TensorSlice& slice) {
  absl::StatusOr<std::vector<TensorSliceSet::Part>> parts = set.Query(slice);
  if (!parts.ok()) return parts.status();
  std::vector<std::string> tags;
  for (const TensorSliceSet::Part& part : *parts) tags.push_back(part.tag);
  return tags;
}

TEST(TensorSliceSet, FindsWhatCoversAQuery) {
  TensorSliceSet set(DType::kFloat32, TensorShape({4, 10}));
  EXPECT_FALSE(set.IsComplete());
  EXPECT_OK(set.Register(Slice("2,2:-"), "b"));
  EXPECT_OK(set.Register(Slice("0,2:0,5"), "a1"));
  EXPECT_THAT(TagsOf(set, Slice("-:-")),
              StatusIs(Code::kNotFound, HasSubstr("slice \"-:-\" of a tensor [4,10]: 30 of its 40 elements are in")));
  EXPECT_FALSE(set.IsComplete());
  EXPECT_OK(set.Register(Slice("0,2:5,5"), "a2"));
  EXPECT_TRUE(set.IsComplete());
  const struct {
    const char* query;
    std::vector<std::string> tags;
  } cases[] = {
      {"-:-", {"b", "a1", "a2"}}, {"0,4:0,10", {"b", "a1", "a2"}}, {"2,2:-", {"b"}},   {"2,2:0,10", {"b"}},
      {"1,2:4,1", {"b", "a1"}},   {"0,1:4,2", {"a1", "a2"}},       {"3,1:9,1", {"b"}}, {"1,1:5,5", {"a2"}},
  };
  for (const auto& row : cases) {
    SCOPED_TRACE(row.query);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> tags, TagsOf(set, Slice(row.query)));
    EXPECT_EQ(tags, row.tags);
  }
  ASSERT_OK_AND_ASSIGN(const auto parts, set.Query(Slice("3,1:-")));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].slice, Slice("2,2:-"));
}

TEST(TensorSliceSet, ScalarsAndEmptyTensors) {
  TensorSliceSet scalar(DType::kInt8, TensorShape());
  EXPECT_THAT(TagsOf(scalar, TensorSlice()), StatusIs(Code::kNotFound, HasSubstr("0 of its 1 elements")));
  EXPECT_OK(scalar.Register(TensorSlice(), "all"));
  EXPECT_THAT(scalar.Register(TensorSlice(), "again"), StatusIs(Code::kInvalidArgument, HasSubstr("overlaps")));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> tags, TagsOf(scalar, TensorSlice()));
  EXPECT_THAT(tags, ElementsAre("all"));

  TensorSliceSet empty(DType::kInt8, TensorShape({0, 4}));
  EXPECT_TRUE(empty.IsComplete());
  ASSERT_OK_AND_ASSIGN(const auto none, empty.Query(Slice("-:-")));
  EXPECT_TRUE(none.empty());
  EXPECT_OK(empty.Register(Slice("-:0,2"), "left"));
  EXPECT_OK(empty.Register(Slice("-:2,2"), "right"));
  EXPECT_THAT(empty.Register(Slice("-:1,2"), "middle"), StatusIs(Code::kInvalidArgument, HasSubstr("overlaps")));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> right, TagsOf(empty, Slice("-:3,1")));
  EXPECT_THAT(right, ElementsAre("right"));
  EXPECT_THAT(empty.Register(Slice("0,1:0,1"), "outside"), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
}

TEST(TensorSliceSet, Refuses) {
  TensorSliceSet set(DType::kFloat32, TensorShape({10}), /*max_parts=*/3);
  EXPECT_OK(set.Register(Slice("2,3"), "x"));
  EXPECT_THAT(set.Register(Slice("4,1"), "y"),
              StatusIs(Code::kInvalidArgument,
                       HasSubstr("slice \"4,1\" (\"y\") overlaps \"2,3\" (\"x\") of the same tensor [10]")));
  EXPECT_THAT(set.Register(Slice("-"), "y"), StatusIs(Code::kInvalidArgument, HasSubstr("overlaps")));
  EXPECT_THAT(set.Register(Slice("2,3"), "x"), StatusIs(Code::kInvalidArgument, HasSubstr("overlaps")));
  EXPECT_THAT(set.Register(Slice("0,1:0,1"), "y"), StatusIs(Code::kInvalidArgument, HasSubstr("rank 2")));
  EXPECT_THAT(set.Register(Slice("8,3"), "y"), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(set.Register(Slice("9223372036854775806,1"), "y"), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(set.Query(Slice("0,11")), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(set.Query(Slice("-:-")), StatusIs(Code::kInvalidArgument, HasSubstr("rank 2")));
  EXPECT_EQ(set.parts().size(), 1u);  // nothing has changed
  EXPECT_OK(set.Register(Slice("0,2"), "w"));
  EXPECT_OK(set.Register(Slice("5,1"), "y"));
  EXPECT_THAT(set.Register(Slice("6,1"), "z"),
              StatusIs(Code::kResourceExhausted, HasSubstr("a tensor [10] in more than 3 slices")));
}

TEST(TensorSliceSet, ComparesWhatOthersSay) {
  const TensorSliceSet set(DType::kFloat32, TensorShape({4, 10}));
  EXPECT_OK(set.CheckTensor(DType::kFloat32, TensorShape({4, 10})));
  EXPECT_THAT(set.CheckTensor(DType::kFloat64, TensorShape({4, 10})),
              StatusIs(Code::kInvalidArgument, HasSubstr("float32 [4,10] and float64 [4,10]")));
  EXPECT_THAT(set.CheckTensor(DType::kFloat32, TensorShape({4, 11})),
              StatusIs(Code::kInvalidArgument, HasSubstr("float32 [4,10] and float32 [4,11]")));
  EXPECT_OK(set.CheckPart(Slice("0,2:-"), DType::kFloat32, TensorShape({2, 10})));
  EXPECT_THAT(set.CheckPart(Slice("0,2:-"), DType::kInt32, TensorShape({2, 10})),
              StatusIs(Code::kInvalidArgument, HasSubstr("is int32 [2,10]; wanted is [2,10]")));
  EXPECT_THAT(set.CheckPart(Slice("0,2:-"), DType::kFloat32, TensorShape({4, 10})),
              StatusIs(Code::kInvalidArgument, HasSubstr("is float32 [4,10]; wanted is [2,10]")));
  EXPECT_THAT(set.CheckPart(Slice("0,5:-"), DType::kFloat32, TensorShape({5, 10})),
              StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
}

// ---- Against a model: who has each element --------------------------------------------------------------------------

class Model {
 public:
  explicit Model(const TensorShape& shape) : shape_(shape), owners_(static_cast<size_t>(shape.num_elements()), -1) {}

  // The numbers of the elements of `slice`, which fits.
  std::vector<size_t> Elements(const TensorSlice& slice) const {
    std::vector<size_t> elements = {0};
    for (int axis = 0; axis < shape_.rank(); ++axis) {
      const Extent& extent = slice.extent(axis);
      const int64_t begin = extent.full() ? 0 : extent.start;
      const int64_t end = extent.full() ? shape_.dim(axis) : extent.start + extent.length;
      std::vector<size_t> next;
      for (const size_t element : elements) {
        for (int64_t i = begin; i < end; ++i) next.push_back(element * shape_.dim(axis) + static_cast<size_t>(i));
      }
      elements = std::move(next);
    }
    return elements;
  }
  bool IsFree(const TensorSlice& slice) const {
    for (const size_t element : Elements(slice)) {
      if (owners_[element] >= 0) return false;
    }
    return true;
  }
  void Take(const TensorSlice& slice, int owner) {
    for (const size_t element : Elements(slice)) owners_[element] = owner;
  }
  // Who owns a part of `slice`, ascending; with -1 first if some have no owner.
  std::vector<int> Owners(const TensorSlice& slice) const {
    std::vector<int> owners;
    for (const size_t element : Elements(slice)) owners.push_back(owners_[element]);
    std::sort(owners.begin(), owners.end());
    owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
    return owners;
  }

 private:
  TensorShape shape_;
  std::vector<int> owners_;
};

TensorSlice RandomSlice(const TensorShape& shape, int64_t max_length, std::mt19937_64* random) {
  std::vector<Extent> extents(static_cast<size_t>(shape.rank()));
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const int64_t dim = shape.dim(static_cast<int>(axis));
    if ((*random)() % 6 == 0) continue;
    const int64_t length = 1 + static_cast<int64_t>((*random)() % static_cast<uint64_t>(std::min(dim, max_length)));
    extents[axis] = {static_cast<int64_t>((*random)() % static_cast<uint64_t>(dim - length + 1)), length};
  }
  return *TensorSlice::Create(extents);
}

TEST(TensorSliceSet, AgreesWithTheModel) {
  const TensorShape shapes[] = {TensorShape({300}), TensorShape({20, 30}), TensorShape({8, 9, 10}),
                                TensorShape({2, 3, 4, 5, 3}), TensorShape({1, 40, 1})};
  int refused = 0, covered = 0, gaps = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const TensorShape& shape = shapes[seed % 5];
    TensorSliceSet set(DType::kFloat32, shape);
    Model model(shape);
    int64_t elements = 0;
    for (int step = 0; step < 400; ++step) {
      const TensorSlice slice = RandomSlice(shape, seed % 2 == 0 ? 2 : 4, &random);
      const bool is_free = model.IsFree(slice);
      const absl::Status status = set.Register(slice, absl::StrCat(set.parts().size()));
      ASSERT_EQ(status.ok(), is_free) << slice.ToString() << ": " << status;
      refused += is_free ? 0 : 1;
      if (is_free) {
        model.Take(slice, static_cast<int>(set.parts().size()) - 1);
        elements += static_cast<int64_t>(model.Elements(slice).size());
      }
      const TensorSlice query = RandomSlice(shape, 6, &random);
      const std::vector<int> owners = model.Owners(query);
      const auto tags = TagsOf(set, query);
      if (owners.front() < 0) {
        ++gaps;
        ASSERT_THAT(tags, StatusIs(Code::kNotFound, HasSubstr("elements are in"))) << query.ToString();
      } else {
        ++covered;
        std::vector<std::string> wanted;
        for (const int owner : owners) wanted.push_back(absl::StrCat(owner));
        ASSERT_OK(tags) << query.ToString();
        ASSERT_EQ(*tags, wanted) << query.ToString();
      }
    }
    EXPECT_EQ(set.IsComplete(), elements == shape.num_elements());
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(covered, 1000);
  EXPECT_GT(gaps, 1000);
}

// ---- Many parts -----------------------------------------------------------------------------------------------------

// Registers all of `slices`, in a random order or as they are; then finds each and the whole. That nothing is compared
// with all the others shows without a clock: kMaxSteps is a few thousandths of all pairs of 100,000.
void RegisterAndFind(const TensorShape& shape, std::vector<TensorSlice> slices, bool shuffled) {
  if (shuffled) {
    std::mt19937_64 random(1);
    std::shuffle(slices.begin(), slices.end(), random);
  }
  TensorSliceSet set(DType::kFloat32, shape);
  for (const TensorSlice& slice : slices) ASSERT_OK(set.Register(slice, ""));
  EXPECT_TRUE(set.IsComplete());
  for (size_t i = 0; i < slices.size(); i += 7) {
    ASSERT_OK_AND_ASSIGN(const auto found, set.Query(slices[i]));
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0].slice, slices[i]);
    ASSERT_FALSE(set.Register(slices[i], "").ok());
  }
  ASSERT_OK_AND_ASSIGN(const auto all, set.Query(TensorSlice::Full(shape.rank())));
  EXPECT_EQ(all.size(), slices.size());
}

class ManyParts : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Order, ManyParts, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Shuffled" : "InOrder"); });

TEST_P(ManyParts, AsAPile) {
  std::vector<TensorSlice> slices;
  for (int64_t i = 0; i < 100'000; ++i) slices.push_back(*TensorSlice::Create({{3 * i, 3}, {}}));
  RegisterAndFind(TensorShape({300'000, 64}), slices, GetParam());
}

TEST_P(ManyParts, AsAGrid) {
  std::vector<TensorSlice> slices;
  for (int64_t i = 0; i < 200; ++i) {
    for (int64_t j = 0; j < 250; ++j) slices.push_back(*TensorSlice::Create({{2 * i, 2}, {5 * j, 5}}));
  }
  RegisterAndFind(TensorShape({400, 1250}), slices, GetParam());
}

// A row, the rest of the first column, the rest of the second row, ...: the box around any few of them holds the rest.
std::vector<TensorSlice> CornersInsideCorners(int64_t n) {
  std::vector<TensorSlice> slices;
  for (int64_t i = 0; i < n; ++i) {
    slices.push_back(*TensorSlice::Create({{i, 1}, {i, n - i}}));
    if (i + 1 < n) slices.push_back(*TensorSlice::Create({{i + 1, n - i - 1}, {i, 1}}));
  }
  return slices;
}

// As many as are always accepted.
TEST_P(ManyParts, AsCornersInsideCorners) {
  RegisterAndFind(TensorShape({2000, 2000}), CornersInsideCorners(2000), GetParam());
}

TEST(TensorSliceSet, TooManyCornersAreBounded) {
  TensorSliceSet set(DType::kFloat32, TensorShape({100'000, 100'000}));
  absl::Status last;
  for (const TensorSlice& slice : CornersInsideCorners(100'000)) {
    if (last.ok()) last = set.Register(slice, "");
  }
  EXPECT_THAT(last, StatusIs(Code::kResourceExhausted, HasSubstr("takes too many comparisons")));
  EXPECT_GT(set.parts().size(), 4000u);
  EXPECT_THAT(set.Register(Slice("99999,1:99999,1"), ""),
              StatusIs(Code::kResourceExhausted, HasSubstr("too many comparisons")));
}

// In many dimensions, each part long on all axes, any two apart on some: no order helps, and comparing takes long.
TEST(TensorSliceSet, ScatteredPartsAreBounded) {
  constexpr int kRank = 16;
  std::mt19937_64 random(7);
  TensorSliceSet set(DType::kFloat32, *TensorShape::Create(std::vector<int64_t>(kRank, 4)));
  absl::Status last;
  while (!absl::IsResourceExhausted(last)) {
    std::vector<Extent> extents(kRank);
    for (Extent& extent : extents) extent = {static_cast<int64_t>(random() % 2) * 2, 2};
    last = set.Register(*TensorSlice::Create(extents), "");
    ASSERT_TRUE(last.ok() || absl::IsResourceExhausted(last) || absl::IsInvalidArgument(last)) << last;
  }
  EXPECT_GT(set.parts().size(), 4000u);
}

}  // namespace
}  // namespace tensorcask
