#include "tensorcask/serialize/payload/payload_head.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

PayloadHead Head(DType dtype, uint64_t elements, uint64_t characters = 0, int log2_chunk_bytes = 20) {
  PayloadHead head;
  head.dtype = dtype;
  head.num_elements = elements;
  head.characters = characters;
  head.log2_chunk_bytes = log2_chunk_bytes;
  return head;
}

TEST(PayloadHead, ComesBack) {
  for (const DType dtype : testing::FixedSizeDTypes()) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    PayloadHead head = Head(dtype, 12345, 0, 16 + static_cast<int>(dtype) % 7);
    head.level = static_cast<uint8_t>(dtype) % 4;
    head.is_delta = dtype != DType::kBool;
    if (head.is_delta) head.base.bytes.fill(0xab);
    const std::string bytes = head.Encode();
    ASSERT_EQ(bytes.size(), kPayloadHeadBytes);
    ASSERT_OK_AND_ASSIGN(const PayloadHead found, PayloadHead::Parse(bytes));
    EXPECT_EQ(found.dtype, head.dtype);
    EXPECT_EQ(found.num_elements, 12345);
    EXPECT_EQ(found.log2_chunk_bytes, head.log2_chunk_bytes);
    EXPECT_EQ(found.level, head.level);
    EXPECT_EQ(found.is_delta, head.is_delta);
    EXPECT_EQ(found.base, head.base);
    EXPECT_EQ(found.Encode(), bytes);
  }
  ASSERT_OK_AND_ASSIGN(const PayloadHead strings, PayloadHead::Parse(Head(DType::kString, 3, 1000).Encode()));
  EXPECT_EQ(strings.characters, 1000);
}

TEST(PayloadHead, ChunksAreComputed) {
  struct Case {
    PayloadHead head;
    uint64_t decoded;
    uint64_t chunks;
  };
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  const Case cases[] = {
      {Head(DType::kFloat32, 0), 0, 0},
      {Head(DType::kFloat32, 1), 4, 1},
      {Head(DType::kFloat32, 1 << 18), 1 << 20, 1},
      {Head(DType::kFloat32, (1 << 18) + 1), (1 << 20) + 4, 2},
      {Head(DType::kString, 0), 0, 0},
      {Head(DType::kString, 3), 24, 1},
      {Head(DType::kString, 3, 65537, 16), 24 + 65537, 3},
      {Head(DType::kUint8, kMax, 0, 16), kMax, uint64_t{1} << 47},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.head.decoded_bytes(), c.decoded);
    EXPECT_EQ(c.head.num_chunks(), c.chunks);
  }
  const PayloadHead head = Head(DType::kString, 8193, 65537, 16);
  EXPECT_EQ(head.first_stream_chunks(), 2);
  ASSERT_EQ(head.num_chunks(), 4);
  const PayloadHead::Chunk wanted[] = {{0, 0, 65536}, {0, 65536, 8}, {1, 0, 65536}, {1, 65536, 1}};
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(head.chunk(i).stream, wanted[i].stream);
    EXPECT_EQ(head.chunk(i).begin, wanted[i].begin);
    EXPECT_EQ(head.chunk(i).size, wanted[i].size);
  }
}

struct RejectCase {
  const char* name;
  size_t offset;
  const char* hex;  // what stands there
  Code code;
  const char* says;
};

class PayloadHeadRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(PayloadHeadRejects, WithCodeAndMessage) {
  const RejectCase& c = GetParam();
  const std::string bytes =
      testing::WithHeadBytes(Head(DType::kFloat32, 1000).Encode(), c.offset, absl::HexStringToBytes(c.hex));
  EXPECT_THAT(PayloadHead::Parse(bytes), StatusIs(c.code, HasSubstr(c.says)));
}

