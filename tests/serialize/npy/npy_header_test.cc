// Headers of npy files: what is read, and every way of lying in one that is refused.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

std::string File(absl::string_view text, absl::string_view data = "", int version = 1) {
  std::string bytes("\x93NUMPY");
  bytes.push_back(static_cast<char>(version));
  bytes.push_back('\0');
  char length[4];
  StoreLittleEndian(static_cast<uint32_t>(text.size()), length);
  bytes.append(length, version == 1 ? 2 : 4);
  return absl::StrCat(bytes, text, data);
}

absl::StatusOr<NpyReader> Open(const std::string& bytes, const NpyReaderOptions& options = {}) {
  return NpyReader::Open(MakeMemorySource("a.npy", bytes), options);
}

std::string Text(absl::string_view descr, absl::string_view shape) {
  return absl::StrCat("{'descr': ", descr, ", 'fortran_order': False, 'shape': ", shape, ", }\n");
}

TEST(NpyHeader, FormsThatAreRead) {
  const std::string data(48, '\1');
  const struct {
    const char* text;
    int version;
    const char* dtype;
    const char* shape;
  } kForms[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  \n", 1, "float32", "[3,4]"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}", 1, "float32", "[3,4]"},
      {"{\"shape\":(12L,),\"descr\":\"<u4\",\"fortran_order\":True}\n", 2, "uint32", "[12]"},
      {" { 'fortran_order' : False , 'descr' : '=i8' , 'shape' : ( 6 , ) , } ", 3, "int64", "[6]"},
      {"{'descr': '|S4', 'fortran_order': False, 'shape': (12,)}", 1, "string", "[12]"},
      {"{'descr': 'bfloat16', 'fortran_order': False, 'shape': (24,)}", 1, "bfloat16", "[24]"},
      {"{'descr': '<V2', 'fortran_order': False, 'shape': (24,)}", 1, "bfloat16", "[24]"},
      {"{'descr': '<f1', 'fortran_order': False, 'shape': (48,)}", 1, "float8_e5m2", "[48]"},
      {"{'descr': 'float8_e4m3fn', 'fortran_order': False, 'shape': (48,)}", 1, "float8_e4m3fn", "[48]"},
      {"{'descr': '>m8[25s]', 'fortran_order': False, 'shape': (6,)}", 1, "int64", "[6]"},
      {"{'descr': '?', 'fortran_order': False, 'shape': (6, 8)}", 1, "bool", "[6,8]"},
  };
  for (const auto& form : kForms) {
    SCOPED_TRACE(form.text);
    const std::string bytes = File(form.text, data, form.version);
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(bytes));
    EXPECT_EQ(DTypeName(reader.entries()[0].dtype), form.dtype);
    EXPECT_EQ(reader.entries()[0].shape.ToString(), form.shape);
    EXPECT_OK(reader.Read());
  }
}

TEST(NpyHeader, Structures) {
  const std::string text = Text(
      "[('a', '<i2'), ('', '|V2'), (('title', 'p.q'), [('x', '<f4', (2,)), ('y', '|b1')], (3,)), ('n\\xe4', '|u1')]",
      "(2,)");
  const std::string bytes = File(text, std::string(2 * (4 + 3 * 9 + 1), '\1'));
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(bytes));
  std::vector<std::string> names;
  for (const NpyEntry& entry : reader.entries()) names.push_back(absl::StrCat(entry.name, entry.shape.ToString()));
  EXPECT_THAT(names, ::testing::ElementsAre("a[2]", "p.q.x[2,3,2]", "p.q.y[2,3]", "n\xc3\xa4[2]"));
  ASSERT_OK_AND_ASSIGN(const std::vector<NpyTensor> all, reader.ReadAll());
  EXPECT_EQ(all[1].tensor.num_elements(), 12);
}

struct RejectCase {
  const char* name;
  std::string bytes;
  Code code;
  const char* says;
};

std::string Many(absl::string_view piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, piece);
  return text;
}

