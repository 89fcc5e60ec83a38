#include "tensorcask/serialize/protowire/wire_reader.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/proto/tensor_shape.pb.h"
#include "tensorcask/proto/tensor_slice.pb.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tests/serialize/wire/quiet_protobuf.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using testing::Fixed32Field;
using testing::Fixed64Field;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::Tag;
using testing::Varint;
using testing::VarintField;
using Code = absl::StatusCode;

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

// The status after all fields of `message` have been read.
absl::Status ReadAll(absl::string_view message, int max_depth = 64) {
  WireReader reader(message, max_depth);
  WireReader::Field field;
  while (reader.Next(&field)) {
  }
  return reader.status();
}

TEST(WireReader, ReadsEachType) {
  const std::string message = VarintField(1, 300) + Fixed64Field(2, 0x0102030405060708) + BytesField(3, "abc") +
                              Tag(4, 3) + VarintField(9, 1) + Tag(4, 4) + Fixed32Field(5, 0xdeadbeef) +
                              VarintField(536870911, ~uint64_t{0});
  WireReader reader(message);
  WireReader::Field field;
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 1);
  EXPECT_EQ(field.type, WireType::kVarint);
  EXPECT_EQ(field.value, 300);
  EXPECT_EQ(field.position, 0);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kFixed64);
  EXPECT_EQ(field.value, 0x0102030405060708);
  EXPECT_EQ(field.position, 3);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kBytes);
  EXPECT_EQ(field.bytes, "abc");
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kGroup);
  EXPECT_EQ(field.bytes, VarintField(9, 1));
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kFixed32);
  EXPECT_EQ(field.value, 0xdeadbeef);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 536870911);
  EXPECT_EQ(field.value, ~uint64_t{0});
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_OK(reader.status());
}

