// Files that break a rule of the format.

#include "tensorcask/serialize/safetensors/safetensors_reader.h"

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tests/serialize/safetensors/safetensors_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Bytes;
using ::tensorcask::testing::kGood;
using ::tensorcask::testing::LengthOnly;
using ::tensorcask::testing::MakeFile;
using ::tensorcask::testing::OneTensor;
using ::tensorcask::testing::OpenBytes;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TwoTensors;
using ::tensorcask::testing::WithDType;
using ::tensorcask::testing::WithOffsets;
using ::tensorcask::testing::WithShape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- Files that are refused ----------------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  std::string file;
  const char* says;
  Code code = Code::kDataLoss;
};

class SafetensorsRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(SafetensorsRejects, WithCodeAndMessage) {
  const RejectCase& row = GetParam();
  EXPECT_THAT(OpenBytes(row.file), StatusIs(row.code, AllOf(HasSubstr("m.safetensors: "), HasSubstr(row.says))));
}

const RejectCase kBadLengths[] = {
    {"Empty", "", "this is an empty file"},
    {"SevenBytes", std::string(7, '\0'), "this is a file of zeros"},
    {"NoHeader", LengthOnly(0), "does not begin with '{'"},
    {"PastTheEnd", LengthOnly(3), "the header's length is 3; the file has 2 bytes"},
    {"OverTheCap", LengthOnly(100'000'001), "the header's length is 100000001"},
    {"LowBitsRight", LengthOnly((uint64_t{1} << 32) + 2), "the header's length is 4294967298"},
    {"HighBit", LengthOnly(uint64_t{1} << 63), "the header's length is 9223372036854775808"},
    {"AllBits", LengthOnly(UINT64_MAX), "the header's length is 18446744073709551615"},
};