std::vector<RejectCase> RejectCases() {
  const std::string f4 = "'<f4'";
  const auto shape = [&](absl::string_view text) { return File(Text(f4, text), std::string(24, '\0')); };
  const auto descr = [&](absl::string_view text) { return File(Text(text, "(2,)"), std::string(64, '\0')); };
  const auto text = [](absl::string_view value) { return File(value, std::string(24, '\0')); };
  std::string huge = File("x", "", 2);
  StoreLittleEndian(uint32_t{0xffffffff}, &huge[8]);
  const std::string good = Text(f4, "(2, 3)");
  return {
      {"Empty", "", Code::kDataLoss, "this is an empty file"},
      {"Magic", "\x93NUMPX\1", Code::kDataLoss, "not an npy file"},
      {"Version4", File(good, "", 4), Code::kUnimplemented, "version 4.0"},
      {"NoLength", File(good).substr(0, 9), Code::kDataLoss, "not an npy file"},
      {"LengthPastEnd", File(good).substr(0, 60), Code::kDataLoss, "in a file of 60"},
      {"LengthOf4GiB", huge, Code::kDataLoss, "4294967295 bytes"},
      {"NoHeader", text(""), Code::kDataLoss, "expected '{' at byte 0, found the end"},
      {"Power", shape("(9**9**9,)"), Code::kDataLoss, "expected ','"},
      {"Call", shape("(__import__('os').system('x'),)"), Code::kDataLoss, "a number"},
      {"Lambda", descr("lambda: 0"), Code::kDataLoss, "a string"},
      {"FString", descr("f'<f4'"), Code::kDataLoss, "a string"},
      {"CodeBehind", text(good + "; import os"), Code::kDataLoss, "the end of the header"},
      {"TwoStrings", descr("'<f' '4'"), Code::kDataLoss, "expected '}'"},
      {"Parentheses", shape(Many("(", 9000)), Code::kDataLoss, "a number"},
      {"Brackets", descr(Many("[", 50000)), Code::kDataLoss, "expected '('"},
      {"Structures", descr(Many("[('a', ", 9000)), Code::kDataLoss, "at most 16 structures"},
      {"Minus", shape("(" + Many("-", 20000) + "1,)"), Code::kDataLoss, "not negative"},
      {"LongInteger", shape("(" + Many("9", 3000) + ",)"), Code::kDataLoss, "below 2^63"},
      {"LeadingZero", shape("(06,)"), Code::kDataLoss, "leading zeros"},
      {"Object", descr("'|O'"), Code::kUnimplemented, "Python objects (type \"|O\")"},
      {"Object8", descr("'|O8'"), Code::kUnimplemented, "pickle"},
      {"ObjectField", descr("[('a', '<f4'), ('b', [('c', '|O')])]"), Code::kUnimplemented, "Python objects"},
      {"MissingKey", text("{'descr': '<f4', 'shape': (2, 3)}"), Code::kDataLoss, "\"fortran_order\" is missing"},
      {"ExtraKey", text("{'descr': '<f4', 'more': 1}"), Code::kDataLoss, "unknown key \"more\""},
      {"SameKey", text("{'descr': '<f4', 'descr': '<f4'}"), Code::kDataLoss, "occurs twice"},
      {"ListShape", shape("[2, 3]"), Code::kDataLoss, "a tuple"},
      {"IntShape", shape("(6)"), Code::kDataLoss, "','"},
      {"NoShape", shape("None"), Code::kDataLoss, "a tuple"},
      {"NumberOrder", text("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}"), Code::kDataLoss, "True or False"},
      {"NegativeDim", shape("(-1,)"), Code::kDataLoss, "not negative"},
      {"WrappingShape", shape("(4294967296, 4294967296)"), Code::kDataLoss, "header"},
      {"DimPast64Bits", shape("(18446744073709551622,)"), Code::kDataLoss, "below 2^63"},
      {"BytesWrapTo24", shape("(4611686018427387910,)"), Code::kDataLoss, "more than 2^63 bytes"},
      {"TooManyDims", shape("(" + Many("1, ", 300) + ")"), Code::kDataLoss, "254 dims"},
      {"Subarrays", descr("[('a', '<f4', (4294967296, 4294967296))]"), Code::kDataLoss, "4294967296"},
      {"LargeItem", descr("'|S99999999999'"), Code::kDataLoss, "unknown type"},
      {"LargeItem2", descr("'<U2147483647'"), Code::kDataLoss, "the limit is 2147483647"},
      {"Void", File(Text("'|V9223372036854775807'", "(1,)")), Code::kDataLoss, "unknown type"},
      {"NoFields", descr("[]"), Code::kDataLoss, "without fields"},
      {"FieldTwice", descr("[('a', '<f4'), ('a', '<f4')]"), Code::kDataLoss, "two fields are named \"a\""},
      {"NamesCollide", File(Text("[('a.b', '<f4'), ('a', [('b', '<f4')])]", "(2,)"), std::string(16, '\0')),
       Code::kDataLoss, "two tensors are named"},
      {"NoName", descr("[('', '<f4')]"), Code::kDataLoss, "without a name"},
      {"IntOf3", descr("'<i3'"), Code::kDataLoss, "unknown type \"<i3\""},
      {"Escape", descr("'\\N{BULLET}'"), Code::kDataLoss, "escapes"},
      {"NoUtf8", File(Text("[('\xff', '<f4')]", "(2,)"), std::string(8, '\0'), 3), Code::kDataLoss, "UTF-8"},
      {"ShortData", File(good, std::string(23, '\0')), Code::kDataLoss, "has 23 bytes of data"},
      {"LongData", File(good, std::string(25, '\0')), Code::kDataLoss, "1 byte behind the array"},
      {"LongNames",
       File(Text(absl::StrCat(
                     "[('", std::string(30000, 'n'), "', [", Many("", 0),
                     [] {
                       std::string fields;
                       for (int i = 0; i < 2500; ++i) absl::StrAppend(&fields, "('", i, "','b1'),");
                       return fields;
                     }(),
                     "])]"),
                 "(0,)")),
       Code::kResourceExhausted, "names and dims"},
  };
}

