// What a TensorProto means: the fill rules, protobuf's rules of merging, the forms, and every malformed message of the
// catalogue. Each message goes through both front ends.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using testing::DecodeBothWays;
using testing::Fixed32Field;
using testing::Fixed64Field;
using testing::FromText;
using ::testing::HasSubstr;
using testing::Lenient;
using testing::ShapeField;
using testing::StatusIs;
using testing::Tag;
using testing::Varint;
using testing::VarintField;
using Code = absl::StatusCode;

// ---- Messages that mean something -----------------------------------------------------------------------------------

struct AcceptCase {
  const char* name;
  const char* text;
  const char* wanted;  // as Tensor::ToString says it
  bool lenient = false;
};
class Accepts : public ::testing::TestWithParam<AcceptCase> {};
TEST_P(Accepts, WithTheElements) {
  const std::string message = FromText(GetParam().text).SerializeAsString();
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(message, GetParam().lenient ? Lenient() : DecodeOptions()));
  EXPECT_EQ(tensor.ToString(), GetParam().wanted);
  // Lenient never changes what is taken anyway.
  ASSERT_OK_AND_ASSIGN(const Tensor again, DecodeBothWays(message, Lenient()));
  EXPECT_EQ(again.ToString(), GetParam().wanted);
}

#define SHAPE3 " tensor_shape { dim { size: 3 } } "
const AcceptCase kFill[] = {
    {"FloatAbsent", "dtype: DT_FLOAT" SHAPE3, "float32 [3]: [0 0 0]"},
    {"FloatOne", "dtype: DT_FLOAT" SHAPE3 "float_val: 1.5", "float32 [3]: [1.5 1.5 1.5]"},
    {"FloatShort", "dtype: DT_FLOAT" SHAPE3 "float_val: [1, 2]", "float32 [3]: [1 2 2]"},
    {"FloatAll", "dtype: DT_FLOAT" SHAPE3 "float_val: [1, 2, 3]", "float32 [3]: [1 2 3]"},
    {"Double", "dtype: DT_DOUBLE" SHAPE3 "double_val: [1, 2]", "float64 [3]: [1 2 2]"},
    {"Int32", "dtype: DT_INT32" SHAPE3 "int_val: [1, -2]", "int32 [3]: [1 -2 -2]"},
    {"Uint8", "dtype: DT_UINT8" SHAPE3 "int_val: [1, 255]", "uint8 [3]: [1 255 255]"},
    {"Int16", "dtype: DT_INT16" SHAPE3 "int_val: [1, -32768]", "int16 [3]: [1 -32768 -32768]"},
    {"Int8", "dtype: DT_INT8" SHAPE3 "int_val: [1, -128]", "int8 [3]: [1 -128 -128]"},
    {"Uint16", "dtype: DT_UINT16" SHAPE3 "int_val: [1, 65535]", "uint16 [3]: [1 65535 65535]"},
    {"Int64", "dtype: DT_INT64" SHAPE3 "int64_val: [1, -2]", "int64 [3]: [1 -2 -2]"},
    {"Bool", "dtype: DT_BOOL" SHAPE3 "bool_val: [false, true]", "bool [3]: [false true true]"},
    {"BoolAbsent", "dtype: DT_BOOL" SHAPE3, "bool [3]: [false false false]"},
    {"Uint32", "dtype: DT_UINT32" SHAPE3 "uint32_val: [1, 4294967295]", "uint32 [3]: [1 4294967295 4294967295]"},
    {"Uint64", "dtype: DT_UINT64" SHAPE3 "uint64_val: [18446744073709551615]",
     "uint64 [3]: [18446744073709551615 18446744073709551615 18446744073709551615]"},
    {"Half", "dtype: DT_HALF" SHAPE3 "half_val: [15360, 16384]", "float16 [3]: [1 2 2]"},
    {"Bfloat16", "dtype: DT_BFLOAT16" SHAPE3 "half_val: [16256, 49024]", "bfloat16 [3]: [1 -1 -1]"},
    {"Float8", "dtype: DT_FLOAT8_E5M2" SHAPE3 "float8_val: '\\x3c\\x40'", "float8_e5m2 [3]: [1 2 2]"},
    {"Int4", "dtype: DT_INT4" SHAPE3 "int_val: [7, -8]", "int4 [3]: [7 -8 -8]"},
    {"Uint2", "dtype: DT_UINT2" SHAPE3 "int_val: [0, 3]", "uint2 [3]: [0 3 3]"},
    {"Qint32", "dtype: DT_QINT32" SHAPE3 "int_val: [5]", "qint32 [3]: [5 5 5]"},
    {"StringAbsent", "dtype: DT_STRING" SHAPE3, "string [3]: [\"\" \"\" \"\"]"},
    {"StringShort", "dtype: DT_STRING" SHAPE3 "string_val: ['a', 'bc']", "string [3]: [\"a\" \"bc\" \"bc\"]"},
    {"StringContent", "dtype: DT_STRING" SHAPE3 "tensor_content: '\\x01\\x00\\x02abc'",
     "string [3]: [\"a\" \"\" \"bc\"]"},
    {"Scalar", "dtype: DT_INT32 int_val: 7", "int32 []: 7"},
    {"ScalarAbsent", "dtype: DT_INT32", "int32 []: 0"},
    {"Content", "dtype: DT_INT16" SHAPE3 "tensor_content: '\\x01\\x00\\x02\\x00\\xff\\xff'", "int16 [3]: [1 2 -1]"},
    {"ContentWinsOverValues", "dtype: DT_UINT8" SHAPE3 "tensor_content: 'abc' int_val: [1, 2, 3, 4, 5]",
     "uint8 [3]: [97 98 99]"},
    {"Int4Content", "dtype: DT_INT4" SHAPE3 "tensor_content: '\\x0f\\xff\\x08'", "int4 [3]: [-1 -1 -8]"},
    {"Uint4ContentHighBits", "dtype: DT_UINT4" SHAPE3 "tensor_content: '\\x0f\\xff\\x18'", "uint4 [3]: [15 15 8]"},
    {"NoElements", "dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 5 } }", "float32 [0,5]: []"},
    {"SH10_HugeAndEmpty", "dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 4611686018427387904 } }",
     "float32 [0,4611686018427387904]: []"},
    {"DimNames", "dtype: DT_FLOAT tensor_shape { dim { size: 1 name: 'x' } } float_val: 4", "float32 [1]: [4]"},
    {"VersionNumber", "dtype: DT_FLOAT version_number: 9 float_val: 4", "float32 []: 4"},
    {"Metadata",
     "dtype: DT_INT8 int_val: 4 extension { name: 'w\\xff' device: 'cuda:0' requires_grad: true "
     "attributes { key: 'k' value: 'v' } }",
     "int8 []: 4"},
    {"TP17_BinaryStrings", "dtype: DT_STRING string_val: '\\x00\\xff\\n'", "string []: \"\\x00\\xff\\n\""},
};
INSTANTIATE_TEST_SUITE_P(Fill, Accepts, ::testing::ValuesIn(kFill),
                         [](const auto& info) { return std::string(info.param.name); });

