#include "tensorcask/serialize/exchange/internal/frame.h"

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::exchange {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

FrameHeader SomeHeader() {
  FrameHeader header;
  header.type = FrameType::kMessage;
  header.sequence = 0x0102030405060708;
  header.body_bytes = 300;
  header.inline_bytes = uint64_t{5} << 32;
  header.num_descriptors = 7;
  header.body_crc32c = 0xdeadbeef;
  return header;
}

std::string Text(const std::array<char, kFrameHeaderBytes>& bytes) { return std::string(bytes.data(), bytes.size()); }

// Puts right the checksum of a header that was changed.
std::string Mended(std::string header) {
  StoreLittleEndian(MaskCrc32c(Crc32c(header.substr(0, 40))), &header[40]);
  return header;
}

TEST(FrameHeader, ComesBack) {
  const FrameHeader header = SomeHeader();
  ASSERT_OK_AND_ASSIGN(const FrameHeader same, DecodeFrameHeader(Text(EncodeFrameHeader(header))));
  EXPECT_EQ(same.type, header.type);
  EXPECT_EQ(same.sequence, header.sequence);
  EXPECT_EQ(same.body_bytes, header.body_bytes);
  EXPECT_EQ(same.inline_bytes, header.inline_bytes);
  EXPECT_EQ(same.num_descriptors, header.num_descriptors);
  EXPECT_EQ(same.body_crc32c, header.body_crc32c);
}

TEST(FrameHeader, EachChangedBitIsRefused) {
  const std::string header = Text(EncodeFrameHeader(SomeHeader()));
  for (size_t bit = 0; bit < 8 * header.size(); ++bit) {
    std::string changed = header;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(DecodeFrameHeader(changed), Not(testing::IsOk())) << "bit " << bit;
  }
}

struct HeadCase {
  const char* name;
  size_t offset;
  std::string bytes;  // put there
  Code code;
  const char* says;
};

class HeadRejects : public ::testing::TestWithParam<HeadCase> {};

TEST_P(HeadRejects, WithCodeAndMessage) {
  std::string header = Text(EncodeFrameHeader(SomeHeader()));
  header.replace(GetParam().offset, GetParam().bytes.size(), GetParam().bytes);
  EXPECT_THAT(DecodeFrameHeader(Mended(header)), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

const HeadCase kHeaderCases[] = {
    {"Magic", 0, "GET ", Code::kInvalidArgument, "not a frame of a tensor channel"},
    {"Version0", 4, std::string(2, '\0'), Code::kInvalidArgument, "version 0"},
    {"Version2", 4, std::string("\2\0", 2), Code::kUnimplemented, "version 2"},
    {"Version65535", 4, "\xff\xff", Code::kUnimplemented, "version 65535"},
    {"Type0", 6, std::string(1, '\0'), Code::kUnimplemented, "unknown type 0"},
    {"Type5", 6, "\5", Code::kUnimplemented, "unknown type 5"},
    {"Flags", 7, "\x80", Code::kUnimplemented, "unknown flags 128"},
    {"Descriptors", 32, "\xfe", Code::kInvalidArgument, "254 descriptors"},
    {"HelloWithData", 6, "\1", Code::kInvalidArgument, "hello or goodbye"},
    {"GoodbyeWithData", 6, "\4", Code::kInvalidArgument, "hello or goodbye"},
};
INSTANTIATE_TEST_SUITE_P(Rows, HeadRejects, ::testing::ValuesIn(kHeaderCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FrameHeader, ALongHelloAndAGoodbyeWithABodyAreRefused) {
  FrameHeader header;
  header.body_bytes = 5000;
  EXPECT_THAT(DecodeFrameHeader(Text(EncodeFrameHeader(header))), StatusIs(Code::kInvalidArgument, HasSubstr("5000")));
  header.type = FrameType::kGoodbye;
  EXPECT_THAT(DecodeFrameHeader(Text(EncodeFrameHeader(header))),
              StatusIs(Code::kInvalidArgument, HasSubstr("has a body")));
}

// ---- Hellos ---------------------------------------------------------------------------------------------------------

TEST(Hello, ComesBack) {
  Hello hello;
  hello.max_message_bytes = uint64_t{1} << 63;
  ASSERT_OK_AND_ASSIGN(const Hello same, DecodeHello(EncodeHello(hello)));
  EXPECT_EQ(same.min_version, 1u);
  EXPECT_EQ(same.max_version, 1u);
  EXPECT_EQ(same.max_message_bytes, uint64_t{1} << 63);
}

TEST(Hello, FieldsOfLaterVersionsArePassedOver) {
  EXPECT_THAT(DecodeHello("\x08\x01\x10\x09\xa0\x06\x05"), testing::IsOk());  // versions 1 to 9, field 100
}

struct BytesCase {
  const char* name;
  std::string bytes;
  Code code;
  const char* says;
};

class HelloRejects : public ::testing::TestWithParam<BytesCase> {};
TEST_P(HelloRejects, WithCodeAndMessage) {
  EXPECT_THAT(DecodeHello(GetParam().bytes), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}
const BytesCase kHelloCases[] = {
    {"Empty", "", Code::kInvalidArgument, "versions 0 to 0"},
    {"Backwards", "\x08\x02\x10\x01", Code::kInvalidArgument, "versions 2 to 1"},
    {"Huge", "\x08\x01\x10\xff\xff\xff\x7f", Code::kInvalidArgument, "versions 1 to"},
    {"Newer", "\x08\x02\x10\x03", Code::kUnimplemented, "reads versions 2 to 3"},
    {"NoMessage", "\x08", Code::kInvalidArgument, ""},
    {"WireType", std::string("\x0d\x01\x00\x00\x00", 5), Code::kInvalidArgument, "min_version"},
};
INSTANTIATE_TEST_SUITE_P(Rows, HelloRejects, ::testing::ValuesIn(kHelloCases),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Bodies ---------------------------------------------------------------------------------------------------------

TensorEntry SharedEntry() {
  TensorEntry entry;
  entry.block = 2;
  entry.dtype = DType::kFloat32;
  entry.shape = TensorShape({3, 4});
  entry.offset_bytes = 64;
  entry.size_bytes = 48;
  entry.extension = "\x0a\x01w";  // name "w"
  return entry;
}

MessageBody SomeBody() {
  MessageBody body;
  body.topic = "predict";
  body.request = 300;
  body.status = absl::NotFoundError("no such model");
  TensorEntry inlined;
  inlined.padding_bytes = 17;
  inlined.message_bytes = 1000;
  body.tensors = {inlined, SharedEntry()};
  return body;
}

TEST(Body, ComesBack) {
  ASSERT_OK_AND_ASSIGN(const MessageBody same, DecodeBody(EncodeBody(SomeBody())));
  EXPECT_EQ(same.topic, "predict");
  EXPECT_EQ(same.request, 300u);
  EXPECT_EQ(same.status, absl::NotFoundError("no such model"));
  ASSERT_EQ(same.tensors.size(), 2u);
  EXPECT_TRUE(same.tensors[0].is_inline());
  EXPECT_EQ(same.tensors[0].padding_bytes, 17u);
  EXPECT_EQ(same.tensors[0].message_bytes, 1000u);
  EXPECT_EQ(same.tensors[1].block, 2u);
  EXPECT_EQ(same.tensors[1].dtype, DType::kFloat32);
  EXPECT_EQ(same.tensors[1].shape, TensorShape({3, 4}));
  EXPECT_EQ(same.tensors[1].offset_bytes, 64u);
  EXPECT_EQ(same.tensors[1].size_bytes, 48u);
  EXPECT_EQ(same.tensors[1].extension, "\x0a\x01w");
}

TEST(Body, AnUnknownStatusCodeIsUnknown) {
  ASSERT_OK_AND_ASSIGN(const MessageBody body, DecodeBody("\x18\x63\x22\x01x"));
  EXPECT_EQ(body.status, absl::UnknownError("x"));
}

// The example in FORMAT.md section 6.
TEST(Body, IsTheExample) {
  MessageBody body;
  body.topic = "t";
  body.tensors = {SharedEntry()};
  body.tensors[0].block = 1;
  EXPECT_EQ(absl::BytesToHexString(EncodeBody(body)),
            "0a0174"
            "2a1d"
            "b80101"
            "c00101"
            "ca010812020803"
            "12020804"
            "d00140"
            "d80130"
            "e201030a0177");
  FrameHeader header;
  header.type = FrameType::kMessage;
  header.sequence = 1;
  header.body_bytes = EncodeBody(body).size();
  header.num_descriptors = 1;
  header.body_crc32c = Crc32c(EncodeBody(body));
  EXPECT_EQ(absl::BytesToHexString(Text(EncodeFrameHeader(header))),
            "5443580a"
            "0100"
            "02"
            "00"
            "0100000000000000"
            "2200000000000000"
            "0000000000000000"
            "01000000"
            "821777b6"
            "85a1c4dc");
}

// A reader that takes the entry of a tensor for a TensorProto must get an error, not zeros.
TEST(Body, TheEntryOfATensorIsNoTensor) {
  MessageBody body;
  body.tensors = {SharedEntry()};
  const std::string bytes = EncodeBody(body);
  const absl::string_view entry = absl::string_view(bytes).substr(2);  // after tag and length
  EXPECT_THAT(DecodeSerializedTensor(entry), Not(testing::IsOk()));
}

TEST(Body, EachPrefixEndsCleanly) {
  const std::string bytes = EncodeBody(SomeBody());
  for (size_t size = 0; size < bytes.size(); ++size) DecodeBody(bytes.substr(0, size)).IgnoreError();
}

TEST(Body, TooManyTensorsAreRefused) {
  std::string bytes;
  for (size_t i = 0; i <= kMaxTensors; ++i) bytes += std::string("\x2a\x00", 2);
  EXPECT_THAT(DecodeBody(bytes), StatusIs(Code::kResourceExhausted, HasSubstr("65536 tensors")));
}

std::string Entry(absl::string_view hex) {
  const std::string bytes = testing::BytesOfHex(hex);
  return std::string("\x2a") + static_cast<char>(bytes.size()) + bytes;
}

class BodyRejects : public ::testing::TestWithParam<BytesCase> {};
TEST_P(BodyRejects, WithCodeAndMessage) {
  EXPECT_THAT(DecodeBody(GetParam().bytes), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}
const BytesCase kBodyCases[] = {
    {"NoMessage", "\xff", Code::kInvalidArgument, ""},
    {"TopicIsANumber", std::string("\x08\x01", 2), Code::kInvalidArgument, "topic"},
    {"TensorsAreANumber", std::string("\x28\x01", 2), Code::kInvalidArgument, "tensors"},
    {"SharedAndInline", Entry("a80101b80101c00101"), Code::kInvalidArgument, "neither"},
    {"BlockWithoutPlace", Entry("b80101"), Code::kInvalidArgument, "neither"},
    {"PlaceWithoutBlock", Entry("d00101"), Code::kInvalidArgument, "neither"},
    {"NoDType", Entry("b80101d00101"), Code::kInvalidArgument, "no dtype"},
    {"Block254", Entry("b801fe01c00101"), Code::kInvalidArgument, "block is 254"},
    {"DType1000", Entry("b80101c001e807"), Code::kUnimplemented, "dtype 1000"},
    {"StringsAreShared", Entry("b80101c00107"), Code::kInvalidArgument, "dtype string"},
    {"DimBelow0", Entry("b80101c00101ca010d120b08ffffffffffffffffff01"), Code::kInvalidArgument, "dim 0 is -1"},
    {"UnknownRank", Entry("b80101c00101ca01021801"), Code::kInvalidArgument, "unknown_rank"},
    {"ShapeIsANumber", Entry("b80101c00101c80101"), Code::kInvalidArgument, "shape"},
    {"DeviceIsNoText", Entry("b80101c00101e201031201ff"), Code::kInvalidArgument, "device"},
};
INSTANTIATE_TEST_SUITE_P(Rows, BodyRejects, ::testing::ValuesIn(kBodyCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FrameHeader, OnlyMessagesHaveDescriptorsOrData) {
  for (const FrameType type : {FrameType::kHello, FrameType::kMessage, FrameType::kReply, FrameType::kGoodbye}) {
    SCOPED_TRACE(static_cast<int>(type));
    const bool may = type == FrameType::kMessage || type == FrameType::kReply;
    FrameHeader header;
    header.type = type;
    EXPECT_OK(DecodeFrameHeader(Text(EncodeFrameHeader(header))));
    header.num_descriptors = 1;
    EXPECT_EQ(DecodeFrameHeader(Text(EncodeFrameHeader(header))).status().code(),
              may ? Code::kOk : Code::kInvalidArgument);
    header.num_descriptors = 0;
    header.inline_bytes = 1;
    EXPECT_EQ(DecodeFrameHeader(Text(EncodeFrameHeader(header))).status().code(),
              may ? Code::kOk : Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tensorcask::exchange