TEST(NpyHeader, RejectsWithCodeAndMessage) {
  for (const RejectCase& reject : RejectCases()) {
    SCOPED_TRACE(reject.name);
    const absl::Status status = Open(reject.bytes).status();
    EXPECT_THAT(status, StatusIs(reject.code, HasSubstr(reject.says)));
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("a.npy: "));
  }
}

TEST(NpyHeader, OtherNamesOfTypesAreRead) {
  const struct {
    const char* descr;
    DType dtype;
    const char* code;
  } kTypes[] = {
      {"'float32'", DType::kFloat32, "f4"},
      {"'f'", DType::kFloat32, "f4"},
      {"u'<f4'", DType::kFloat32, "<f4"},
      {"U\"<f4\"", DType::kFloat32, "<f4"},
      {"'>d'", DType::kFloat64, ">f8"},
      {"'float'", DType::kFloat64, "f8"},
      {"'float_'", DType::kFloat64, "f8"},
      {"'e'", DType::kFloat16, "f2"},
      {"'b'", DType::kInt8, "i1"},
      {"'?'", DType::kBool, "b1"},
      {"'bool'", DType::kBool, "b1"},
      {"'int'", DType::kInt64, "i8"},
      {"'<l'", DType::kInt64, "<i8"},
      {"'uintc'", DType::kUint32, "u4"},
      {"'i04'", DType::kInt32, "i04"},
      {"'complex'", DType::kComplex128, "c16"},
      {"'F'", DType::kComplex64, "c8"},
      {"'c'", DType::kString, "S1"},
      {"'a5'", DType::kString, "a5"},
      {"'str'", DType::kString, "U0"},
      {"'datetime64[ns]'", DType::kInt64, "M8[ns]"},
      {"'>m8'", DType::kInt64, ">m8"},
      {"'<timedelta64[25s]'", DType::kInt64, "<m8[25s]"},
  };
  for (const auto& type : kTypes) {
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(File(Text(type.descr, "(0,)"))));
    EXPECT_EQ(reader.entries()[0].dtype, type.dtype) << type.descr;
    EXPECT_EQ(reader.entries()[0].descr, type.code) << type.descr;
  }
  ASSERT_OK_AND_ASSIGN(const NpyReader fields,
                       Open(File(Text("[(u'a','float32',2),(u'b','<d')]", "(1,)"), std::string(16, '\0'))));
  EXPECT_EQ(fields.entries()[0].shape.ToString(), "[1,2]");
  for (const char* descr :
       {"'<float32'", "'Float32'", "'f4 '", "'i4,f8'", "'l8'", "'f4[D]'", "'[D]'", "''", "b'<f4'", "ur'<f4'", "u"}) {
    EXPECT_THAT(Open(File(Text(descr, "(0,)"))), StatusIs(Code::kDataLoss)) << descr;
  }
}

std::string NameOf(absl::string_view literal) {
  const std::string bytes = File(Text(absl::StrCat("[(", literal, ", '<i4')]"), "(0,)"));
  const absl::StatusOr<NpyReader> reader = Open(bytes);
  return reader.ok() ? reader->entries()[0].name : std::string(reader.status().message());
}