const RejectCase kRejects[] = {
    {"Magic", 0, "88", Code::kInvalidArgument, "magic"},
    {"MagicEnd", 6, "4d", Code::kInvalidArgument, "magic"},
    {"Version", 7, "02", Code::kUnimplemented, "version 2"},
    {"DTypeUnknown", 8, "fe00", Code::kUnimplemented, "dtype number 254"},
    {"DTypeTwoBytes", 8, "0101", Code::kUnimplemented, "dtype number 257"},
    {"DTypeInvalid", 8, "0000", Code::kUnimplemented, "dtype number 0"},
    {"DTypeResource", 8, "1400", Code::kInvalidArgument, "dtype resource has no such form"},
    {"DTypeVariant", 8, "1500", Code::kInvalidArgument, "dtype variant has no such form"},
    {"ChunkTooSmall", 10, "0f", Code::kInvalidArgument, "chunks of 2^15"},
    {"ChunkTooLarge", 10, "17", Code::kInvalidArgument, "chunks of 2^23"},
    {"ChunkHuge", 10, "ff", Code::kInvalidArgument, "chunks of 2^255"},
    {"Flag", 12, "02", Code::kUnimplemented, "flags 2"},
    {"HighFlag", 15, "80", Code::kUnimplemented, "flags 2147483648"},
    {"ElementsPast", 16, "0000000000000020", Code::kInvalidArgument, "2^63"},
    {"ElementsWrap", 16, "0000000000000080", Code::kInvalidArgument, "2^63"},
    {"ElementsMost", 16, "ffffffffffffffff", Code::kInvalidArgument, "2^63"},
    {"Characters", 24, "01", Code::kInvalidArgument, "1 characters of dtype float32"},
    {"BaseWithoutDelta", 32, "01", Code::kInvalidArgument, "no delta"},
    {"Reserved", 48, "01", Code::kUnimplemented, "reserved"},
    {"ReservedEnd", 59, "01", Code::kUnimplemented, "reserved"},
};
INSTANTIATE_TEST_SUITE_P(Fields, PayloadHeadRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PayloadHead, RejectsWhatDoesNotGoTogether) {
  const auto parse = [](const PayloadHead& head, size_t offset, const char* hex) {
    return PayloadHead::Parse(testing::WithHeadBytes(head.Encode(), offset, absl::HexStringToBytes(hex))).status();
  };
  const PayloadHead strings = Head(DType::kString, 3, 5);
  EXPECT_THAT(parse(strings, 16, "00"), StatusIs(Code::kInvalidArgument, HasSubstr("5 characters of no strings")));
  EXPECT_THAT(parse(strings, 24, "ffffffffffffff7f"), StatusIs(Code::kInvalidArgument, HasSubstr("2^63")));
  EXPECT_THAT(parse(strings, 12, "01"), StatusIs(Code::kInvalidArgument, HasSubstr("a delta of dtype string")));
  EXPECT_THAT(parse(Head(DType::kBool, 3), 12, "01"),
              StatusIs(Code::kInvalidArgument, HasSubstr("a delta of dtype bool")));
}

TEST(PayloadHead, RejectsEveryChangedByteAndEveryPrefix) {
  const std::string bytes = Head(DType::kInt16, 1000).Encode();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string changed = bytes;
      changed[at] ^= change;
      EXPECT_FALSE(PayloadHead::Parse(changed).ok()) << at;
    }
    EXPECT_THAT(PayloadHead::Parse(bytes.substr(0, at)), StatusIs(Code::kInvalidArgument, HasSubstr("it has 64")));
  }
  std::string changed = bytes;
  changed[20] ^= 1;
  EXPECT_THAT(PayloadHead::Parse(changed), StatusIs(Code::kDataLoss, HasSubstr("checksum")));
}

TEST(PayloadLevel, NamesComeBack) {
  for (const PayloadLevel level : {PayloadLevel::kStored, PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    EXPECT_EQ(*ParsePayloadLevel(PayloadLevelName(level)), level);
  }
  for (const char* name : {"", "Default", "fast", "high "}) {
    EXPECT_THAT(ParsePayloadLevel(name), StatusIs(Code::kInvalidArgument, HasSubstr("stored, default or high")));
  }
}

}  // namespace
}  // namespace tensorcask