// A message that is refused, and what TensorFlow makes of it.
struct LenientCase {
  const char* name;
  const char* text;
  const char* says;    // when it is refused
  const char* wanted;  // when lenient
};
class OnlyLenient : public ::testing::TestWithParam<LenientCase> {};
TEST_P(OnlyLenient, AcceptsWhatTensorFlowTakes) {
  const std::string message = FromText(GetParam().text).SerializeAsString();
  EXPECT_THAT(DecodeBothWays(message), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(message, Lenient()));
  EXPECT_EQ(tensor.ToString(), GetParam().wanted);
}
const LenientCase kLenient[] = {
    {"TP06_MoreValues", "dtype: DT_FLOAT" SHAPE3 "float_val: [1, 2, 3, 4]",
     "float_val has 4 values; float32 [3] has room for 3", "float32 [3]: [1 2 3]"},
    {"TP06_MoreBytes", "dtype: DT_FLOAT8_E5M2 float8_val: '\\x3c\\x40'", "float8_val has 2 values",
     "float8_e5m2 []: 1"},
    {"TP06_MoreNarrow", "dtype: DT_INT8 int_val: [1, 2]", "int_val has 2 values; int8 [] has room for 1", "int8 []: 1"},
    {"TP06_MoreStrings", "dtype: DT_STRING string_val: ['a', 'b']", "string_val has 2 values; string [] has room for 1",
     "string []: \"a\""},
    {"ValuesWithoutElements", "dtype: DT_FLOAT tensor_shape { dim { } } float_val: 1", "float32 [0] has room for 0",
     "float32 [0]: []"},
    {"ContentWithoutElements", "dtype: DT_FLOAT tensor_shape { dim { } } tensor_content: 'abcd'",
     "tensor_content has 4 bytes; float32 [0] needs 0", "float32 [0]: []"},
    {"StringContentWithoutElements", "dtype: DT_STRING tensor_shape { dim { } } tensor_content: 'abcd'",
     "tensor_content has 4 bytes; string [0] needs 0", "string [0]: []"},
    {"TP10_HalfTooLarge", "dtype: DT_HALF half_val: 80896", "half_val[0] is 80896, which does not fit float16",
     "float16 []: 1"},
    {"TP10_HalfNegative", "dtype: DT_BFLOAT16 half_val: [-16512]", "half_val[0] is -16512, which does not fit bfloat16",
     "bfloat16 []: -1"},
    {"TP11_Int8", "dtype: DT_INT8" SHAPE3 "int_val: [1, 2, 300]", "int_val[2] is 300, which does not fit int8",
     "int8 [3]: [1 2 44]"},
    {"TP11_Uint8", "dtype: DT_UINT8 int_val: -1", "int_val[0] is -1, which does not fit uint8", "uint8 []: 255"},
    {"TP11_Int16", "dtype: DT_INT16 int_val: 70000", "int_val[0] is 70000, which does not fit int16", "int16 []: 4464"},
    {"TP11_Int4", "dtype: DT_INT4 int_val: 8", "int_val[0] is 8, which does not fit int4", "int4 []: -8"},
    {"TP11_Uint2", "dtype: DT_UINT2 int_val: 4", "int_val[0] is 4, which does not fit uint2", "uint2 []: 0"},
    {"TP12_WrongList", "dtype: DT_INT32 float_val: 5", "float_val has 1 values; the values of int32 belong in int_val",
     "int32 []: 0"},
    {"TP12_WrongListBesideContent", "dtype: DT_UINT8 tensor_content: 'a' half_val: 5", "half_val has 1 values",
     "uint8 []: 97"},
    {"TP12_ResourceList", "dtype: DT_INT32 resource_handle_val { name: 'x' }", "resource_handle_val has 1 values",
     "int32 []: 0"},
    {"TP12_VariantList", "dtype: DT_INT32 variant_val { tensors { int_val: 1 } }", "variant_val has 1 values",
     "int32 []: 0"},
    {"TP14_OddComplex", "dtype: DT_COMPLEX64 scomplex_val: [1, 2, 3]",
     "scomplex_val has 3 values; complex64 needs two per element", "complex64 []: 1+2j"},
    {"TP14_OneComplex", "dtype: DT_COMPLEX128 dcomplex_val: 1", "dcomplex_val has 1 values", "complex128 []: 0+0j"},
    {"SH09_UnknownRank", "dtype: DT_FLOAT tensor_shape { unknown_rank: true }", "unknown_rank", "float32 []: 0"},
    {"SH09_UnknownRankAndDims", "dtype: DT_FLOAT tensor_shape { unknown_rank: true dim { size: 1 } }", "unknown_rank",
     "float32 [1]: [0]"},
};
INSTANTIATE_TEST_SUITE_P(TensorFlow, OnlyLenient, ::testing::ValuesIn(kLenient),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Decode, ComplexFillsWithTheLastPair) {
  ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      DecodeBothWays(FromText("dtype: DT_COMPLEX64" SHAPE3 "scomplex_val: [1, 2, 3, 4]").SerializeAsString()));
  const float wanted[] = {1, 2, 3, 4, 3, 4};
  EXPECT_EQ(tensor.bytes(), absl::string_view(reinterpret_cast<const char*>(wanted), sizeof(wanted)));
}