// As Python's repr writes them.
TEST(NpyHeader, EscapesInNamesAreRead) {
  EXPECT_EQ(NameOf(R"('a\\b')"), "a\\b");
  EXPECT_EQ(NameOf(R"('it\'s')"), "it's");
  EXPECT_EQ(NameOf(R"("it's")"), "it's");
  EXPECT_EQ(NameOf(R"('it\'s \"x\"')"), "it's \"x\"");
  EXPECT_EQ(NameOf(R"('1\n2\r3\t4')"), "1\n2\r3\t4");
  EXPECT_EQ(NameOf(R"('\x41B\x7f')"), "AB\x7f");
  EXPECT_EQ(NameOf(R"('\xe4\u20ac\uABCD\uabcd\U0001f642')"),
            "\xc3\xa4\xe2\x82\xac\xea\xaf\x8d\xea\xaf\x8d\xf0\x9f\x99\x82");
  EXPECT_EQ(NameOf(R"('\u0080\u07ff\u0800\uffff\U00010000\U0010ffff')"),
            "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
  EXPECT_THAT(NameOf(R"('\U00110000')"), HasSubstr("a code point up to U+10FFFF"));
  EXPECT_THAT(NameOf(R"('\x4')"), HasSubstr("expected a hexadecimal digit at byte 16, found"));
  EXPECT_THAT(NameOf(R"('\u20g0')"), HasSubstr("a hexadecimal digit"));
  EXPECT_THAT(NameOf(R"('\a')"), HasSubstr("one of the escapes"));
  EXPECT_THAT(NameOf("'a\nb'"), HasSubstr("the end of a string"));
  EXPECT_THAT(Open(File("{'\\")), StatusIs(Code::kDataLoss, HasSubstr("expected an escape at byte 3, found the end")));
}

// The last value that is read, and the first one that is refused.
TEST(NpyHeader, BoundsOfWhatIsRead) {
  const struct {
    std::string read;
    std::string refused;
    const char* says;
  } kBounds[] = {
      {Text("'|S2147483647'", "(0,)"), Text("'|S2147483648'", "(0,)"), "the limit is 2147483647"},
      {Text("'<U536870911'", "(0,)"), Text("'<U536870912'", "(0,)"), "the limit is 2147483647"},
      {Text("'|S0000000001'", "(0,)"), Text("'|S00000000001'", "(0,)"), "unknown type"},
      {Text("[('a','|S2147483640'),('b','|S7')]", "(0,)"), Text("[('a','|S2147483640'),('b','|S8')]", "(0,)"),
       "a structure with field \"b\" takes more than 2147483647 bytes"},
      {Text("[('a','|i1',(2147483647,))]", "(0,)"), Text("[('a','|i2',(1073741824,))]", "(0,)"),
       "a structure with field \"a\" takes more than"},
      {Text("'<i1'", absl::StrCat("(", Many("1,", 253), "0)")), Text("'<i1'", absl::StrCat("(", Many("1,", 254), "0)")),
       "at most 254 dims"},
      {Text(absl::StrCat(Many("[('a',", 16), "'i1'", Many(")]", 16)), "(0,)"),
       Text(absl::StrCat(Many("[('a',", 17), "'i1'", Many(")]", 17)), "(0,)"), "at most 16 structures"},
      {Text("'<i1'", "(0, 9223372036854775807)"), Text("'<i1'", "(0, 9223372036854775808)"), "below 2^63"},
      {Text("'<M8[D]'", "(0,)"), Text("'<M8[]'", "(0,)"), "unknown type"},
      {Text("'<M8[9/3D]'", "(0,)"), Text("'<M8[9 3D]'", "(0,)"), "unknown type"},
      {Text(absl::StrCat("'<m8[", Many("1", 30), "]'"), "(0,)"),
       Text(absl::StrCat("'<m8[", Many("1", 31), "]'"), "(0,)"), "unknown type"},
      {"{'descr':'<i4','fortran_order':True,'shape':(0,)}", "{'descr':'<i4','fortran_order':True_,'shape':(0,)}",
       "True or False"},
      {"{'descr':'<i4','fortran_order':False,'shape':()}", "{'descr':'<i4','fortran_order':False1,'shape':()}",
       "True or False"},
  };
  for (const auto& bound : kBounds) {
    SCOPED_TRACE(bound.says);
    const bool is_scalar = bound.read.find("'shape':()") != std::string::npos;
    EXPECT_OK(Open(File(bound.read, is_scalar ? "1234" : "")).status());
    EXPECT_THAT(Open(File(bound.refused, is_scalar ? "1234" : "")), StatusIs(Code::kDataLoss, HasSubstr(bound.says)));
  }
}

TEST(NpyHeader, SeveralArraysInOneFile) {
  const std::string first = File(Text("'<f4'", "(2,)"), "aaaabbbb");
  const std::string second = File(Text("[('x','<i4')]", "(1,)"), "cccc");
  const std::string bytes = first + second + first;
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(bytes));
  std::vector<std::string> names;
  for (const NpyEntry& entry : reader.entries()) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("arr_0", "arr_1.x", "arr_2"));
  ASSERT_OK_AND_ASSIGN(const Tensor x, reader.Read("arr_1.x"));
  EXPECT_EQ(x.bytes(), "cccc");
  ASSERT_OK_AND_ASSIGN(const Tensor last, reader.Read("arr_2"));
  EXPECT_EQ(last.bytes(), "aaaabbbb");
  ASSERT_OK_AND_ASSIGN(const TensorView mapped, reader.Map("arr_0"));
  EXPECT_EQ(mapped.bytes(), "aaaabbbb");

  EXPECT_THAT(Open(first + second.substr(0, 40)),
              StatusIs(Code::kDataLoss, HasSubstr("a.npy: array arr_1: a header of")));
  EXPECT_THAT(Open(bytes.substr(0, bytes.size() - 1)),
              StatusIs(Code::kDataLoss, HasSubstr("array arr_2: the file has 7 bytes of data")));
  EXPECT_THAT(Open(bytes + "tail"), StatusIs(Code::kDataLoss, HasSubstr("array arr_2: 4 bytes behind the array")));
  NpyReaderOptions options;
  options.allow_trailing_bytes = true;
  ASSERT_OK_AND_ASSIGN(const NpyReader longer, Open(bytes + "tail", options));
  EXPECT_EQ(longer.entries().size(), 3);
  options = {};
  options.limits.max_entries = 2;
  EXPECT_THAT(Open(bytes, options), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
}

TEST(NpyHeader, TypesThatAreListedAndNotRead) {
  for (const char* descr : {"'<f16'", "'<c32'", "'|V3'", "'|V1'"}) {
    const std::string bytes = File(Text(descr, "(0,)"));
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(bytes));
    EXPECT_EQ(reader.entries()[0].dtype, DType::kInvalid) << descr;
    EXPECT_THAT(reader.Read(), StatusIs(Code::kUnimplemented)) << descr;
    EXPECT_THAT(reader.Map(), StatusIs(Code::kUnimplemented)) << descr;
  }
  NpyReaderOptions options;
  options.list_object_arrays = true;
  const std::string bytes = File(Text("'|O'", "(3,)"), "pickle");
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(bytes, options));
  EXPECT_THAT(reader.Read(), StatusIs(Code::kUnimplemented, HasSubstr("pickles are never read")));
}

