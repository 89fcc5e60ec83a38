#include "tensorcask/tensor/base/varint.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

TEST(Varint, EachNumberHasItsShortestForm) {
  const std::pair<uint64_t, std::string> cases[] = {
      {0, Bytes({0})},
      {1, Bytes({1})},
      {127, Bytes({0x7f})},
      {128, Bytes({0x80, 1})},
      {300, Bytes({0xac, 2})},
      {16383, Bytes({0xff, 0x7f})},
      {16384, Bytes({0x80, 0x80, 1})},
      {UINT32_MAX, Bytes({0xff, 0xff, 0xff, 0xff, 0x0f})},
      {uint64_t{1} << 63, std::string(9, '\x80') + Bytes({1})},
      {UINT64_MAX, std::string(9, '\xff') + Bytes({1})},
  };
  for (const auto& [value, bytes] : cases) {
    SCOPED_TRACE(value);
    std::string appended = "x";
    AppendVarint(value, &appended);
    EXPECT_EQ(appended, "x" + bytes);
    EXPECT_EQ(VarintSize(value), bytes.size());
    char written[kMaxVarintBytes];
    EXPECT_EQ(std::string(written, static_cast<size_t>(WriteVarint(value, written) - written)), bytes);
    for (const bool canonical : {false, true}) {
      const std::string more = bytes + "rest";
      absl::string_view rest = more;
      uint64_t parsed = 0;
      ASSERT_TRUE(canonical ? ParseCanonicalVarint(&rest, &parsed) : ParseVarint(&rest, &parsed));
      EXPECT_EQ(parsed, value);
      EXPECT_EQ(rest, "rest");
    }
    absl::string_view rest = bytes;
    uint32_t narrow = 0;
    EXPECT_EQ(ParseCanonicalVarint(&rest, &narrow), value <= UINT32_MAX);
    EXPECT_EQ(narrow, value <= UINT32_MAX ? value : 0);
    EXPECT_EQ(rest, value <= UINT32_MAX ? "" : bytes) << "a failed parse moves nothing";
  }
}

TEST(Varint, SizeIsThatOfEveryWidth) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1}) {
      std::string bytes;
      AppendVarint(value, &bytes);
      EXPECT_EQ(VarintSize(value), bytes.size()) << value;
    }
  }
}

struct OtherForm {
  const char* name;
  std::string bytes;
  bool parses;  // by protobuf's rules; never as a canonical varint
  uint64_t value;
};
TEST(Varint, FormsThatAreNotTheShortest) {
  const OtherForm cases[] = {
      {"Empty", "", false, 0},
      {"CutShort", Bytes({0x80}), false, 0},
      {"NineOfTen", std::string(9, '\xff'), false, 0},
      {"ElevenBytes", std::string(10, '\x80') + Bytes({1}), false, 0},
      {"OneInTwo", Bytes({0x81, 0}), true, 1},
      {"ZeroInTwo", Bytes({0x80, 0}), true, 0},
      {"OneInTen", Bytes({0x81}) + std::string(8, '\x80') + Bytes({0}), true, 1},
      {"BitsPastThe64th", std::string(9, '\xff') + Bytes({0x7f}), true, UINT64_MAX},
      {"The65thBit", std::string(9, '\xff') + Bytes({0x03}), true, UINT64_MAX},
      {"The65thBitAlone", std::string(9, '\x80') + Bytes({0x02}), true, 0},
  };
  for (const OtherForm& c : cases) {
    SCOPED_TRACE(c.name);
    absl::string_view rest = c.bytes;
    uint64_t value = 42;
    EXPECT_EQ(ParseVarint(&rest, &value), c.parses);
    EXPECT_EQ(value, c.parses ? c.value : 42);
    EXPECT_EQ(rest, c.parses ? "" : c.bytes);
    rest = c.bytes;
    value = 42;
    uint32_t narrow = 42;
    EXPECT_FALSE(ParseCanonicalVarint(&rest, &value));
    EXPECT_FALSE(ParseCanonicalVarint(&rest, &narrow));
    EXPECT_EQ(value, 42);
    EXPECT_EQ(narrow, 42);
    EXPECT_EQ(rest, c.bytes);
  }
}

}  // namespace
}  // namespace tensorcask
