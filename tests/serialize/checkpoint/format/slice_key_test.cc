#include "tensorcask/serialize/checkpoint/format/slice_key.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

TensorSlice Slice(std::initializer_list<TensorSlice::Extent> extents) { return *TensorSlice::Create(extents); }

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }
std::string Bytes(absl::string_view hex) { return testing::BytesOfHex(hex); }

// tensorflow/core/util/saved_tensor_slice_util_test.cc and the key of a scalar in a V1 file of TensorFlow.
TEST(SliceKeyTest, IsTensorFlows) {
  EXPECT_EQ(Hex(EncodeSliceKey("foo", *TensorSlice::Parse("-:-:1,3:4,5"))), "00666f6f00010104807f807f81838485");
  EXPECT_EQ(Hex(EncodeSliceKey("a", TensorSlice())), "0061000100");
}

// The numbers of tensorflow/core/lib/strings/ordered_code_test.cc that a start or a length may be.
TEST(SliceKeyTest, NumbersAreTensorFlows) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const struct {
    int64_t start;
    const char* code;
  } kRows[] = {{0, "80"},
               {1, "81"},
               {63, "bf"},
               {64, "c040"},
               {8191, "dfff"},
               {8192, "e02000"},
               {0x424242, "f0424242"},
               {(int64_t{1} << 34) - 1, "fbffffffff"},
               {int64_t{1} << 34, "fc0400000000"},
               {int64_t{1} << 55, "ff8080000000000000"},
               {(int64_t{1} << 62) - 1, "ffbfffffffffffffff"},
               {int64_t{1} << 62, "ffc04000000000000000"},
               {kMax - 1, "ffc07ffffffffffffffe"}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.start);
    const std::string key = EncodeSliceKey("", Slice({{row.start, 1}}));
    EXPECT_EQ(Hex(key), absl::StrCat("0000010101", row.code, "81"));
    ASSERT_OK_AND_ASSIGN(const SliceKey decoded, DecodeSliceKey(key));
    EXPECT_EQ(decoded.slice.extent(0).start, row.start);
  }
  EXPECT_EQ(Hex(EncodeSliceKey("", Slice({{0, kMax}}))), "000001010180ffc07fffffffffffffff");
}

TEST(SliceKeyTest, NamesAreAnyBytes) {
  const std::string name("\0a\xff\xff\0", 5);
  const std::string key = EncodeSliceKey(name, TensorSlice::Full(1));
  EXPECT_EQ(Hex(key), "0000ff61ff00ff0000ff00010101807f");
  ASSERT_OK_AND_ASSIGN(const SliceKey decoded, DecodeSliceKey(key));
  EXPECT_EQ(decoded.name, name);
}

TEST(SliceKeyTest, RoundTrips) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::string name(random() % 9, '\0');
    for (char& c : name) c = static_cast<char>(random() % 3 == 0 ? 0 - random() % 2 : random());
    std::vector<TensorSlice::Extent> extents(random() % 6);
    for (TensorSlice::Extent& extent : extents) {
      if (random() % 3 == 0) continue;
      extent.start = static_cast<int64_t>(random() >> (1 + random() % 63));
      const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() - extent.start);
      if (most == 0) --extent.start;
      extent.length = 1 + static_cast<int64_t>(most == 0 ? 0 : (random() >> random() % 64) % most);
    }
    ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Create(extents));
    const std::string key = EncodeSliceKey(name, slice);
    ASSERT_OK_AND_ASSIGN(const SliceKey decoded, DecodeSliceKey(key));
    EXPECT_EQ(decoded.name, name);
    EXPECT_EQ(decoded.slice, slice);
    // No beginning of a key is one.
    for (size_t length = 0; length < key.size(); ++length) {
      EXPECT_THAT(DecodeSliceKey(absl::string_view(key).substr(0, length)), StatusIs(absl::StatusCode::kDataLoss));
    }
  }
}

// The order of the pieces of one tensor in the index: by start, axis by axis.
TEST(SliceKeyTest, OrderOfKeysIsThatOfNamesAndNumbers) {
  const std::vector<std::pair<std::string, TensorSlice>> kOrdered = {{"", TensorSlice::Full(2)},
                                                                     {"a", Slice({{0, 9}})},
                                                                     {"a", Slice({{5, 5}})},
                                                                     {"a", Slice({{63, 1}})},
                                                                     {"a", Slice({{64, 1}})},
                                                                     {"a", Slice({{70000, 1}})},
                                                                     {"a", Slice({{0, -1}, {0, -1}})},
                                                                     {std::string("a\0", 2), Slice({})},
                                                                     {"ab", Slice({})},
                                                                     {"a\xff", Slice({})}};
  for (size_t i = 1; i < kOrdered.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_LT(EncodeSliceKey(kOrdered[i - 1].first, kOrdered[i - 1].second),
              EncodeSliceKey(kOrdered[i].first, kOrdered[i].second));
  }
}