TEST(NpyHeader, LimitsAndOptions) {
  NpyReaderOptions options;
  options.max_header_bytes = 20;
  EXPECT_THAT(Open(File(Text("'<f4'", "()"), "1234"), options),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_header")));
  options = {};
  options.allow_trailing_bytes = true;
  ASSERT_OK_AND_ASSIGN(const NpyReader longer, Open(File(Text("'<f4'", "()"), "12345678"), options));
  EXPECT_THAT(longer.notes(), ElementsAre("4 bytes behind the array are ignored"));
  // Empty strings take memory and no bytes of the file.
  const std::string empty = File(Text("'|S0'", "(9223372036854775807,)"));
  EXPECT_THAT(Open(empty), StatusIs(Code::kDataLoss));
  const std::string many = File(Text("'|S0'", "(268435456,)"));
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, Open(many));
  EXPECT_THAT(reader.Read(), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  const std::string code_point = File(Text("'<U1'", "(1,)"), absl::string_view("\x00\x00\x11\x00", 4));
  ASSERT_OK_AND_ASSIGN(const NpyReader unicode, Open(code_point));
  EXPECT_THAT(unicode.Read(), StatusIs(Code::kDataLoss, HasSubstr("code point 1114112")));
  EXPECT_THAT(unicode.Verify(), StatusIs(Code::kDataLoss));
  options = {};
  options.limits.max_file_decoded_bytes = 3;
  const std::string small = File(Text("'<f4'", "()"), "1234");
  ASSERT_OK_AND_ASSIGN(const NpyReader limited, Open(small, options));
  EXPECT_THAT(limited.Read(), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
}

}  // namespace
}  // namespace tensorcask