// ---- Messages that mean nothing -------------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  const char* text;
  Code code;
  const char* says;
};
class Rejects : public ::testing::TestWithParam<RejectCase> {};
TEST_P(Rejects, WithCodeAndMessage) {
  const std::string message = FromText(GetParam().text).SerializeAsString();
  EXPECT_THAT(DecodeBothWays(message), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(DecodeBothWays(message, Lenient()), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(DecodeTensor(FromText(GetParam().text)), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}
#define SHAPE22 " tensor_shape { dim { size: 2 } dim { size: 2 } } "
#define DIM(size) " tensor_shape { dim { size: " #size " } } "
const RejectCase kMalformed[] = {
    {"SH01_MinusOne", "dtype: DT_FLOAT" DIM(-1), Code::kInvalidArgument, "tensor_shape: "},
    {"SH02_ProductOfNegatives", "dtype: DT_FLOAT tensor_shape { dim { size: -2 } dim { size: -3 } }",
     Code::kInvalidArgument, "-2"},
    {"SH03_Int64Min", "dtype: DT_FLOAT" DIM(-9223372036854775808), Code::kInvalidArgument, "-9223372036854775808"},
    {"SH04_ProductWraps", "dtype: DT_INT8 tensor_shape { dim { size: 4294967296 } dim { size: 4294967296 } }",
     Code::kInvalidArgument, "4294967296"},
    {"SH05_BytesWrap", "dtype: DT_FLOAT" DIM(4611686018427387907), Code::kResourceExhausted, "max_message_bytes"},
    {"SH05_BytesWrapWithContent", "dtype: DT_FLOAT tensor_content: 'twelve bytes'" DIM(4611686018427387907),
     Code::kInvalidArgument, "tensor_content has 12 bytes; float32 [4611686018427387907] needs more than 2^63"},
    {"SH06_LargestDim", "dtype: DT_INT8" DIM(9223372036854775807), Code::kResourceExhausted, "max_message_bytes"},
    {"SH11_PartialProduct",
     "dtype: DT_INT8 tensor_shape { dim { size: 0 } dim { size: 4611686018427387904 } dim { size: 8 } }",
     Code::kInvalidArgument, "4611686018427387904"},
    {"TP01_ContentShort", "dtype: DT_FLOAT tensor_content: '123456789012345'" SHAPE22, Code::kInvalidArgument,
     "tensor_content has 15 bytes; float32 [2,2] needs 16"},
    {"TP01_ContentLong", "dtype: DT_FLOAT tensor_content: '12345678901234567'" SHAPE22, Code::kInvalidArgument,
     "tensor_content has 17 bytes; float32 [2,2] needs 16"},
    {"TP01_ContentHalf", "dtype: DT_FLOAT tensor_content: '12345678'" SHAPE22, Code::kInvalidArgument,
     "tensor_content has 8 bytes; float32 [2,2] needs 16"},
    {"TP01_ContentDouble", "dtype: DT_UINT16 tensor_content: '1234567890123456'" SHAPE22, Code::kInvalidArgument,
     "tensor_content has 16 bytes; uint16 [2,2] needs 8"},
    {"TP02_NoDType", "int_val: 3", Code::kInvalidArgument, "dtype is 0"},
    {"TP02_Empty", "", Code::kInvalidArgument, "dtype is 0"},
    {"TP02_9999", "dtype: 9999", Code::kInvalidArgument, "dtype is 9999; wanted one of TensorFlow's, 1 to 32"},
    {"TP02_Negative", "dtype: -1", Code::kInvalidArgument, "dtype is -1"},
    {"TP02_Largest", "dtype: 2147483647", Code::kInvalidArgument, "dtype is 2147483647"},
    {"TP02_33", "dtype: 33", Code::kInvalidArgument, "dtype is 33"},
    {"TP02_OwnNumber", "dtype: 64", Code::kInvalidArgument, "dtype is 64"},
    {"TP03_FirstReference", "dtype: 101", Code::kInvalidArgument, "dtype is 101, a reference"},
    {"TP03_LastReference", "dtype: 130", Code::kInvalidArgument, "dtype is 130, a reference"},
    {"TP04_VariantContent", "dtype: DT_VARIANT tensor_content: '12345678'", Code::kInvalidArgument,
     "tensor_content has 7 bytes after the lengths of variant []; the lengths sum to at least 49"},
    {"TP04_ResourceContent", "dtype: DT_RESOURCE tensor_content: '\\x07\\x00\\x10\\x20\\x7f\\x00\\x00\\x00'",
     Code::kInvalidArgument, "resource 0: field number 0 at byte 0"},
    {"TP07_FillBomb", "dtype: DT_FLOAT float_val: 1" DIM(274877906944), Code::kResourceExhausted,
     "float32 [274877906944]: decodes to 1099511627776 bytes; the limit max_message_bytes is 2147483648"},
    {"TP07_FillOfAGibibyte", "dtype: DT_FLOAT float_val: 1" DIM(268435456), Code::kResourceExhausted,
     "decodes to 1073741820 unbacked bytes; the limit max_memory_beyond_input is 67108864"},
    {"TP08_NoValues", "dtype: DT_DOUBLE" DIM(137438953472), Code::kResourceExhausted, "max_message_bytes"},
    {"TP08_ZerosPastTheLimit", "dtype: DT_INT8" DIM(67108865), Code::kResourceExhausted,
     "decodes to 67108865 unbacked bytes; the limit max_memory_beyond_input"},
    {"TP09_StringBomb", "dtype: DT_STRING string_val: 'a string of some length'" DIM(4294967296),
     Code::kResourceExhausted, "max_message_bytes"},
    {"TP09_StringBombWraps", "dtype: DT_STRING string_val: 'a string of some length'" DIM(9223372036854775807),
     Code::kResourceExhausted, "max_message_bytes"},
    {"TP09_StringSplat", "dtype: DT_STRING string_val: '12345678901234567890123456789012'" DIM(1048578),
     Code::kResourceExhausted, "decodes to 67108928 unbacked bytes; the limit max_memory_beyond_input"},
    {"TP16_LengthsPastTheEnd", "dtype: DT_STRING tensor_content: '\\x01\\x05\\x01ab'" DIM(3), Code::kInvalidArgument,
     "the lengths sum to at least 6"},
    {"TP16_TrailingBytes", "dtype: DT_STRING tensor_content: '\\x01\\x00abc'" DIM(2), Code::kInvalidArgument,
     "tensor_content has 3 bytes after the lengths of string [2]; the lengths sum to 1"},
    {"TP16_32BitWrap", "dtype: DT_STRING tensor_content: '\\xff\\xff\\xff\\xff\\x0f\\x03ab'" DIM(2),
     Code::kInvalidArgument, "the lengths sum to at least 4294967295"},
    {"TP16_LengthPast32Bits", "dtype: DT_STRING tensor_content: '\\x80\\x80\\x80\\x80\\x10\\x00'" DIM(2),
     Code::kInvalidArgument, "the length of string 0"},
    {"TP16_Length2To63", "dtype: DT_STRING tensor_content: '\\x80\\x80\\x80\\x80\\x80\\x80\\x80\\x80\\x80\\x01'",
     Code::kInvalidArgument, "the length of string 0"},
    {"TP16_TooFewLengths", "dtype: DT_STRING tensor_content: '\\x00\\x00'" DIM(3), Code::kInvalidArgument,
     "needs a length for each element"},
    {"TP16_CutLength", "dtype: DT_STRING tensor_content: '\\x00\\x80'" DIM(2), Code::kInvalidArgument,
     "the length of string 1 is cut short"},
    {"TP18_Bool2", "dtype: DT_BOOL tensor_content: '\\x00\\x01\\x02'" DIM(3), Code::kInvalidArgument,
     "tensor_content: byte 2 is 2; a bool is 0 or 1"},
    {"TP18_Bool255", "dtype: DT_BOOL tensor_content: '\\xff'", Code::kInvalidArgument, "tensor_content: byte 0 is 255"},
    // The forms.
    {"FormEncoded", "extension { dtype: 1 payload: 'x' }" DIM(4), Code::kInvalidArgument, "payload: "},
    {"FormEncodedOwnDType", "extension { dtype: 66 payload: 'x' }" DIM(4), Code::kInvalidArgument, "payload: "},
    {"FormPlainWithStrides", "dtype: DT_FLOAT extension { strides: 1 }", Code::kInvalidArgument,
     "dtype is 1, as in the plain form, but the extension"},
    {"FormPlainWithDType", "dtype: DT_FLOAT extension { dtype: 1 }", Code::kInvalidArgument, "as in the plain form"},
    {"FormPlainWithOffset", "dtype: DT_FLOAT extension { storage_offset: 1 }", Code::kInvalidArgument, "plain form"},
    {"FormPlainWithOneStride", "dtype: DT_FLOAT extension { strides: 1 }" DIM(1), Code::kInvalidArgument, "plain form"},
    {"FormPlainWithPayload", "dtype: DT_FLOAT extension { payload: 'x' }", Code::kInvalidArgument, "plain form"},
    {"FormExtensionOnlyWithoutReason", "tensor_content: 'abcd' extension { dtype: 1 }", Code::kInvalidArgument,
     "neither the extension-only nor the encoded form"},
    {"FormExtensionOnlyByMemoryFormat", "tensor_content: 'a' extension { dtype: 4 memory_format: 1 }",
     Code::kInvalidArgument, "neither the extension-only nor the encoded form"},
    {"FormExtensionOnlyWithOffsetAlone", "tensor_content: 'a' extension { dtype: 65 storage_offset: 1 }",
     Code::kInvalidArgument, "neither the extension-only nor the encoded form"},
    {"FormExtensionOnlyWithPayload", "tensor_content: 'a' extension { dtype: 65 payload: 'x' }", Code::kInvalidArgument,
     "neither the extension-only nor the encoded form"},
    {"FormExtensionOnlyWithValues", "float_val: 1 extension { dtype: 1 strides: 1 }", Code::kInvalidArgument,
     "neither the extension-only nor the encoded form"},
    {"FormEncodedWithContent", "tensor_content: 'a' extension { dtype: 1 payload: 'x' }", Code::kInvalidArgument,
     "neither the extension-only nor the encoded form"},
    {"FormEncodedWithStrides", "extension { dtype: 1 payload: 'x' strides: 1 }", Code::kInvalidArgument,
     "neither the extension-only nor the encoded form"},
    {"FormEncodedWithValues", "int_val: 1 extension { dtype: 1 payload: 'x' }", Code::kInvalidArgument,
     "neither the extension-only nor the encoded form"},
    {"FormNegativeDType", "extension { dtype: -1 payload: 'x' }", Code::kInvalidArgument, "extension's dtype is -1"},
    {"FormNoDType", "extension { payload: 'x' }", Code::kInvalidArgument, "dtype is 0"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, Rejects, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.name); });

// Messages that only bytes can say.
struct BytesCase {
  const char* name;
  std::string message;
  const char* says;
};
class RejectsBytes : public ::testing::TestWithParam<BytesCase> {};
TEST_P(RejectsBytes, WithCodeAndMessage) {
  EXPECT_THAT(DecodeBothWays(GetParam().message), StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_THAT(DecodeBothWays(GetParam().message, Lenient()),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
}
std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}
const std::string kFloat = VarintField(1, 1);  // a whole message: a float32 scalar, 0
const BytesCase kBytes[] = {
    {"TP22_ElevenBytes", kFloat + Tag(3, 0) + std::string(10, '\x80') + '\x01', "longer than 10 bytes"},
    {"TP22_ElevenBytesPacked", VarintField(1, 9) + BytesField(10, std::string(10, '\x80') + '\x01'),
     "int64_val at byte 2 does not hold complete varints"},
    {"TP23_Tag0", kFloat + std::string(1, '\0'), "field number 0 at byte 2"},
    {"TP23_Field0", kFloat + Tag(0, 2) + Varint(0), "field number 0"},
    {"TP23_WireType6", kFloat + Tag(99, 6), "wire type 6"},
    {"TP23_WireType7", kFloat + Tag(1, 7), "wire type 7"},
    {"TP24_StrayEnd", kFloat + Tag(99, 4), "the end of a group that was not started"},
    {"TP24_Mismatch", kFloat + Tag(99, 3) + Tag(98, 4), "the end of group 98 inside group 99"},
    {"TP24_Unclosed", kFloat + Tag(99, 3), "no end of group 99"},
    {"TP26_Length2To31", kFloat + Tag(4, 2) + Varint(uint64_t{1} << 31), "a length of 2147483648"},
    {"TP26_Length2To32Plus1", kFloat + Tag(4, 2) + Varint((uint64_t{1} << 32) + 1) + "a", "a length of 4294967297"},
    {"TP26_Length2To63", kFloat + Tag(2, 2) + Varint(uint64_t{1} << 63), "a length of 9223372036854775808"},
    {"TP26_Length2To64Minus1", kFloat + Tag(99, 2) + Varint(~uint64_t{0}), "a length of 18446744073709551615"},
    {"TP29_ContentAsVarint", kFloat + VarintField(4, 1), "tensor_content"},
    {"TP29_DTypeAsBytes", kFloat + BytesField(1, "x"), "dtype"},
    {"TP29_DTypeAsGroup", kFloat + Tag(1, 3) + Tag(1, 4), "dtype"},
    {"TP29_ShapeAsFixed32", kFloat + Fixed32Field(2, 1), "tensor_shape"},
    {"TP29_FloatAsVarint", kFloat + VarintField(5, 1), "float_val"},
    {"TP29_FloatAsFixed64", kFloat + Fixed64Field(5, 1), "float_val"},
    {"TP29_IntAsFixed32", VarintField(1, 3) + Fixed32Field(7, 1), "int_val"},
    {"TP29_OtherDTypesField", kFloat + Fixed32Field(8, 1), "string_val"},
    {"TP29_DimAsVarint", kFloat + BytesField(2, VarintField(2, 1)), "dim"},
    {"TP29_DimSizeAsBytes", kFloat + BytesField(2, BytesField(2, BytesField(1, ""))), "size"},
    {"TP29_UnknownRankAsBytes", kFloat + BytesField(2, BytesField(3, "")), "unknown_rank"},
    {"TP29_ExtensionAsVarint", kFloat + VarintField(4096, 1), "extension"},
    {"TP29_ChecksumAsVarint", kFloat + BytesField(4096, VarintField(8, 1)), "crc32c"},
    {"TP29_AttributeKeyAsVarint", kFloat + BytesField(4096, BytesField(9, VarintField(1, 1))), "key"},
    {"TP29_InAResource", kFloat + BytesField(14, BytesField(6, BytesField(2, VarintField(2, 1)))), "dim"},
    {"TP29_InAVariant", kFloat + BytesField(15, BytesField(3, VarintField(4, 1))), "tensor_content"},
    {"TP29_InAVariantsExtension", kFloat + BytesField(15, BytesField(3, BytesField(4096, VarintField(10, 1)))),
     "payload"},
    {"TP30_TrailingZeros", kFloat + std::string(4, '\0'), "field number 0"},
    {"TP30_TrailingGarbage", kFloat + "\xff\xff\xff", "cut short"},
    {"PackedFloatsCut", kFloat + BytesField(5, "12345"), "float_val at byte 2 does not hold complete 32-bit numbers"},
    {"PackedDoublesCut", VarintField(1, 2) + BytesField(6, "12345"), "does not hold complete 64-bit numbers"},
    {"PackedVarintCut", VarintField(1, 3) + BytesField(7, "\x01\x80"), "does not hold complete varints"},
    {"NameNotUtf8", kFloat + BytesField(2, BytesField(2, BytesField(2, "\xff"))), "name at byte 0 is not UTF-8"},
    {"DeviceNotUtf8", kFloat + BytesField(4096, BytesField(2, "\xc0\x80")), "device at byte 0 is not UTF-8"},
    {"BadShape", kFloat + BytesField(2, "\x12\x05"), "tensor_shape: a length of 5"},
    {"SH08_255Dims", kFloat + ShapeField(std::vector<int64_t>(255, 1)), "255 dims; a tensor has at most 254"},
    {"SH08_10000Dims", kFloat + ShapeField(std::vector<int64_t>(10000, 1)), "10000 dims"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, RejectsBytes, ::testing::ValuesIn(kBytes),
                         [](const auto& info) { return std::string(info.param.name); });

struct AcceptBytesCase {
  const char* name;
  std::string message;
  const char* wanted;
};
class AcceptsBytes : public ::testing::TestWithParam<AcceptBytesCase> {};
TEST_P(AcceptsBytes, WithTheElements) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(GetParam().message));
  EXPECT_EQ(tensor.ToString(), GetParam().wanted);
}
const AcceptBytesCase kGood[] = {
    {"TP05_DTypeTruncated", VarintField(1, (uint64_t{1} << 32) + 1), "float32 []: 0"},
    {"TP22_Overlong", Tag(1, 0) + std::string("\x83\x80\x80\x00", 4) + VarintField(7, 5), "int32 []: 5"},
    {"TP27_LastScalarWins", VarintField(1, 1) + VarintField(1, 3) + VarintField(7, 5), "int32 []: 5"},
    {"TP27_LastContentWins", VarintField(1, 4) + BytesField(4, "xyz") + BytesField(4, "a"), "uint8 []: 97"},
    {"TP27_EmptyContentWins", VarintField(1, 4) + BytesField(4, "xyz") + BytesField(4, ""), "uint8 []: 0"},
    {"TP27_LastFloat8Wins", VarintField(1, 24) + BytesField(18, "xyz") + BytesField(18, "\x3c"), "float8_e5m2 []: 1"},
    {"TP27_ShapesMerge", VarintField(1, 3) + ShapeField({1}) + VarintField(7, 5) + ShapeField({2}),
     "int32 [1,2]: [[5 5]]"},
    {"TP27_UnknownRankLastWins",
     VarintField(1, 3) + BytesField(2, VarintField(3, 1)) + BytesField(2, VarintField(3, 0)), "int32 []: 0"},
    {"TP27_DimSizeLastWins", VarintField(1, 3) + BytesField(2, BytesField(2, VarintField(1, 9) + VarintField(1, 1))),
     "int32 [1]: [0]"},
    {"TP27_ExtensionsMerge",
     VarintField(1, 3) + BytesField(4096, VarintField(3, 1)) + BytesField(4096, VarintField(3, 0)), "int32 []: 0"},
    {"TP28_UnknownFields",
     VarintField(100, 7) + VarintField(1, 3) + Fixed64Field(101, 1) + BytesField(102, "\xff") + VarintField(7, 9) +
         Fixed32Field(103, 1) + Tag(104, 3) + VarintField(1, 1) + BytesField(4, "x") + Tag(104, 4) +
         BytesField(2, VarintField(1, 1) + BytesField(2, BytesField(3, "x") + VarintField(1, 1))),
     "int32 [1]: [9]"},
    {"TP28_AMegabyteOfThem", Repeat(VarintField(500, 1) + BytesField(501, "123456789"), 65536) + VarintField(1, 3),
     "int32 []: 0"},
    {"PackedAndUnpacked",
     VarintField(1, 3) + ShapeField({6}) + VarintField(7, 1) + BytesField(7, "\x02\x03") + BytesField(7, "") +
         VarintField(7, 4),
     "int32 [6]: [1 2 3 4 4 4]"},
    {"FloatsPackedAndUnpacked",
     VarintField(1, 1) + ShapeField({4}) + Fixed32Field(5, 0x3f800000) +
         BytesField(5, std::string("\x00\x00\x00\x40\x00\x00\x40\x40", 8)) + Fixed32Field(5, 0x40800000),
     "float32 [4]: [1 2 3 4]"},
    {"DoublesUnpacked", VarintField(1, 2) + ShapeField({2}) + Fixed64Field(6, 0x3ff0000000000000),
     "float64 [2]: [1 1]"},
    {"BoolsOfManyBits", VarintField(1, 10) + ShapeField({3}) + VarintField(11, 256) + BytesField(11, Varint(1u << 31)),
     "bool [3]: [true true true]"},
    {"Int32OfManyBits", VarintField(1, 3) + VarintField(7, (uint64_t{5} << 32) + 7), "int32 []: 7"},
    {"Int32InFiveBytes", VarintField(1, 3) + VarintField(7, 0xffffffff), "int32 []: -1"},
    {"FieldsInAnyOrder", VarintField(7, 5) + ShapeField({2}) + VarintField(1, 3), "int32 [2]: [5 5]"},
    {"SixtyFourGroups", VarintField(1, 3) + Repeat(Tag(99, 3), 64) + Repeat(Tag(99, 4), 64), "int32 []: 0"},
};
INSTANTIATE_TEST_SUITE_P(AsProtobuf, AcceptsBytes, ::testing::ValuesIn(kGood),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Limits ---------------------------------------------------------------------------------------------------------

TEST(Limits, Rank254) {
  const std::string message = VarintField(1, 3) + ShapeField(std::vector<int64_t>(254, 1)) + VarintField(7, 5);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeBothWays(message));
  EXPECT_EQ(tensor.rank(), 254);
  EXPECT_EQ(tensor.scalar<int32_t>(), 5);
}

TEST(Limits, UnbackedBytesToTheByte) {
  DecodeOptions options;
  options.limits.max_memory_beyond_input = 12;
  const std::string base = VarintField(1, 3) + VarintField(7, 1);  // one value of four bytes
  EXPECT_OK(DecodeBothWays(base + ShapeField({4}), options));
  EXPECT_THAT(DecodeBothWays(base + ShapeField({5}), options),
              StatusIs(Code::kResourceExhausted, HasSubstr("int32 [5]: decodes to 16 unbacked bytes; the limit "
                                                           "max_memory_beyond_input is 12")));
  options.limits.max_memory_beyond_input = 2 * (sizeof(std::string) + 3);
  const std::string strings = VarintField(1, 7) + BytesField(8, "abc");
  EXPECT_OK(DecodeBothWays(strings + ShapeField({3}), options));
  EXPECT_THAT(DecodeBothWays(strings + ShapeField({4}), options),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

TEST(Limits, MessageBytesToTheByte) {
  DecodeOptions options;
  options.limits.max_message_bytes = 16;
  EXPECT_OK(DecodeBothWays(VarintField(1, 4) + ShapeField({16}) + BytesField(4, std::string(16, 'x')), options));
  EXPECT_THAT(DecodeBothWays(VarintField(1, 4) + ShapeField({17}) + BytesField(4, std::string(17, 'x')), options),
              StatusIs(Code::kResourceExhausted,
                       HasSubstr("uint8 [17]: decodes to 17 bytes; the limit max_message_bytes is 16")));
  options.limits.max_message_bytes = 2 * sizeof(std::string) + 2;
  EXPECT_OK(DecodeBothWays(VarintField(1, 7) + ShapeField({2}) + BytesField(4, std::string("\x02\x00xy", 4)), options));
  EXPECT_THAT(
      DecodeBothWays(VarintField(1, 7) + ShapeField({2}) + BytesField(4, std::string("\x02\x01xyz", 5)), options),
      StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes")));
}

TEST(Limits, TP31_VariantsNestToTheLimit) {
  const auto nested = [](int depth) {
    std::string message = VarintField(1, 1) + ShapeField({1 << 10});
    for (int i = 0; i < depth; ++i) message = VarintField(1, 21) + BytesField(15, BytesField(3, message));
    return message;
  };
  EXPECT_OK(DecodeBothWays(nested(31)));
  for (const int depth : {32, 33, 65, 200, 5000}) {
    EXPECT_THAT(DecodeBothWays(nested(depth)), StatusIs(Code::kResourceExhausted, HasSubstr("max_depth"))) << depth;
  }
}

TEST(Limits, TP25_NestedGroups) {
  const std::string nested = VarintField(1, 1) + Repeat(Tag(99, 3), 100000) + Repeat(Tag(99, 4), 100000);
  EXPECT_THAT(DecodeBothWays(nested), StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_depth, 64 here")));
}

TEST(Limits, TP32_TensorsInVariantsShareTheQuota) {
  std::string many = VarintField(1, 21) + ShapeField({2000});
  for (int i = 0; i < 2000; ++i) many += BytesField(15, BytesField(3, VarintField(1, 1) + ShapeField({2 << 20})));
  EXPECT_THAT(DecodeBothWays(many),
              StatusIs(Code::kResourceExhausted,
                       HasSubstr("variant 8: tensors[0]: float32 [2097152]: decodes to 8388608 unbacked bytes, after "
                                 "67108864 that were decoded before; the limit max_memory_beyond_input is 67108864")));
}

TEST(Decode, TakesNoMemoryForWhatItRefuses) {
  class CountingAllocator final : public Allocator {
   public:
    absl::string_view name() const override { return "counting"; }
    void* Allocate(size_t bytes) override {
      ++calls;
      return CpuAllocator::Default()->Allocate(bytes);
    }
    void Deallocate(void* block, size_t bytes) override { CpuAllocator::Default()->Deallocate(block, bytes); }
    int calls = 0;
  };
  const RefPtr<CountingAllocator> allocator = MakeRef<CountingAllocator>();
  DecodeOptions options;
  options.allocator = allocator;
  for (const RejectCase& row : kMalformed) {
    EXPECT_FALSE(DecodeTensor(FromText(row.text), options).ok());
    EXPECT_FALSE(DecodeSerializedTensor(FromText(row.text).SerializeAsString(), options).ok());
  }
  for (const LenientCase& row : kLenient) EXPECT_FALSE(DecodeTensor(FromText(row.text), options).ok());
  for (const BytesCase& row : kBytes) EXPECT_FALSE(DecodeSerializedTensor(row.message, options).ok());
  EXPECT_EQ(allocator->calls, 0);
}

// A decoder that has checked a message decodes it within the same limits.
TEST(TensorDecoder, CountsAMessageOnceHoweverOftenItIsChecked) {
  const std::string message = FromText("dtype: DT_FLOAT tensor_shape { dim { size: 3 } }").SerializeAsString();
  DecodeOptions options;
  options.limits.max_message_bytes = 12;
  options.limits.max_memory_beyond_input = 12;
  internal::WireTensorFields fields;
  ASSERT_OK(fields.Read(message, options.limits.max_depth));
  internal::TensorDecoder decoder(fields, options);
  ASSERT_OK(decoder.Check());
  ASSERT_OK(decoder.Check());
  EXPECT_OK(decoder.Decode());
}

}  // namespace
}  // namespace tensorcask
