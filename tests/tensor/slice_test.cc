#include "tensorcask/tensor/slice.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;
using Extent = TensorSlice::Extent;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TensorSlice Slice(absl::string_view text) {
  absl::StatusOr<TensorSlice> slice = TensorSlice::Parse(text);
  EXPECT_OK(slice) << text;
  return slice.ok() ? *slice : TensorSlice();
}

// "-:-:-" with `rank` axes.
std::string FullText(int rank) {
  std::string text;
  for (int axis = 0; axis < rank; ++axis) text += axis == 0 ? "-" : ":-";
  return text;
}

TEST(TensorSlice, ParsesAndPrints) {
  const TensorSlice slice = Slice("-:0,10:14,1");
  ASSERT_EQ(slice.rank(), 3);
  EXPECT_TRUE(slice.IsFullAt(0));
  EXPECT_EQ(slice.extent(1), (Extent{0, 10}));
  EXPECT_EQ(slice.extent(2), (Extent{14, 1}));
  EXPECT_FALSE(slice.IsFull());
  EXPECT_EQ(slice.ToString(), "-:0,10:14,1");
  std::ostringstream out;
  out << slice;
  EXPECT_EQ(out.str(), "-:0,10:14,1");
}

TEST(TensorSlice, EdgesOfTheTextForm) {
  EXPECT_EQ(Slice("").rank(), 0);
  EXPECT_EQ(Slice(""), TensorSlice());
  EXPECT_EQ(TensorSlice().ToString(), "");
  EXPECT_TRUE(TensorSlice().IsFull());
  EXPECT_EQ(Slice("-"), TensorSlice::Full(1));
  EXPECT_EQ(Slice("0,1").extent(0), (Extent{0, 1}));
  EXPECT_EQ(Slice(absl::StrCat("0,", kMax)).extent(0), (Extent{0, kMax}));
  EXPECT_EQ(Slice(absl::StrCat(kMax - 1, ",1")).extent(0), (Extent{kMax - 1, 1}));
  EXPECT_EQ(Slice(FullText(254)), TensorSlice::Full(254));
  // The longest text that there is.
  std::string longest;
  for (int axis = 0; axis < 254; ++axis)
    absl::StrAppend(&longest, axis == 0 ? "" : ":", "1000000000000000000,", kMax / 2);
  EXPECT_EQ(Slice(longest).ToString(), longest);
}

struct RejectCase {
  const char* name;
  std::string text;
  Code code;
  const char* says;
};

class ParseSliceRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ParseSliceRejects, WithCodeAndMessage) {
  EXPECT_THAT(TensorSlice::Parse(GetParam().text), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

// Rows SL-01 to SL-03, SL-05, SL-06, SL-08 of the catalogue of hostile input.
const RejectCase kMalformed[] = {
    {"Colon", ":", Code::kInvalidArgument, "slice \":\", position 0: a number is missing"},
    {"Colons", "::", Code::kInvalidArgument, "position 0: a number is missing"},
    {"StartAlone", "0", Code::kInvalidArgument, "position 1: ',' is missing"},
    {"StartAndColon", "0:", Code::kInvalidArgument, "position 1: ',' is missing"},
    {"Comma", ",", Code::kInvalidArgument, "position 0: a number is missing"},
    {"NoStart", ",1", Code::kInvalidArgument, "position 0: a number is missing"},
    {"NoLength", "0,", Code::kInvalidArgument, "position 2: a number is missing"},
    {"NoLengthBeforeColon", "0,:-", Code::kInvalidArgument, "position 2: a number is missing"},
    {"ColonFirst", ":-", Code::kInvalidArgument, "position 0: a number is missing"},
    {"ColonLast", "-:", Code::kInvalidArgument, "position 2: a number is missing"},
    {"ColonsInside", "-::-", Code::kInvalidArgument, "position 2: a number is missing"},
    {"NegativeLength", "0,-1", Code::kInvalidArgument, "position 2: a number is missing"},
    {"NegativeStart", "-1,2", Code::kInvalidArgument, "position 1: ':' or the end is missing"},
    {"TwoDashes", "--", Code::kInvalidArgument, "position 1: ':' or the end is missing"},
    {"LengthZero", "0,0", Code::kInvalidArgument, "position 0: the length is not positive"},
    {"LengthZeroOnAxis2", "-:0,1:3,0", Code::kInvalidArgument, "position 6: the length is not positive"},
    {"ThreeNumbers", "0,1,2", Code::kInvalidArgument, "position 3: ':' or the end is missing"},
    {"SpaceBefore", " 0,1", Code::kInvalidArgument, "position 0: a number is missing"},
    {"SpaceBehind", "0,1 ", Code::kInvalidArgument, "position 3: ':' or the end is missing"},
    {"SpaceInside", "0, 1", Code::kInvalidArgument, "position 2: a number is missing"},
    {"Plus", "+1,1", Code::kInvalidArgument, "position 0: a number is missing"},
    {"Exponent", "1e3,1", Code::kInvalidArgument, "position 1: ',' is missing"},
    {"Hex", "0x1,1", Code::kInvalidArgument, "position 1: ',' is missing"},
    {"LeadingZero", "00,1", Code::kInvalidArgument, "position 0: a number with a leading zero"},
    {"LeadingZeroInLength", "0,01", Code::kInvalidArgument, "position 2: a number with a leading zero"},
    {"Nul", std::string("0,1\0", 4), Code::kInvalidArgument, "position 3: ':' or the end is missing"},
    {"NulAlone", std::string("\0", 1), Code::kInvalidArgument, "slice \"\\x00\", position 0: a number is missing"},
    {"ArabicDigit", "\xd9\xa1,1", Code::kInvalidArgument, "position 0: a number is missing"},
    {"FullwidthDigit", "0,\xef\xbc\x91", Code::kInvalidArgument, "position 2: a number is missing"},
    {"Escape", "0,1\x1b[2J", Code::kInvalidArgument, "\"0,1\\x1b[2J\""},
    {"SumWraps", absl::StrCat(kMax, ",2"), Code::kInvalidArgument, "start + length does not fit"},
    {"SumWrapsByOne", absl::StrCat(kMax, ",1"), Code::kInvalidArgument, "start + length does not fit"},
    {"NumberOf2To63", "9223372036854775808,1", Code::kInvalidArgument, "position 0: a number that does not fit"},
    {"NumberOf2To64", "0,18446744073709551616", Code::kInvalidArgument, "position 2: a number that does not fit"},
    {"ManyDigits", std::string(10000, '9'), Code::kInvalidArgument, "position 0: a number that does not fit"},
    {"ManyZeros", std::string(10000, '0'), Code::kInvalidArgument, "position 0: a number with a leading zero"},
    {"TooManyAxes", FullText(255), Code::kResourceExhausted, "255 axes; at most 254"},
    {"TooManyColons", std::string(254, ':'), Code::kResourceExhausted, "255 axes"},
    {"OneByteTooLong", std::string(10160, '1'), Code::kResourceExhausted,
     "10160 bytes; one of 254 axes has at most 10159"},
    {"MegabytesOfDigits", std::string(10 << 20, '1'), Code::kResourceExhausted, "10485760 bytes"},
    {"MillionAxes", FullText(1000000), Code::kResourceExhausted, "1999999 bytes"},
};

INSTANTIATE_TEST_SUITE_P(Malformed, ParseSliceRejects, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TensorSlice, CreateKeepsThePromises) {
  ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Create({{}, {3, 4}, {0, 1}}));
  EXPECT_EQ(slice.ToString(), "-:3,4:0,1");
  ASSERT_OK_AND_ASSIGN(const TensorSlice scalar, TensorSlice::Create({}));
  EXPECT_EQ(scalar.rank(), 0);

  struct BrokenCase {
    const char* name;
    Extent extent;
    const char* says;
  };
  const BrokenCase cases[] = {{"FullFromFive", {5, -1}, "the length is not positive"},
                              {"LengthZero", {0, 0}, "the length is not positive"},
                              {"LengthMinusTwo", {0, -2}, "the length is not positive"},
                              {"SmallestLength", {0, kMin}, "the length is not positive"},
                              {"NegativeStart", {-1, 2}, "the start is negative"},
                              {"NegativeFull", {-1, -1}, "the start is negative"},
                              {"SmallestStart", {kMin, kMin}, "the start is negative"},
                              {"SumWraps", {kMax, 2}, "start + length does not fit"},
                              {"SumWrapsByOne", {1, kMax}, "start + length does not fit"}};
  for (const BrokenCase& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_THAT(TensorSlice::Create({{}, c.extent}), StatusIs(Code::kInvalidArgument, HasSubstr("axis 1")));
    EXPECT_THAT(TensorSlice::Create({{}, c.extent}), StatusIs(Code::kInvalidArgument, HasSubstr(c.says)));
  }
  EXPECT_OK(TensorSlice::Create(std::vector<Extent>(254)));
  EXPECT_THAT(TensorSlice::Create(std::vector<Extent>(255)), StatusIs(Code::kInvalidArgument, HasSubstr("rank 255")));
}

TEST(TensorSliceDeathTest, ChecksItsRequirements) {
  EXPECT_DEATH(TensorSlice::Full(255), "rank outside");
  EXPECT_DEATH(TensorSlice::Full(1).extent(1), "axis outside the slice");
  EXPECT_DEATH(Slice("-").UpdateToCover(Slice("-:-")), "ranks differ");
}

TEST(TensorSlice, ComparesAsWritten) {
  EXPECT_EQ(Slice("-:0,5"), Slice("-:0,5"));
  EXPECT_NE(Slice("-"), Slice("0,5"));
  EXPECT_NE(Slice("0,5"), Slice("0,4"));
  EXPECT_NE(Slice("-"), Slice("-:-"));
}

struct PairCase {
  const char* a;
  const char* b;
  const char* intersection;  // null: none
  const char* cover;
};

TEST(TensorSlice, IntersectsAndCovers) {
  const PairCase cases[] = {
      {"", "", "", ""},
      {"-", "-", "-", "-"},
      {"-", "3,4", "3,4", "-"},
      {"0,5", "3,4", "3,2", "0,7"},
      {"0,3", "3,4", nullptr, "0,7"},
      {"0,1", "9,1", nullptr, "0,10"},
      {"0,9", "3,4", "3,4", "0,9"},
      {"0,2:-:1,5", "1,3:2,2:-", "1,1:2,2:1,5", "0,4:-:-"},
      {"0,2:0,2", "1,2:2,2", nullptr, "0,3:0,4"},
      {"0,9223372036854775807", "9223372036854775806,1", "9223372036854775806,1", "0,9223372036854775807"}};
  for (const PairCase& c : cases) {
    for (const bool swapped : {false, true}) {
      const TensorSlice a = Slice(swapped ? c.b : c.a);
      const TensorSlice b = Slice(swapped ? c.a : c.b);
      SCOPED_TRACE(::testing::Message() << a << " and " << b);
      const std::optional<TensorSlice> intersection = a.Intersect(b);
      EXPECT_EQ(a.Overlaps(b), c.intersection != nullptr);
      ASSERT_EQ(intersection.has_value(), c.intersection != nullptr);
      if (intersection) {
        EXPECT_EQ(intersection->ToString(), c.intersection);
      }
      TensorSlice cover = a;
      cover.UpdateToCover(b);
      EXPECT_EQ(cover.ToString(), c.cover);
    }
  }
  EXPECT_FALSE(Slice("-").Overlaps(Slice("-:-")));
}

struct ApplyCase {
  const char* slice;
  TensorShape shape;
  const char* result;
};

TEST(TensorSlice, Applies) {
  const ApplyCase cases[] = {{"", TensorShape(), "[]"},
                             {"-:0,10:14,1", TensorShape({4, 10, 20}), "[4,10,1]"},
                             {"-", TensorShape({0}), "[0]"},
                             {"-:2,3", TensorShape({0, 5}), "[0,3]"},
                             {"0,5", TensorShape({5}), "[5]"},
                             {"4,1", TensorShape({5}), "[1]"},
                             {"9223372036854775806,1", TensorShape({kMax}), "[1]"},
                             {"0,9223372036854775807", TensorShape({kMax}), "[9223372036854775807]"}};
  for (const ApplyCase& c : cases) {
    SCOPED_TRACE(c.slice);
    ASSERT_OK_AND_ASSIGN(const TensorShape shape, Slice(c.slice).Apply(c.shape));
    EXPECT_EQ(shape.ToString(), c.result);
  }
}

// Rows SL-04 and SL-07.
TEST(TensorSlice, ApplyRefusesWhatReachesPastTheShape) {
  EXPECT_THAT(Slice("6,1").Apply(TensorShape({5})),
              StatusIs(Code::kOutOfRange, HasSubstr("axis 0: 6 + 1 reaches past 5")));
  EXPECT_THAT(Slice("5,1").Apply(TensorShape({5})), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(Slice("-:3,3").Apply(TensorShape({2, 5})),
              StatusIs(Code::kOutOfRange, HasSubstr("slice \"-:3,3\", axis 1: 3 + 3 reaches past 5 in shape [2,5]")));
  EXPECT_THAT(Slice("0,1").Apply(TensorShape({0})), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(Slice("0,9223372036854775807").Apply(TensorShape({5})), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(Slice("-").Apply(TensorShape()), StatusIs(Code::kInvalidArgument, HasSubstr("has rank 1, the shape")));
  EXPECT_THAT(Slice("").Apply(TensorShape({3})), StatusIs(Code::kInvalidArgument, HasSubstr("has rank 1")));
  EXPECT_THAT(Slice("-:-").Apply(TensorShape({3})), StatusIs(Code::kInvalidArgument, HasSubstr("has rank 2")));
}

TEST(TensorSlice, ComputesRelative) {
  struct RelativeCase {
    const char* slice;
    const char* base;
    const char* relative;
  };
  const RelativeCase cases[] = {{"", "", ""},          {"-", "-", "-"},       {"3,4", "-", "3,4"},
                                {"3,4", "2,6", "1,4"}, {"3,4", "3,4", "0,4"}, {"-:5,2", "-:5,3", "-:0,2"}};
  for (const RelativeCase& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.slice << " in " << c.base);
    ASSERT_OK_AND_ASSIGN(const TensorSlice relative, Slice(c.slice).ComputeRelative(Slice(c.base)));
    EXPECT_EQ(relative.ToString(), c.relative);
  }
  const auto rejects = [](const char* slice, const char* base, const char* says) {
    EXPECT_THAT(Slice(slice).ComputeRelative(Slice(base)), StatusIs(Code::kInvalidArgument, HasSubstr(says)))
        << slice << " in " << base;
  };
  rejects("2,4", "3,4", "\"3,4\" does not contain \"2,4\" on axis 0");
  rejects("3,5", "3,4", "on axis 0");
  rejects("-:9,1", "-:3,4", "on axis 1");
  rejects("-", "0,4", "on axis 0");  // a full axis may be longer than 4
  rejects("-", "-:-", "the base");
}

// A slice of rank up to 6, some axes full, numbers of every magnitude.
TensorSlice RandomSlice(std::mt19937_64* random) {
  std::vector<Extent> extents((*random)() % 7);
  for (Extent& extent : extents) {
    if ((*random)() % 3 == 0) continue;
    extent.start = static_cast<int64_t>(((*random)() >> 1) >> ((*random)() % 64));
    extent.length = static_cast<int64_t>(((*random)() >> 1) >> ((*random)() % 64));
    if (extent.start == kMax) extent.start = 0;
    extent.length = std::max<int64_t>(1, std::min(extent.length, kMax - extent.start));
  }
  absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
  EXPECT_OK(slice);
  return *slice;
}

TEST(TensorSlice, TextComesBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const TensorSlice slice = RandomSlice(&random);
    const std::string text = slice.ToString();
    ASSERT_OK_AND_ASSIGN(const TensorSlice parsed, TensorSlice::Parse(text));
    ASSERT_EQ(parsed, slice) << text;
  }
}

// Whatever parses is written back the same: each slice has one text.
TEST(TensorSlice, DamagedTextIsRefusedOrMeansWhatItSays) {
  std::mt19937_64 random(2);
  const std::string letters("-,:0123456789 x\0", 16);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = RandomSlice(&random).ToString();
    if (text.empty()) continue;
    const size_t at = random() % text.size();
    switch (random() % 3) {
      case 0:
        text[at] = letters[random() % letters.size()];
        break;
      case 1:
        text.erase(at, 1);
        break;
      default:
        text.insert(at, 1, letters[random() % letters.size()]);
    }
    const absl::StatusOr<TensorSlice> slice = TensorSlice::Parse(text);
    if (!slice.ok()) continue;
    ++accepted;
    ASSERT_EQ(slice->ToString(), text);
  }
  EXPECT_GT(accepted, 1000);
}

// The algebra of boxes, against counting points: all slices of a 4 x 3 tensor.
TEST(TensorSlice, AgreesWithSetsOfPoints) {
  std::vector<TensorSlice> slices;
  const auto extents = [](int64_t size) {
    std::vector<Extent> all = {{}};
    for (int64_t start = 0; start < size; ++start) {
      for (int64_t length = 1; start + length <= size; ++length) all.push_back({start, length});
    }
    return all;
  };
  for (const Extent& row : extents(4)) {
    for (const Extent& column : extents(3)) {
      ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Create({row, column}));
      slices.push_back(slice);
    }
  }
  const auto points = [](const TensorSlice& slice) {
    uint32_t set = 0;
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t at[2] = {i / 3, i % 3};
      bool inside = true;
      for (int axis = 0; axis < 2; ++axis) {
        const Extent& extent = slice.extent(axis);
        inside = inside && (extent.full() || (at[axis] >= extent.start && at[axis] - extent.start < extent.length));
      }
      if (inside) set |= 1u << i;
    }
    return set;
  };
  const TensorShape shape({4, 3});
  for (const TensorSlice& a : slices) {
    ASSERT_OK_AND_ASSIGN(const TensorShape part, a.Apply(shape));
    ASSERT_EQ(part.num_elements(), __builtin_popcount(points(a))) << a;
    for (const TensorSlice& b : slices) {
      SCOPED_TRACE(::testing::Message() << a << " and " << b);
      const std::optional<TensorSlice> common = a.Intersect(b);
      ASSERT_EQ(common ? points(*common) : 0, points(a) & points(b));
      TensorSlice cover = a;
      cover.UpdateToCover(b);
      ASSERT_EQ((points(a) | points(b)) & ~points(cover), 0u);
      const absl::StatusOr<TensorSlice> relative = a.ComputeRelative(b);
      if ((points(a) & ~points(b)) != 0) {
        ASSERT_THAT(relative, Not(IsOk()));
      } else if (relative.ok()) {
        ASSERT_OK_AND_ASSIGN(const TensorShape base, b.Apply(shape));
        ASSERT_OK_AND_ASSIGN(const TensorShape inner, relative->Apply(base));
        ASSERT_EQ(inner, part);
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