TEST(SliceKeyTest, HighestRank) {
  std::vector<TensorSlice::Extent> extents(TensorShape::kMaxRank, {std::numeric_limits<int64_t>::max() - 1, 1});
  ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Create(extents));
  ASSERT_OK_AND_ASSIGN(const SliceKey decoded, DecodeSliceKey(EncodeSliceKey("x", slice)));
  EXPECT_EQ(decoded.slice, slice);
}

struct RejectCase {
  const char* name;
  const char* hex;
  const char* says;
};
class DecodeSliceKeyRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(DecodeSliceKeyRejects, AsDataLoss) {
  EXPECT_THAT(DecodeSliceKey(Bytes(GetParam().hex)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(GetParam().says)));
}

const RejectCase kRejects[] = {
    {"Nothing", "", "no 0 at its start"},
    {"StartsWithOne",
     "0101666f6f0001"
     "00",
     "no 0 at its start"},
    {"ZeroOfTwoBytes", "010061000100", "not those of its name and slice"},
    {"ZeroPastTheEnd", "08", "no 0 at its start"},
    {"NameCut", "00666f", "a name that does not end"},
    {"NameCutInAnEscape", "006600", "a name that does not end"},
    {"NameWithUnknownEscape", "00660002000100", "a name that does not end"},
    {"NameWithUnknownEscapeOfFf", "0066ff01000100", "a name that does not end"},
    {"NoRank",
     "0066"
     "0001",
     "no rank"},
    {"RankCut",
     "0066"
     "0001"
     "02"
     "01",
     "no rank"},
    {"RankOfNineBytes",
     "0066"
     "0001"
     "09"
     "000000000000000001"
     "8081",
     "no rank"},
    {"RankWithLeadingZero",
     "0066"
     "0001"
     "020001"
     "8081",
     "not those of its name and slice"},
    {"RankTooHigh",
     "0066"
     "0001"
     "01ff",
     "rank 255; at most 254"},
    {"RankHuge",
     "0066"
     "0001"
     "08ffffffffffffffff",
     "rank 18446744073709551615; at most 254"},
    {"AxisMissing",
     "0066"
     "0001"
     "0102"
     "8081",
     "no start and length for axis 1 of 2"},
    {"LengthMissing",
     "0066"
     "0001"
     "0101"
     "80",
     "no start and length for axis 0 of 1"},
    {"NumberCut",
     "0066"
     "0001"
     "0101"
     "80ffc07fffff",
     "no start and length for axis 0 of 1"},
    {"NumberLongerThanNeedBe",
     "0066"
     "0001"
     "0101"
     "c00181",
     "not those of its name and slice"},
    {"NumberPast64Bits",
     "0066"
     "0001"
     "0101"
     "ffdf000000000000000081",
     "not those of its name and slice"},
    {"NumberPast63Bits",
     "0066"
     "0001"
     "0101"
     "ffc0800000000000000081",
     "no start and length for axis 0 of 1"},
    {"NumberOfElevenBytes",
     "0066"
     "0001"
     "0101"
     "ffe0000000000000000081",
     "not those of its name and slice"},
    {"NegativeStart",
     "0066"
     "0001"
     "0101"
     "7f81",
     "the start is negative"},
    {"LeastStart",
     "0066"
     "0001"
     "0101"
     "003f800000000000000081",
     "the start is negative"},
    {"LengthZero",
     "0066"
     "0001"
     "0101"
     "8080",
     "the length is not positive"},
    {"LengthMinusTwo",
     "0066"
     "0001"
     "0101"
     "807e",
     "the length is not positive"},
    {"FullFromOne",
     "0066"
     "0001"
     "0101"
     "817f",
     "the length is not positive"},
    {"EndPast63Bits",
     "0066"
     "0001"
     "0101"
     "81ffc07fffffffffffffff",
     "does not fit 63 bits"},
    {"BytesBehind",
     "0066"
     "0001"
     "0101"
     "808100",
     "not those of its name and slice"},
    {"BytesBehindAScalar", "006600010000", "not those of its name and slice"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, DecodeSliceKeyRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask::checkpoint
