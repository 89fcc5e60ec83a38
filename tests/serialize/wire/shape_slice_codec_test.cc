#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using ::testing::HasSubstr;
using testing::Lenient;
using testing::StatusIs;
using testing::VarintField;
using Code = absl::StatusCode;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(ShapeCodec, RoundTrips) {
  TensorShape all_ones;
  for (int i = 0; i < TensorShape::kMaxRank; ++i) ASSERT_OK(all_ones.AddDim(1));
  for (const TensorShape& shape :
       {TensorShape(), TensorShape({0}), TensorShape({2, 3}), TensorShape({0, int64_t{1} << 62}), all_ones}) {
    TensorShapeProto proto = Parse<TensorShapeProto>("dim { size: 9 } unknown_rank: true");
    EncodeShape(shape, &proto);
    ASSERT_OK_AND_ASSIGN(const TensorShape decoded, DecodeShape(proto));
    EXPECT_EQ(decoded, shape);
  }
}

TEST(ShapeCodec, WritesTensorFlowsBytes) {
  TensorShapeProto proto;
  EncodeShape(TensorShape({2, 0, 300}), &proto);
  EXPECT_EQ(proto.SerializeAsString(), std::string("\x12\x02\x08\x02\x12\x00\x12\x03\x08\xac\x02", 11));
}

TEST(ShapeCodec, DropsNames) {
  ASSERT_OK_AND_ASSIGN(const TensorShape shape,
                       DecodeShape(Parse<TensorShapeProto>("dim { size: 2 name: 'batch' } dim { name: 'none' }")));
  EXPECT_EQ(shape, TensorShape({2, 0}));
}