struct RefusedCase {
  const char* name;
  std::string message;
  const char* says;
};
class WireReaderRefuses : public ::testing::TestWithParam<RefusedCase> {};
TEST_P(WireReaderRefuses, WithCodeAndMessage) {
  EXPECT_THAT(ReadAll(GetParam().message), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  WireReader reader(GetParam().message);
  WireReader::Field field;
  while (reader.Next(&field)) {
  }
  EXPECT_FALSE(reader.Next(&field)) << "an error is final";
  TensorShapeProto shape;  // any message: nothing here is a field of it
  EXPECT_FALSE(shape.ParseFromString(GetParam().message)) << "protobuf takes it";
}
const RefusedCase kRefused[] = {
    {"ElevenByteVarint", Bytes({0x48}) + std::string(10, '\x80') + Bytes({1}), "longer than 10 bytes at byte 1"},
    {"CutVarint", Bytes({0x48, 0x80}), "a varint that is cut short"},
    {"NoValue", Bytes({0x48}), "a varint that is cut short"},
    {"CutTag", Bytes({0x80}), "a tag that is cut short"},
    {"SixByteTag", Bytes({0xc8, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00}), "longer than 5 bytes"},
    {"ZeroTag", Bytes({0x00}), "field number 0 at byte 0"},
    {"TrailingZeros", VarintField(9, 1) + Bytes({0, 0}), "field number 0 at byte 2"},
    {"FieldZeroBytes", Bytes({0x02, 0x00}), "field number 0"},
    {"WireType6", Tag(9, 6) + Bytes({0, 0, 0, 0, 0, 0, 0, 0}), "wire type 6"},
    {"WireType7", Tag(9, 7) + Bytes({0, 0, 0, 0, 0, 0, 0, 0}), "wire type 7"},
    {"CutFixed32", Tag(9, 5) + Bytes({1, 2, 3}), "a 32-bit number that is cut short"},
    {"CutFixed64", Tag(9, 1) + Bytes({1, 2, 3, 4, 5, 6, 7}), "a 64-bit number that is cut short"},
    {"LengthPastEnd", Tag(9, 2) + Varint(4) + "abc", "a length of 4 with only 3 bytes left at byte 1"},
    {"Length2To31", Tag(9, 2) + Varint(uint64_t{1} << 31) + "abc", "a length of 2147483648"},
    {"Length2To32Plus1", Tag(9, 2) + Varint((uint64_t{1} << 32) + 1) + "a", "a length of 4294967297"},
    {"Length2To63", Tag(9, 2) + Varint(uint64_t{1} << 63), "a length of 9223372036854775808"},
    {"Length2To64Minus1", Tag(9, 2) + Varint(~uint64_t{0}), "a length of 18446744073709551615"},
    {"OverlongLength", Tag(9, 2) + Bytes({0x81, 0x80, 0x80, 0x80, 0x80, 0x00}) + "a", "longer than it needs to be"},
    {"StrayEndOfGroup", Tag(9, 4), "the end of a group that was not started"},
    {"MismatchedGroup", Tag(9, 3) + Tag(10, 4), "the end of group 10 inside group 9"},
    {"UnclosedGroup", Tag(9, 3) + VarintField(1, 1), "no end of group 9"},
    {"CrossedGroups", Tag(9, 3) + Tag(10, 3) + Tag(9, 4) + Tag(10, 4), "the end of group 9 inside group 10"},
    {"BadInsideGroup", Tag(9, 3) + Tag(1, 6) + Tag(9, 4), "wire type 6"},
    {"LengthPastEndInGroup", Tag(9, 3) + Tag(1, 2) + Varint(100) + Tag(9, 4), "a length of 100"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, WireReaderRefuses, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(WireReader, TakesOverlongValues) {
  // 1 in ten bytes; a tag in five; a length in five.
  const std::string message = Tag(9, 0) + Bytes({0x81}) + std::string(8, '\x80') + Bytes({0}) +
                              Bytes({0xc8, 0x80, 0x80, 0x80, 0x00, 5}) + Tag(9, 2) +
                              Bytes({0x81, 0x80, 0x80, 0x80, 0x00}) + "a";
  EXPECT_OK(ReadAll(message));
  EXPECT_TRUE(TensorShapeProto().ParseFromString(message));
}

// Fields with tags, varints and lengths of one byte take another way through the reader than all others.
TEST(WireReader, ReadsEveryLength) {
  for (const uint32_t number : {1U, 15U, 16U, 2047U, 2048U}) {
    std::string message;
    std::vector<uint64_t> values;
    for (int bits = 0; bits < 64; ++bits) {
      for (const uint64_t value : {uint64_t{1} << bits, (uint64_t{1} << bits) - 1}) values.push_back(value);
    }
    for (const uint64_t value : values) message += VarintField(number, value);
    const std::vector<size_t> lengths = {0, 1, 126, 127, 128, 129, 16383, 16384};
    for (const size_t length : lengths) message += BytesField(number, std::string(length, 'x'));
    message += Fixed32Field(number, 0x80ff7f01U);
    WireReader reader(message);
    WireReader::Field field;
    for (const uint64_t value : values) {
      ASSERT_TRUE(reader.Next(&field));
      EXPECT_EQ(field.number, number);
      EXPECT_EQ(field.type, WireType::kVarint);
      EXPECT_EQ(field.value, value);
      EXPECT_TRUE(field.bytes.empty());
    }
    for (const size_t length : lengths) {
      ASSERT_TRUE(reader.Next(&field));
      EXPECT_EQ(field.type, WireType::kBytes);
      EXPECT_EQ(field.bytes, std::string(length, 'x'));
      EXPECT_EQ(field.value, 0u);
    }
    ASSERT_TRUE(reader.Next(&field));
    EXPECT_EQ(field.type, WireType::kFixed32);
    EXPECT_EQ(field.value, 0x80ff7f01U);
    EXPECT_FALSE(reader.Next(&field));
    EXPECT_OK(reader.status());
    // Cut anywhere: an error, and no field after it.
    for (size_t size = message.size() - 200; size < message.size(); ++size) {
      WireReader cut(absl::string_view(message).substr(0, size));
      while (cut.Next(&field)) {
      }
      EXPECT_FALSE(cut.Next(&field));
    }
  }
}

TEST(WireReader, DropsBitsPastThe64th) {
  absl::string_view bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f rest", 15);
  uint64_t value = 0;
  ASSERT_TRUE(ParseVarint(&bytes, &value));
  EXPECT_EQ(value, ~uint64_t{0});
  EXPECT_EQ(bytes, " rest");
}

TEST(WireReader, GroupsNestToTheLimit) {
  const auto nested = [](int depth) {
    std::string message;
    for (int i = 0; i < depth; ++i) message += Tag(9, 3);
    for (int i = 0; i < depth; ++i) message += Tag(9, 4);
    return message;
  };
  EXPECT_OK(ReadAll(nested(64)));
  EXPECT_THAT(ReadAll(nested(65)), StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_depth, 64 here")));
  EXPECT_THAT(ReadAll(nested(100000)), StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_depth, 64 here")));
  EXPECT_OK(ReadAll(nested(3), 3));
  EXPECT_THAT(ReadAll(nested(1), 0), StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_depth, 0 here")));
}

TEST(WireWriter, VarintsHaveTheirMeasuredSize) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {(uint64_t{1} << bit) - 1, uint64_t{1} << bit, ~uint64_t{0} >> bit}) {
      char buffer[16];
      const size_t size = static_cast<size_t>(WriteVarint(value, buffer) - buffer);
      EXPECT_EQ(size, VarintSize(value)) << value;
      EXPECT_EQ(std::string(buffer, size), Varint(value));
      absl::string_view bytes(buffer, size);
      uint64_t back = 0;
      EXPECT_TRUE(ParseVarint(&bytes, &back));
      EXPECT_EQ(back, value);
    }
  }
}

TEST(WireRules, Utf8AsProtobuf) {
  // Every string of one and two bytes; of three and four with each leading byte and the bytes at the borders. Protobuf
  // does not parse a message whose text is not UTF-8.
  const testing::QuietProtobuf quiet;
  TensorShapeProto::Dim dim;
  const auto same = [&dim](const std::string& text) {
    return internal::IsUtf8(text) == dim.ParseFromString(BytesField(TensorShapeProto::Dim::kNameFieldNumber, text));
  };
  for (int a = 0; a < 256; ++a) {
    ASSERT_TRUE(same(Bytes({a})));
    for (int b = 0; b < 256; ++b) {
      ASSERT_TRUE(same(Bytes({a, b}))) << a << " " << b;
    }
    for (const int b : {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff}) {
      for (const int c : {0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xff}) {
        ASSERT_TRUE(same(Bytes({a, b, c}))) << a << " " << b << " " << c;
        for (const int d : {0x00, 0x7f, 0x80, 0xbf, 0xc0}) {
          ASSERT_TRUE(same(Bytes({a, b, c, d}))) << a << " " << b << " " << c << " " << d;
        }
      }
    }
  }
}

TEST(WireRules, EveryRuleIsAFieldOfTheMessage) {
  const auto compare = [](const google::protobuf::Descriptor* descriptor, const internal::MessageRules& rules) {
    EXPECT_EQ(rules.fields.size(), static_cast<size_t>(descriptor->field_count())) << descriptor->full_name();
    for (const internal::FieldRule& rule : rules.fields) {
      const google::protobuf::FieldDescriptor* field = descriptor->FindFieldByNumber(static_cast<int>(rule.number));
      ASSERT_NE(field, nullptr) << rule.name;
      EXPECT_EQ(field->name(), rule.name);
      using Field = google::protobuf::FieldDescriptor;
      using Kind = internal::FieldRule::Kind;
      const bool packed = field->is_packed();
      Kind kind = packed ? Kind::kPackedVarint : Kind::kVarint;
      switch (field->type()) {
        case Field::TYPE_MESSAGE:
          kind = Kind::kMessage;
          break;
        case Field::TYPE_BYTES:
          kind = Kind::kBytes;
          break;
        case Field::TYPE_STRING:
          kind = Kind::kUtf8;
          break;
        case Field::TYPE_FLOAT:
          kind = Kind::kPackedFixed32;
          break;
        case Field::TYPE_DOUBLE:
          kind = Kind::kPackedFixed64;
          break;
        case Field::TYPE_FIXED32:
          kind = Kind::kFixed32;
          break;
        default:
          break;
      }
      EXPECT_EQ(rule.kind, kind) << rule.name;
    }
  };
  compare(TensorProto::descriptor(), internal::kTensorRules);
  compare(TensorShapeProto::descriptor(), internal::kShapeRules);
  compare(TensorShapeProto::Dim::descriptor(), internal::kDimRules);
  compare(TensorSliceProto::descriptor(), internal::kSliceRules);
  compare(TensorSliceProto::Extent::descriptor(), internal::kExtentRules);
  compare(TensorExtension::descriptor(), internal::kExtensionRules);
  compare(TensorExtension::Attribute::descriptor(), internal::kAttributeRules);
  compare(ResourceHandleProto::descriptor(), internal::kResourceRules);
  compare(ResourceHandleProto::DtypeAndShape::descriptor(), internal::kDtypeAndShapeRules);
  compare(VariantTensorDataProto::descriptor(), internal::kVariantRules);
}

}  // namespace
}  // namespace tensorcask