const RejectCase kBadText[] = {
    {"InvalidUtf8", MakeFile("{\"\xff\":{}}"), "not JSON at byte 2"},
    {"OverlongUtf8", MakeFile("{\"\xc0\x80\":{}}"), "not JSON at byte"},
    {"SurrogateUtf8", MakeFile("{\"\xed\xa0\x80\":{}}"), "not JSON at byte"},
    {"ByteOrderMark", MakeFile("\xef\xbb\xbf{}"), "does not begin with '{'"},
    {"RawControl", MakeFile("{\"\x01\":{}}"), "not JSON at byte 2"},
    {"LoneSurrogate", MakeFile("{\"\\ud800\":{}}"), "not JSON at byte"},
    {"BadEscape", MakeFile("{\"\\x\":{}}"), "not JSON at byte"},
    {"TextBehind", MakeFile("{} {}"), "not JSON at byte 3"},
    {"NulBehind", MakeFile(absl::string_view("{}\0\0", 4)), "a NUL byte"},
    {"SpaceBefore", MakeFile("  {}"), "begins with white space"},
    {"Comment", MakeFile("{/**/}"), "not JSON at byte 1"},
    {"TrailingComma", MakeFile("{" + ("\"a\":{" + kGood + "},}"), Bytes(8)), "not JSON at byte"},
    {"SingleQuotes", MakeFile("{'a':1}"), "not JSON at byte 1"},
    {"Unclosed", MakeFile("{"), "the JSON ends too early"},
    {"Array", MakeFile("[]"), "does not begin with '{'"},
    {"DeepArrays", MakeFile("{\"a\":{\"x\":" + std::string(100'000, '[')), "max_depth", Code::kResourceExhausted},
    {"DeepObjects", MakeFile([] {
       std::string text = "{\"a\":{\"x\":";
       for (int i = 0; i < 100'000; ++i) text += "{\"\":";
       return text;
     }()),
     "max_depth", Code::kResourceExhausted},
    {"NotAnObject", MakeFile("{\"a\":7}"), "tensor \"a\": is 7; it must be an object"},
    {"ListOfTensors", MakeFile("{\"a\":[]}"), "tensor \"a\": is an array"},
};

const RejectCase kBadNames[] = {
    {"DuplicateName", TwoTensors("[0,8]", "[8,16]", 16, "aa"), "tensor \"a\" is listed twice: duplicate name"},
    {"HiddenDuplicate", TwoTensors("[0,8]", "[8,16]", 16, "a\\u0061"), "duplicate name"},
    {"DuplicateField", OneTensor(kGood + ",\"shape\":[2]"), "tensor \"a\": has shape twice: duplicate key"},
    {"HiddenDuplicateField", OneTensor(kGood + ",\"sh\\u0061pe\":[2]"), "duplicate key"},
    {"DuplicateMetadata", MakeFile(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate key"},
    {"HiddenDuplicateMetadata", MakeFile(R"({"__metadata__":{},"__meta\u0064ata__":{}})"), "duplicate key"},
    {"DuplicateMetadataKey", MakeFile(R"({"__metadata__":{"a":"","a":""}})"), "the metadata has \"a\" twice"},
    {"MetadataNumber", MakeFile(R"({"__metadata__":{"a":1}})"), "the value of \"a\" in the metadata is 1"},
    {"MetadataNull", MakeFile(R"({"__metadata__":{"a":null}})"), "the value of \"a\" in the metadata is null"},
    {"MetadataNested", MakeFile(R"({"__metadata__":{"a":{"b":""}}})"), "in the metadata is an object"},
    {"MetadataList", MakeFile(R"({"__metadata__":[]})"), "__metadata__ is an array"},
    {"MetadataIsTensor", MakeFile("{\"__metadata__\":{" + kGood + "}}", Bytes(8)),
     "the value of \"shape\" in the metadata is an array"},
    {"LongName", MakeFile("{\"" + std::string(65537, 'x') + "\":{" + kGood + "}}", Bytes(8)), "max_name_bytes",
     Code::kResourceExhausted},
};

const RejectCase kBadPlaces[] = {
    {"HoleAtStart", WithOffsets("[1,9]"), "the file has 8 bytes of data"},
    {"HoleBeforeFirst", TwoTensors("[4,12]", "[12,20]", 20), "data bytes 0 to 4, before tensor \"a\""},
    {"HoleInside", TwoTensors("[0,8]", "[9,17]", 17), "data bytes 8 to 9, before tensor \"b\""},
    {"HoleAtEnd", TwoTensors("[0,8]", "[8,16]", 17), "1 byte behind the last tensor"},
    {"MissingBytes", TwoTensors("[0,8]", "[8,16]", 15), "the file has 15 bytes of data"},
    {"FullOverlap", TwoTensors("[0,8]", "[0,8]", 8), "tensor \"b\" has data bytes 0 to 8, which overlap"},
    {"PartialOverlap", TwoTensors("[0,8]", "[4,12]", 12), "tensor \"b\" has data bytes 4 to 12, which overlap"},
    {"EmptyElsewhere", MakeFile(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[999,999]}})"),
     "the file has 0 bytes of data"},
    {"EmptyInside",
     MakeFile(
         R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})",
         Bytes(8)),
     "overlap"},
    {"DataWithoutTensors", MakeFile("{}", "x"), "1 byte behind the last tensor"},
    {"Reversed", WithOffsets("[8,0]"), "runs backwards"},
    {"Negative", WithOffsets("[-8,0]"), "data_offsets has -8"},
    {"ThreeOffsets", WithOffsets("[0,8,8]"), "more than two numbers"},
    {"OneOffset", WithOffsets("[0]"), "data_offsets is [0]; it must have two numbers"},
    {"NoOffsets", WithOffsets("[]"), "it must have two numbers"},
    {"Wraps", WithOffsets("[0,18446744073709551608]"), "data_offsets has 18446744073709551608"},
    {"HugeOffset", WithOffsets("[0,9223372036854775807]"), "the file has 8 bytes of data"},
    {"OffsetsAreNoList", WithOffsets("8"), "data_offsets is 8; it must be an array"},
};

const RejectCase kBadShapes[] = {
    {"PointZero", WithShape("[2.0]"), "dim 0 of the shape is 2.0"},
    {"Exponent", WithShape("[2e0]"), "dim 0 of the shape is 2e0"},
    {"Text", WithShape("[\"2\"]"), "dim 0 of the shape is \"2\""},
    {"True", WithShape("[1,true]"), "dim 1 of the shape is true"},
    {"Null", WithShape("[null]"), "dim 0 of the shape is null"},
    {"Minus", WithShape("[-1]"), "dim 0 of the shape is -1"},
    {"MinusZero", WithShape("[-0]"), "dim 0 of the shape is -0"},
    {"LeadingZero", WithShape("[02]"), "not JSON at byte"},
    {"PlusSign", WithShape("[+2]"), "not JSON at byte"},
    {"PastInt64", WithShape("[9223372036854775808]"), "dim 0 of the shape is 9223372036854775808"},
    {"PastUint64", WithShape("[18446744073709551622]"), "dim 0 of the shape is 18446744073709551622"},
    {"FourHundredDigits", WithShape("[" + std::string(400, '9') + "]"), "not JSON at byte"},
    {"Nested", WithShape("[[2]]"), "dim 0 of the shape is an array"},
    {"Number", WithShape("2"), "shape is 2; it must be an array"},
    {"TooFew", WithShape("[1]"), "stores 8 bytes; F32 [1] needs 4"},
    {"TooMany", WithShape("[3]"), "stores 8 bytes; F32 [3] needs 12"},
    {"WrapsToTheRightSize", WithShape("[4611686018427387906]"), "its size overflows 64 bits"},
    {"ProductWraps", WithShape("[4294967296,4294967297,2]"), "shape [4294967296,4294967297,2]"},
    {"Zero", WithShape("[0]"), "needs 0"},
    {"OddF4", OneTensor(R"("dtype":"F4","shape":[15],"data_offsets":[0,8])"), "60 bits do not fill whole bytes"},
    {"OddF6", OneTensor(R"("dtype":"F6_E2M3","shape":[10],"data_offsets":[0,8])"), "60 bits do not fill whole bytes"},
    {"SixtyFourTiB", OneTensor(R"("dtype":"U8","shape":[70368744177664],"data_offsets":[0,70368744177664])"),
     "the file has 8 bytes of data"},
};

const RejectCase kBadFields[] = {
    {"DTypeNumber", WithDType("1"), "dtype is 1; it must be a string"},
    {"NoDType", OneTensor(R"("shape":[2],"data_offsets":[0,8])"), "has no dtype"},
    {"NoShape", OneTensor(R"("dtype":"F32","data_offsets":[0,8])"), "has no shape"},
    {"NoDataOffsets", OneTensor(R"("dtype":"F32","shape":[2])"), "has no data_offsets"},
    {"NoFields", OneTensor(""), "has no dtype"},
};

// ---- Tensors that are only listed ----------------------------------------------------------------------------------

struct ListedCase {
  const char* name;
  std::string file;
  const char* says;
};

class SafetensorsLists : public ::testing::TestWithParam<ListedCase> {};

TEST_P(SafetensorsLists, AndReadsNothing) {
  const absl::StatusOr<SafetensorsReader> reader = OpenBytes(GetParam().file);
  ASSERT_OK(reader.status());
  ASSERT_EQ(reader->entries().size(), 1);
  const SafetensorsEntry& entry = reader->entries()[0];
  EXPECT_EQ(entry.dtype, DType::kInvalid);
  EXPECT_EQ(entry.stored_bytes, 8);
  const auto refuses = StatusIs(Code::kUnimplemented, HasSubstr(GetParam().says));
  EXPECT_THAT(entry.read_status, refuses);
  EXPECT_THAT(reader->Read(entry.name), refuses);
  EXPECT_THAT(reader->Map(entry.name), refuses);
  EXPECT_THAT(reader->ReadSlice(entry.name, TensorSlice::Full(entry.shape.rank())), refuses);
  EXPECT_THAT(reader->ReadAll(), refuses);
  const absl::StatusOr<SafetensorsCounts> counts = reader->VerifyAll([](const SafetensorsDamage&) { ADD_FAILURE(); });
  ASSERT_OK(counts.status());
  EXPECT_EQ(counts->not_checked, 1);
}

const ListedCase kUnknown[] = {
    {"UnknownDType", WithDType("\"F33\""), "the dtype \"F33\" is unknown"},
    {"LowerCase", WithDType("\"f32\""), "the dtype \"f32\" is unknown"},
    {"NulSuffix", WithDType("\"F32\\u0000\""), "is unknown"},
    {"LongDType", WithDType("\"" + std::string(70'000, 'F') + "\""), "is unknown"},
    {"ManyAxes",
     WithShape("[" +
               [] {
                 std::string ones = "1";
                 for (int i = 0; i < 254; ++i) ones += ",1";
                 return ones;
               }() +
               "]"),
     "more than 254 axes"},
};
INSTANTIATE_TEST_SUITE_P(Unknown, SafetensorsLists, ::testing::ValuesIn(kUnknown),
                         [](const auto& info) { return std::string(info.param.name); });

std::string CaseName(const ::testing::TestParamInfo<RejectCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Lengths, SafetensorsRejects, ::testing::ValuesIn(kBadLengths), CaseName);
INSTANTIATE_TEST_SUITE_P(Text, SafetensorsRejects, ::testing::ValuesIn(kBadText), CaseName);
INSTANTIATE_TEST_SUITE_P(Names, SafetensorsRejects, ::testing::ValuesIn(kBadNames), CaseName);
INSTANTIATE_TEST_SUITE_P(Places, SafetensorsRejects, ::testing::ValuesIn(kBadPlaces), CaseName);
INSTANTIATE_TEST_SUITE_P(Shapes, SafetensorsRejects, ::testing::ValuesIn(kBadShapes), CaseName);
INSTANTIATE_TEST_SUITE_P(Fields, SafetensorsRejects, ::testing::ValuesIn(kBadFields), CaseName);

}  // namespace
}  // namespace tensorcask