struct ShapeCase {
  const char* name;
  const char* text;
  const char* says;
};
class ShapeRefused : public ::testing::TestWithParam<ShapeCase> {};
TEST_P(ShapeRefused, WithCodeAndMessage) {
  EXPECT_THAT(DecodeShape(Parse<TensorShapeProto>(GetParam().text)),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
const ShapeCase kRefusedShapes[] = {
    {"SH01_MinusOne", "dim { size: 2 } dim { size: -1 }", "-1"},
    {"SH02_ProductOfNegatives", "dim { size: -2 } dim { size: -3 }", "-2"},
    {"SH03_Int64Min", "dim { size: -9223372036854775808 }", "-9223372036854775808"},
    {"SH04_ProductWraps", "dim { size: 4294967296 } dim { size: 4294967296 }", "4294967296"},
    {"SH09_UnknownRank", "unknown_rank: true", "unknown_rank"},
    {"SH09_UnknownRankAndDims", "unknown_rank: true dim { size: 2 }", "unknown_rank"},
    {"SH11_ZeroLast", "dim { size: 4611686018427387904 } dim { size: 8 } dim { size: 0 }", "4611686018427387904"},
    {"SH11_ZeroFirst", "dim { size: 0 } dim { size: 4611686018427387904 } dim { size: 8 }", "4611686018427387904"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, ShapeRefused, ::testing::ValuesIn(kRefusedShapes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ShapeCodec, RefusesMoreThan254Dims) {
  TensorShapeProto proto;
  for (int i = 0; i < 255; ++i) proto.add_dim()->set_size(1);
  EXPECT_THAT(DecodeShape(proto), StatusIs(Code::kInvalidArgument, HasSubstr("255 dims; a tensor has at most 254")));
  for (int i = 255; i < 10000; ++i) proto.add_dim()->set_size(1);
  EXPECT_THAT(DecodeShape(proto), StatusIs(Code::kInvalidArgument, HasSubstr("10000 dims")));
}

TEST(ShapeCodec, LenientIgnoresUnknownRank) {
  ASSERT_OK_AND_ASSIGN(const TensorShape shape,
                       DecodeShape(Parse<TensorShapeProto>("unknown_rank: true dim { size: 7 }"), Lenient()));
  EXPECT_EQ(shape, TensorShape({7}));
}

TEST(ShapeCodec, RefusesWrongWireTypes) {
  TensorShapeProto proto;
  ASSERT_TRUE(proto.ParseFromString(VarintField(2, 1)));
  EXPECT_THAT(DecodeShape(proto), StatusIs(Code::kInvalidArgument, HasSubstr("dim came with a wrong wire type")));
  ASSERT_TRUE(proto.ParseFromString(BytesField(2, BytesField(1, "x"))));
  EXPECT_THAT(DecodeShape(proto), StatusIs(Code::kInvalidArgument, HasSubstr("size came with a wrong wire type")));
  ASSERT_TRUE(proto.ParseFromString(VarintField(1, 1)));
  EXPECT_OK(DecodeShape(proto)) << "an unknown field";
}

TEST(PartialShapeCodec, RoundTrips) {
  for (const PartialTensorShape& shape :
       {PartialTensorShape(), PartialTensorShape({}), PartialTensorShape({-1}), PartialTensorShape({-1, 0, 3}),
        PartialTensorShape(TensorShape({2, 3})), PartialTensorShape({-1, int64_t{1} << 62})}) {
    TensorShapeProto proto = Parse<TensorShapeProto>("dim { size: 9 } unknown_rank: true");
    EncodeShape(shape, &proto);
    ASSERT_OK_AND_ASSIGN(const PartialTensorShape decoded, DecodePartialShape(proto));
    EXPECT_EQ(decoded, shape);
    EXPECT_EQ(decoded.has_rank(), shape.has_rank());
  }
}

TEST(PartialShapeCodec, WritesTensorFlowsBytes) {
  TensorShapeProto proto;
  EncodeShape(PartialTensorShape({-1, 2}), &proto);
  EXPECT_EQ(proto.SerializeAsString(),
            std::string("\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02\x08\x02", 17));
  EncodeShape(PartialTensorShape(), &proto);
  EXPECT_EQ(proto.SerializeAsString(), "\x18\x01");
  EncodeShape(PartialTensorShape({}), &proto);
  EXPECT_EQ(proto.SerializeAsString(), "") << "a scalar, whose rank is known";
}

TEST(PartialShapeCodec, DropsNames) {
  ASSERT_OK_AND_ASSIGN(const PartialTensorShape shape,
                       DecodePartialShape(Parse<TensorShapeProto>("dim { size: -1 name: 'batch' } dim { size: 3 }")));
  EXPECT_EQ(shape, PartialTensorShape({-1, 3}));
}

class PartialShapeRefused : public ::testing::TestWithParam<ShapeCase> {};
TEST_P(PartialShapeRefused, WithCodeAndMessage) {
  EXPECT_THAT(DecodePartialShape(Parse<TensorShapeProto>(GetParam().text)),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
const ShapeCase kRefusedPartialShapes[] = {
    {"MinusTwo", "dim { size: -1 } dim { size: -2 }", "-2"},
    {"Int64Min", "dim { size: -9223372036854775808 }", "-9223372036854775808"},
    {"ProductWraps", "dim { size: 4294967296 } dim { size: -1 } dim { size: 4294967296 }", "4294967296"},
    {"UnknownRankAndDims", "unknown_rank: true dim { size: 2 }", "says unknown_rank and has 1 dims"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, PartialShapeRefused, ::testing::ValuesIn(kRefusedPartialShapes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PartialShapeCodec, RefusesMoreThan254DimsAndWrongWireTypes) {
  TensorShapeProto proto;
  for (int i = 0; i < 255; ++i) proto.add_dim()->set_size(-1);
  EXPECT_THAT(DecodePartialShape(proto),
              StatusIs(Code::kInvalidArgument, HasSubstr("255 dims; a tensor has at most 254")));
  ASSERT_TRUE(proto.ParseFromString(VarintField(2, 1)));
  EXPECT_THAT(DecodePartialShape(proto),
              StatusIs(Code::kInvalidArgument, HasSubstr("dim came with a wrong wire type")));
}

TEST(SliceCodec, RoundTrips) {
  for (const char* text : {"", "-", "-:0,10:14,1", "3,4:-:-"}) {
    ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Parse(text));
    TensorSliceProto proto = Parse<TensorSliceProto>("extent { start: 5 length: 5 }");
    EncodeSlice(slice, &proto);
    ASSERT_OK_AND_ASSIGN(const TensorSlice decoded, DecodeSlice(proto));
    EXPECT_EQ(decoded, slice) << text;
  }
}

TEST(SliceCodec, WritesTensorFlowsBytes) {
  TensorSliceProto proto;
  EncodeSlice(*TensorSlice::Parse("-:0,10:14,1"), &proto);
  EXPECT_EQ(proto.SerializeAsString(), std::string("\x0a\x00\x0a\x02\x10\x0a\x0a\x04\x08\x0e\x10\x01", 12));
}

TEST(SliceCodec, LengthMinusOneIsFull) {
  ASSERT_OK_AND_ASSIGN(const TensorSlice slice,
                       DecodeSlice(Parse<TensorSliceProto>("extent { length: -1 } extent { }")));
  EXPECT_TRUE(slice.IsFull());
}

class SliceRefused : public ::testing::TestWithParam<ShapeCase> {};
TEST_P(SliceRefused, WithCodeAndMessage) {
  EXPECT_THAT(DecodeSlice(Parse<TensorSliceProto>(GetParam().text)),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
const ShapeCase kRefusedSlices[] = {
    {"SL05_Wraps", "extent { start: 9223372036854775807 length: 2 }", "9223372036854775807"},
    {"SL06_NegativeStart", "extent { } extent { start: -1 length: 2 }", "-1"},
    {"SL06_NegativeLength", "extent { start: 0 length: -2 }", "-2"},
    {"SL08_LengthZero", "extent { start: 1 length: 0 }", "0"},
    {"StartWithoutLength", "extent { start: 3 }", "3"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, SliceRefused, ::testing::ValuesIn(kRefusedSlices),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SliceCodec, RefusesWrongWireTypesAndTooManyAxes) {
  TensorSliceProto proto;
  ASSERT_TRUE(proto.ParseFromString(VarintField(1, 1)));
  EXPECT_THAT(DecodeSlice(proto), StatusIs(Code::kInvalidArgument, HasSubstr("extent came with a wrong wire type")));
  ASSERT_TRUE(proto.ParseFromString(BytesField(1, "") + BytesField(1, BytesField(2, "x"))));
  EXPECT_THAT(DecodeSlice(proto),
              StatusIs(Code::kInvalidArgument, HasSubstr("extent 1: length came with a wrong wire type")));
  proto.Clear();
  for (int i = 0; i < 255; ++i) proto.add_extent();
  EXPECT_THAT(DecodeSlice(proto), StatusIs(Code::kInvalidArgument, HasSubstr("255 extents")));
}

}  // namespace
}  // namespace tensorcask
