#include "tensorcask/serialize/payload/payload_header.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/serialize/payload/payload_testing.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

PayloadHeader Header(DType dtype, uint64_t elements, uint64_t characters = 0, int log2_chunk_bytes = 20) {
  PayloadHeader header;
  header.dtype = dtype;
  header.num_elements = elements;
  header.characters = characters;
  header.log2_chunk_bytes = log2_chunk_bytes;
  return header;
}

TEST(PayloadHeader, ComesBack) {
  for (const DType dtype : testing::FixedSizeDTypes()) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    PayloadHeader header = Header(dtype, 12345, 0, 16 + static_cast<int>(dtype) % 7);
    header.level = static_cast<uint8_t>(dtype) % 4;
    header.is_delta = dtype != DType::kBool;
    if (header.is_delta) header.base.bytes.fill(0xab);
    const std::string bytes = header.Encode();
    ASSERT_EQ(bytes.size(), kPayloadHeaderBytes);
    ASSERT_OK_AND_ASSIGN(const PayloadHeader found, PayloadHeader::Parse(bytes));
    EXPECT_EQ(found.dtype, header.dtype);
    EXPECT_EQ(found.num_elements, 12345);
    EXPECT_EQ(found.log2_chunk_bytes, header.log2_chunk_bytes);
    EXPECT_EQ(found.level, header.level);
    EXPECT_EQ(found.is_delta, header.is_delta);
    EXPECT_EQ(found.base, header.base);
    EXPECT_EQ(found.Encode(), bytes);
  }
  ASSERT_OK_AND_ASSIGN(const PayloadHeader strings, PayloadHeader::Parse(Header(DType::kString, 3, 1000).Encode()));
  EXPECT_EQ(strings.characters, 1000);
}

TEST(PayloadHeader, ChunksAreComputed) {
  struct Case {
    PayloadHeader header;
    uint64_t decoded;
    uint64_t chunks;
  };
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  const Case cases[] = {
      {Header(DType::kFloat32, 0), 0, 0},
      {Header(DType::kFloat32, 1), 4, 1},
      {Header(DType::kFloat32, 1 << 18), 1 << 20, 1},
      {Header(DType::kFloat32, (1 << 18) + 1), (1 << 20) + 4, 2},
      {Header(DType::kString, 0), 0, 0},
      {Header(DType::kString, 3), 24, 1},
      {Header(DType::kString, 3, 65537, 16), 24 + 65537, 3},
      {Header(DType::kUint8, kMax, 0, 16), kMax, uint64_t{1} << 47},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.header.decoded_bytes(), c.decoded);
    EXPECT_EQ(c.header.num_chunks(), c.chunks);
  }
  const PayloadHeader header = Header(DType::kString, 8193, 65537, 16);
  EXPECT_EQ(header.first_stream_chunks(), 2);
  ASSERT_EQ(header.num_chunks(), 4);
  const PayloadHeader::Chunk wanted[] = {{0, 0, 65536}, {0, 65536, 8}, {1, 0, 65536}, {1, 65536, 1}};
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(header.chunk(i).stream, wanted[i].stream);
    EXPECT_EQ(header.chunk(i).begin, wanted[i].begin);
    EXPECT_EQ(header.chunk(i).size, wanted[i].size);
  }
}

struct RejectCase {
  const char* name;
  size_t offset;
  const char* hex;  // what stands there
  Code code;
  const char* says;
};

class PayloadHeaderRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(PayloadHeaderRejects, WithCodeAndMessage) {
  const RejectCase& c = GetParam();
  const std::string bytes =
      testing::WithHeaderBytes(Header(DType::kFloat32, 1000).Encode(), c.offset, testing::BytesOfHex(c.hex));
  EXPECT_THAT(PayloadHeader::Parse(bytes), StatusIs(c.code, HasSubstr(c.says)));
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
INSTANTIATE_TEST_SUITE_P(Fields, PayloadHeaderRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PayloadHeader, RejectsWhatDoesNotGoTogether) {
  const auto parse = [](const PayloadHeader& header, size_t offset, const char* hex) {
    return PayloadHeader::Parse(testing::WithHeaderBytes(header.Encode(), offset, testing::BytesOfHex(hex))).status();
  };
  const PayloadHeader strings = Header(DType::kString, 3, 5);
  EXPECT_THAT(parse(strings, 16, "00"), StatusIs(Code::kInvalidArgument, HasSubstr("5 characters of no strings")));
  EXPECT_THAT(parse(strings, 24, "ffffffffffffff7f"), StatusIs(Code::kInvalidArgument, HasSubstr("2^63")));
  EXPECT_THAT(parse(strings, 12, "01"), StatusIs(Code::kInvalidArgument, HasSubstr("a delta of dtype string")));
  EXPECT_THAT(parse(Header(DType::kBool, 3), 12, "01"),
              StatusIs(Code::kInvalidArgument, HasSubstr("a delta of dtype bool")));
}

TEST(PayloadHeader, RejectsEveryChangedByteAndEveryPrefix) {
  const std::string bytes = Header(DType::kInt16, 1000).Encode();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string changed = bytes;
      changed[at] ^= change;
      EXPECT_FALSE(PayloadHeader::Parse(changed).ok()) << at;
    }
    EXPECT_THAT(PayloadHeader::Parse(bytes.substr(0, at)), StatusIs(Code::kInvalidArgument, HasSubstr("it has 64")));
  }
  std::string changed = bytes;
  changed[20] ^= 1;
  EXPECT_THAT(PayloadHeader::Parse(changed), StatusIs(Code::kDataLoss, HasSubstr("checksum")));
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
