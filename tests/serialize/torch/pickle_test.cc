// The recognizer of pickles: what it makes of each kind of value, and what it refuses.

#include "tensorcask/serialize/torch/internal/pickle.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/internal/tensor_walk.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tests/serialize/torch/torch_testing.h"
#include "tensorcask/tests/support/hex.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::torch::testing {
namespace {

using tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using namespace std::literals;  // NOLINT(google-build-using-namespace): ""s keeps NUL bytes

// A pickle, its tensors, and its values as JSON, in which a tensor is the number of its object.
struct Read {
  std::shared_ptr<const std::string> bytes;  // long bytes of the pickle are views of them
  Pickle pickle;
  std::vector<NamedTensor> tensors;
  std::string json;
};

absl::StatusOr<Read> ReadAll(std::string bytes, bool opaque = false) {
  Read read;
  read.bytes = std::make_shared<const std::string>(std::move(bytes));
  const size_t size = read.bytes->size();
  DecodeLimits limits;
  DecodeQuota quota = DecodeQuota::ForUnbacked(limits, ListingBudget::kBytesPerIndexByte * size);
  ListingBudget budget(limits);
  budget.AddIndex(size);
  absl::StatusOr<Pickle> pickle = ReadPickle(*read.bytes, {opaque, false}, &quota);
  if (!pickle.ok()) return pickle.status();
  read.pickle = *std::move(pickle);
  absl::StatusOr<std::vector<NamedTensor>> tensors = FindTensors(read.pickle, "", NameForm::kJoined, limits, &budget);
  if (!tensors.ok()) return tensors.status();
  read.tensors = *std::move(tensors);
  const ValueTree values = ToValues(read.pickle, {});
  ValueJsonOptions options;
  options.max_bytes = 1 << 20;
  absl::StatusOr<std::string> json = ValueToJson(values.root(), options);
  if (!json.ok()) return json.status();
  read.json = *std::move(json);
  return read;
}

// ---- Values ---------------------------------------------------------------------------------------------------------

struct ValueCase {
  const char* name;
  std::string value;  // instructions
  const char* json;
};

class PickledValue : public ::testing::TestWithParam<ValueCase> {};

TEST_P(PickledValue, IsThatOfPython) {
  const absl::StatusOr<Read> read = ReadAll(Pickled(GetParam().value));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->json, GetParam().json);
}

const ValueCase kValues[] = {
    {"None", "N", "null"},
    {"Bools", Tuple({Bool(true), Bool(false)}), "[true,false]"},
    {"Integers", List({"K\x07", "M\x01\x02", Int(-5), "\x8a\0"s, "\x8a\x01\xff"}), "[7,513,-5,0,-1]"},
    {"LongOfEightBytes", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s, "9223372036854775807"},
    {"LongOfUint64", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"s, "18446744073709551615"},
    {"BigInteger", "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", "119547037146038801333356"},
    {"NegativeBigInteger", "\x8a\x09\0\0\0\0\0\0\0\0\xff"s, "-18446744073709551616"},
    {"Floats", List({Float(0.1), Float(-2.5e300)}), "[0.1,-2.5e+300]"},
    {"Text", Text("gr\xc3\xb6\xc3\x9f\"e"), "\"gr\xc3\xb6\xc3\x9f\\\"e\""},
    {"ShortText", "\x8c\x02hi", "\"hi\""},
    {"TextOfPython2", "U\x02hi", "\"hi\""},
    {"BytesOfPython2", "U\x02\xff\x01", "{\"bytes\":\"ff01\"}"},
    {"Bytes", BytesValue("\x01\x02"), "{\"bytes\":\"0102\"}"},
    {"LatinBytes", Call(Global("_codecs", "encode"), {Text("a\xc3\xbf"), Text("latin1")}), "{\"bytes\":\"61ff\"}"},
    {"ByteArray", Call(Global("builtins", "bytearray"), {Text("\xc2\x80"), Text("latin-1")}), "{\"bytes\":\"80\"}"},
    {"Tuples", List({")", Tuple({Int(1)}), "K\1\x85", "K\1K\2\x86", "K\1K\2K\3\x87"}), "[[],[1],[1],[1,2],[1,2,3]]"},
    {"Append", "]K\1aK\2a", "[1,2]"},
    {"Dict", Dict({{Text("a"), Int(1)}, {Text("b"), "N"}}), "{\"a\":1,\"b\":null}"},
    {"IntegerKeys", Dict({{Int(3), Text("x")}}), "{\"3\":\"x\"}"},
    {"MixedKeys", Dict({{Int(3), Int(0)}, {Text("a"), Int(1)}}), "{\"map\":[[3,0],[\"a\",1]]}"},
    {"TheLastOfEqualKeys", Dict({{Text("a"), Int(1)}, {Text("b"), Int(2)}, {Text("a"), Int(3)}}), "{\"a\":3,\"b\":2}"},
    {"TrueIsOne", Dict({{Int(1), Int(5)}, {Bool(true), Int(6)}, {Float(1.0), Int(7)}}), "{\"1\":7}"},
    {"EqualTuplesAreOneKey",
     Dict({{Numbers({1, 2}), Int(5)}, {Call(Global("torch", "Size"), {Numbers({1, 2})}), Int(6)}}),
     "{\"map\":[[[1,2],6]]}"},
    {"EqualNumbersAreOneKey",
     Dict({{"\x8a\x09\0\0\0\0\0\0\0\x80\0"s, Int(1)},
           {Float(9223372036854775808.0), Int(2)},
           {Call(Global("builtins", "complex"), {Float(9223372036854775808.0), Float(-0.0)}), Int(3)}}),
     "{\"9223372036854775808\":3}"},
    {"EqualNamesAreOneKey", Dict({{Global("torch", "int8"), Int(1)}, {Global("torch", "int8"), Int(2)}}),
     "{\"map\":[[\"int8\",2]]}"},
    {"NanIsEqualToItselfAlone", Dict({{Float(NAN) + "q\1", Int(1)}, {Float(NAN), Int(2)}, {"h\1", Int(3)}}),
     "{\"map\":[[\"nan\",3],[\"nan\",2]]}"},
    {"EqualItemsOfASet", Call(Global("builtins", "frozenset"), {List({Int(2), Int(1), Bool(true), Float(2)})}),
     "[2,1]"},
    {"OrderedDict", Hooks() + "(" + Text("a") + "Nu", "{\"a\":null}"},
    {"OrderedDictOfPairs", Call(Global("collections", "OrderedDict"), {List({List({Text("a"), Int(2)})})}),
     "{\"a\":2}"},
    {"OrderedDictWithState", Hooks() + Dict({{Text("_metadata"), "N"}}) + "b", "{}"},
    {"DefaultDict", Call(Global("collections", "defaultdict"), {Global("__builtin__", "list")}) + Text("k") + "Ns",
     "{\"k\":null}"},
    {"DefaultDictOfADict", Call(Global("collections", "defaultdict"), {"N", Dict({{Text("n"), Int(5)}})}), "{\"n\":5}"},
    {"Counter", Call(Global("collections", "Counter"), {Dict({{Text("a"), Int(2)}})}), "{\"a\":2}"},
    {"Deque", Call(Global("collections", "deque"), {")", Int(9)}) + "(K\1K\2e", "[1,2]"},
    {"DequeIsACopy", Tuple({List({Int(1)}) + "q\1", Call(Global("collections", "deque"), {"h\1"}) + "K\2a"}),
     "[[1],[1,2]]"},
    {"DequeKeepsTheLastItems", Call(Global("collections", "deque"), {List({Int(1), Int(2), Int(3)}), Int(2)}), "[2,3]"},
    {"Sets", Tuple({"\x8f(K\1K\2\x90", Call(Global("__builtin__", "set"), {List({Int(4)})}), "(K\5\x91"}),
     "[[1,2],[4],[5]]"},
    {"Complex", Call(Global("builtins", "complex"), {Float(1.5), Float(-2)}), "[1.5,-2.0]"},
    {"Size", Call(Global("torch", "Size"), {Numbers({2, 3})}), "[2,3]"},
    {"Device", Call(Global("torch", "device"), {Text("cuda"), Int(1)}), "\"cuda:1\""},
    {"DType", Global("torch", "bfloat16"), "\"bfloat16\""},
    {"Path", Call(Global("pathlib", "PosixPath"), {Text("/"), Text("a"), Text("b")}), "\"/a/b\""},
    {"Namespace", Global("argparse", "Namespace") + ")\x81" + Dict({{Text("lr"), Float(0.5)}}) + "b",
     "{\"object\":\"argparse.Namespace\",\"arguments\":[],\"state\":{\"lr\":0.5}}"},
    {"NumpyScalars",
     List({Call(Global("numpy.core.multiarray", "scalar"), {NumpyDType("f8", "<"), BytesValue(Bytes(0.25))}),
           Call(Global("numpy._core.multiarray", "scalar"), {NumpyDType("i4", ">"), BytesValue("\0\0\1\0"s)})}),
     "[0.25,256]"},
    {"NumpyScalarOfAComplexNumber",
     Call(Global("numpy.core.multiarray", "scalar"), {NumpyDType("c8", ">"), BytesValue("\x3f\xc0\0\0\xc0\0\0\0"s)}),
     "[1.5,-2.0]"},
    {"NumpyArray", NumpyArray({2}, NumpyDType("u1", "|"), false, "\1\xff"), "[1,255]"},
    {"NumpyArrayOfNumpy2", NumpyArray({2}, NumpyDType("b1", "|"), false, "\1\0"s, "numpy._core.multiarray"),
     "[true,false]"},
    {"NumpyArrayAsText",
     Call(Global("numpy.core.multiarray", "_reconstruct"),
          {Global("numpy", "ndarray"), Numbers({0}), BytesValue("b")}) +
         Tuple({Int(1), Numbers({1}), NumpyDType("i2", "<"), Bool(false),
                Call(Global("_codecs", "encode"), {Text("\xc3\xbf\xc2\x80"), Text("latin1")})}) +
         "b",
     "[-32513]"},
    {"NumpyArrayInFortranOrder", NumpyArray({2, 3}, NumpyDType("i1", "|"), true, "\1\4\2\5\3\6"), "[[1,2,3],[4,5,6]]"},
    {"NumpyArrayOfThreeAxes", NumpyArray({2, 1, 2}, NumpyDType("i1", "|"), true, "\1\3\2\4"), "[[[1,2]],[[3,4]]]"},
    {"NumpyArrayBigEndianInFortranOrder", NumpyArray({2, 2}, NumpyDType("u2", ">"), true, "\0\1\0\3\0\2\1\0"s),
     "[[1,2],[3,256]]"},
    {"NumpyArrayOfComplexNumbers", NumpyArray({1}, NumpyDType("c8", ">"), false, "\x3f\xc0\0\0\xc0\0\0\0"s),
     "[[1.5,-2.0]]"},
    {"NumpyArrayOfHalves", NumpyArray({2}, NumpyDType("f2", "<"), false, "\0\x3c\0\xc0"s), "[1.0,-2.0]"},
    {"NumpyArrayWithoutAxes", NumpyArray({}, NumpyDType("i8", "<"), false, Bytes(int64_t{-7})), "-7"},
    {"NumpyArraysWithoutNumbers",
     List({NumpyArray({0}, NumpyDType("f4", "<"), false, ""), NumpyArray({2, 0, 9}, NumpyDType("f4", "<"), true, ""),
           NumpyArray({0, 9}, NumpyDType("f4", "<"), false, "")}),
     "[[],[[],[]],[]]"},
    {"NumpyArrayOfManyLists", NumpyArray({2000000000, 2000000000, 0}, NumpyDType("f4", "<"), false, ""),
     "{\"object\":\"numpy.ndarray\",\"arguments\":[\"float32\",[2000000000,2000000000,0],{\"bytes\":\"\"}],"
     "\"state\":null}"},
    {"NumpyArrayOfTexts", NumpyArray({1}, NumpyDType("S2", "|"), false, "ab"),
     "{\"object\":\"numpy.ndarray\",\"arguments\":[1,[1],\"S2\",false,{\"bytes\":\"6162\"}],\"state\":null}"},
    {"NumpyArrayOfTextsOfEightCharacters",  // "U8", which safetensors calls uint8
     NumpyArray({1}, NumpyDType("U8", "<"), false, "a"s + std::string(31, '\0')),
     "{\"object\":\"numpy.ndarray\",\"arguments\":[1,[1],\"U8\",false,{\"bytes\":\"61"
     "00000000000000000000000000000000000000000000000000000000000000\"}],\"state\":null}"},
    {"NumpyArrayFromBuffer",
     Call(Global("numpy._core.numeric", "_frombuffer"),
          {"\x96" + Bytes(uint64_t{4}) + "\1\3\2\4", NumpyDType("u1", "|"), Numbers({2, 2}), Text("F")}),
     "[[1,2],[3,4]]"},
    {"Memo", List({Text("a"), "q\5", "h\5", "0", "h\5"}), "[\"a\",\"a\"]"},
    {"Duplicate", List({"K\1", "2"}), "[1,1]"},
    {"PopMark", List({"K\1", "(K\2K\3", "1"}), "[1]"},
};
INSTANTIATE_TEST_SUITE_P(Kinds, PickledValue, ::testing::ValuesIn(kValues),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PickleTest, ProtocolsFourAndFiveHaveFramesAndNumberedMemos) {
  for (const char protocol : {'\4', '\5'}) {
    const std::string body =
        "}\x94\x8c\1a\x94K\1s\x8c\5torch\x8c\5int64\x93\x94"
        "0"
        "h\1"
        "0"
        ".";
    const std::string bytes =
        absl::StrCat("\x80", absl::string_view(&protocol, 1), "\x95", Bytes(static_cast<uint64_t>(body.size())), body);
    const absl::StatusOr<Read> read = ReadAll(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->json, "{\"a\":1}");
    EXPECT_EQ(read->pickle.size_bytes, bytes.size());
  }
}

std::vector<std::string> NamesOf(const Read& read) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : read.tensors) names.push_back(tensor.name);
  return names;
}

TEST(PickleTest, KeysThatAreNumbersHaveTheirShortestText) {
  const std::string weight = Tensor(Storage("FloatStorage", "0", 1), 0, {}, {});
  const absl::StatusOr<Read> read = ReadAll(Pickled(Dict({{Float(0.1234567), weight},
                                                          {Float(0.1234568), weight},
                                                          {Float(2), weight},
                                                          {"\x8a\x09\1\0\0\0\0\0\0\x80\0"s, weight},
                                                          {Global("torch", "int8"), weight}})));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(NamesOf(*read),
            (std::vector<std::string>{"0.1234567", "0.1234568", "2.0", "9223372036854775809", "torch.int8"}));
}

TEST(PickleTest, AttributesOfATensorAreADictOrADictAndSlots) {
  const std::string weight = Tensor(Storage("FloatStorage", "0", 1), 0, {}, {});
  const std::string arguments =
      Tuple({Storage("FloatStorage", "0", 1), Int(0), Numbers({}), Numbers({}), Bool(false), Hooks()});
  const std::string in_dict = Dict({{Text("in_dict"), weight}, {Text("tag"), Int(1)}});
  const std::string in_slot = Dict({{Text("in_slot"), weight}});
  const std::vector<std::string> one = {"w", "w.in_dict"};
  const std::vector<std::string> both = {"w", "w.in_dict", "w.in_slot"};
  for (const auto& [state, names] :
       {std::pair(in_dict, one), std::pair(Tuple({in_dict, in_slot}), both), std::pair(Tuple({in_dict, "N"}), one)}) {
    for (const std::string& value :
         {Call(
              Global("torch._tensor", "_rebuild_from_type_v2"),
              {Global("torch._utils", "_rebuild_tensor_v2"), Global("torch.nn.parameter", "Buffer"), arguments, state}),
          Call(Global("torch._utils", "_rebuild_parameter_with_state"), {weight, Bool(true), Hooks(), state})}) {
      const absl::StatusOr<Read> read = ReadAll(Pickled(Dict({{Text("w"), value}})));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(NamesOf(*read), names);
    }
  }
}

TEST(PickleTest, ATensorOfADeviceKeepsItsDTypeAndGetsRequiresGrad) {
  const absl::StatusOr<Read> read = ReadAll(Pickled(Call(
      Global("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"),
      {Tensor(Storage("FloatStorage", "0", 1), 0, {}, {}), Global("torch", "float32"), Text("xla:0"), Bool(true)})));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->tensors.size(), 1u);
  EXPECT_TRUE(read->pickle.tensors[read->pickle.object(read->tensors[0].object).index].requires_grad);
}

TEST(PickleTest, OpaqueObjectsKeepWhatThePickleGivesThem) {
  const std::string bytes =
      Pickled(Tuple({Call(Global("os", "system"), {Text("ls")}),
                     Global("my.module", "Model") + ")\x81" +
                         Dict({{Text("w"), Tensor(Storage("FloatStorage", "0", 1), 0, {}, {})}}) + "b",
                     Global("my.module", "List") + ")\x81" + "K\1a"}));
  EXPECT_THAT(ReadAll(bytes).status(), StatusIs(Code::kUnimplemented, HasSubstr("os.system")));
  const absl::StatusOr<Read> read = ReadAll(bytes, /*opaque=*/true);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->tensors.size(), 1u);
  EXPECT_EQ(read->tensors[0].name, "1.w");
  EXPECT_EQ(read->json,
            "[{\"object\":\"os.system\",\"arguments\":[\"ls\"],\"state\":null},"
            "{\"object\":\"my.module.Model\",\"arguments\":[],\"state\":{\"w\":null}},"
            "{\"object\":\"my.module.List\",\"arguments\":[],\"state\":[null,[1],null]}]");
  EXPECT_EQ(read->pickle.opaque_names, (std::vector<std::string>{"os.system", "my.module.Model", "my.module.List"}));
}

TEST(PickleTest, AttributesOfDictsAreCountedAndNamed) {
  const std::string hidden = Dict({{Text("note"), Text("x")}, {Text("_metadata"), "}"}}) + "q\1";
  const std::string more = Dict({{Text("note"), Int(1)}, {Text("sizes"), List({Int(1), "h\1"})}});
  const absl::StatusOr<Read> read =
      ReadAll(Pickled(List({Hooks() + hidden + "b", Hooks() + "h\1b", Hooks() + "}b", Hooks() + more + "b",
                            Hooks() + Dict({{Text("_metadata"), Tensor(Storage("FloatStorage", "0", 1), 0, {}, {})}}) +
                                "b" + Text("a") + "Ns"})));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->json, "[{},{},{},{},{\"a\":null}]");
  EXPECT_EQ(read->tensors.size(), 0u);
  EXPECT_EQ(read->pickle.num_dict_states, 4u);
  EXPECT_EQ(read->pickle.dict_attributes, (std::vector<std::string>{"note", "sizes"}));
}

TEST(PickleTest, AttributesOfDictsMayBeOpaqueObjects) {
  const auto pickled = [](const std::string& state) {
    return Pickled(Hooks() + Dict({{Text("config"), Global("my.module", "Config") + ")\x81" + state + "b"}}) + "b");
  };
  const absl::StatusOr<Read> read = ReadAll(pickled("}"), /*opaque=*/true);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->json, "{}");
  EXPECT_EQ(read->pickle.dict_attributes, (std::vector<std::string>{"config"}));
  EXPECT_THAT(ReadAll(pickled(Dict({{Text("w"), Storage("FloatStorage", "0", 1)}})), /*opaque=*/true).status(),
              StatusIs(Code::kUnimplemented, HasSubstr("the attribute \"config\", which is a tensor or has one")));
}

TEST(PickleTest, AttributesOfAParameterOfAnOpaqueClassAreItsState) {
  const absl::StatusOr<Read> read = ReadAll(
      Pickled(Call(Global("torch._utils", "_rebuild_parameter_with_state"),
                   {Call(Global("my.module", "Model"), {}), Bool(true), Hooks(), Dict({{Text("tag"), Int(1)}})})),
      /*opaque=*/true);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->json, "{\"object\":\"my.module.Model\",\"arguments\":[],\"state\":{\"tag\":1}}");
}

TEST(PickleTest, OpaqueObjectsMayContainThemselves) {
  const std::string object = Global("my.module", "Node") + ")\x81q\1";
  const std::string weight = Tensor(Storage("FloatStorage", "0", 1), 0, {}, {});
  struct {
    std::string value;
    const char* name;  // of its tensor
    const char* json;
  } const rows[] = {
      {object + Dict({{Text("parent"), "h\1"}, {Text("w"), weight}}) + "b", "w",
       R"({"object":"my.module.Node","arguments":[],"state":{"parent":)"
       R"({"object":"my.module.Node","arguments":null,"state":null},"w":null}})"},
      {Tuple({weight, object + Dict({{"h\1", "K\1"}}) + "b"}), "0",  // a key of its own state
       R"([null,{"object":"my.module.Node","arguments":[],"state":{"map":[[)"
       R"({"object":"my.module.Node","arguments":null,"state":null},1]]}}])"},
      {"]q\2" + object + Dict({{Text("all"), "h\2"}}) + "ba" + weight + "a", "1",  // a list that the object has
       R"([{"object":"my.module.Node","arguments":[],"state":{"all":null}},null])"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.json);
    EXPECT_THAT(ReadAll(Pickled(row.value)).status(), StatusIs(Code::kUnimplemented, HasSubstr("my.module.Node")));
    const absl::StatusOr<Read> read = ReadAll(Pickled(row.value), /*opaque=*/true);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->tensors.size(), 1u);
    EXPECT_EQ(read->tensors[0].name, row.name);
    EXPECT_EQ(read->json, row.json);
  }
  // Beside an opaque object, but not through it.
  EXPECT_THAT(ReadAll(Pickled(object + Dict({{Text("a"), "]q\2h\2a"}}) + "b"), /*opaque=*/true).status(),
              StatusIs(Code::kUnimplemented, HasSubstr("contains itself")));
}

// ---- What is refused ------------------------------------------------------------------------------------------------

struct RejectCase {
  const char* name;
  std::string bytes;  // the whole pickle
  Code code;
  const char* says;
};

class PickleRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(PickleRejects, WithCodeAndMessage) {
  EXPECT_THAT(ReadAll(GetParam().bytes).status(), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
}

const std::string kFloats = Storage("FloatStorage", "0", 4);

// A part of the storage "0", as files before version 0.4 have it.
std::string Part(absl::string_view key, int32_t offset, int32_t count) {
  return Tuple({Text("storage"), Global("torch", "FloatStorage"), Text("0"), Text("cpu"), Int(4),
                Tuple({Text(key), Int(offset), Int(count)})}) +
         "Q";
}

const RejectCase kRejected[] = {
    {"Program", Pickled(Call(Global("posix", "system"), {Text("id")})), Code::kUnimplemented,
     "names \"posix.system\", which would run a program"},
    {"Eval", Pickled(Call(Global("__builtin__", "eval"), {Text("1")})), Code::kUnimplemented,
     "\"builtins.eval\", which would run Python code"},
    {"GetAttr", Pickled(Call(Global("__builtin__", "getattr"), {Global("torch", "Tensor"), Text("data")})),
     Code::kUnimplemented, "names \"builtins.getattr\", which would reach any function"},
    {"GetAttrOfAPlainClass", Pickled(Call(Global("builtins", "getattr"), {Global("argparse", "Namespace"), Text("a")})),
     Code::kUnimplemented, "which would reach any function"},
    {"StackGlobal", "\x80\x04\x8c\2os\x8c\6system\x93.", Code::kUnimplemented, "os.system"},
    {"UnknownClass", Pickled(Global("my.module", "Model")), Code::kUnimplemented, "is not one of the names"},
    {"DottedName", Pickled(Global("torch", "os.system")), Code::kUnimplemented, "torch.os.system"},
    {"LoadFromBytes", Pickled(Global("torch.storage", "_load_from_bytes")), Code::kUnimplemented,
     "obey another pickle"},
    {"Inst", "\x80\2(ios\nsystem\n.", Code::kDataLoss, "INST"},
    {"Obj", "\x80\2(No.", Code::kDataLoss, "OBJ"},
    {"Ext", "\x80\2\x82\1.", Code::kDataLoss, "EXT1"},
    {"PersId", "\x80\2P1\n.", Code::kDataLoss, "PERSID"},
    {"ProtocolZero", "\x80\2I1\n.", Code::kDataLoss, "protocol 0"},
    {"OutOfBand", "\x80\5\x97.", Code::kDataLoss, "NEXT_BUFFER"},
    {"UnknownInstruction", "\x80\2\xee.", Code::kDataLoss, "instruction 238"},
    {"NoPickle", "hello", Code::kDataLoss, "does not begin"},
    {"Empty", "", Code::kOutOfRange, "no bytes"},
    {"ProtocolSix", "\x80\6N.", Code::kDataLoss, "protocol 6"},
    {"NestedPickle", "\x80\2N\x80\2.", Code::kDataLoss, "another pickle begins"},
    {"NoStop", "\x80\2N", Code::kOutOfRange, "ends"},
    {"NothingAtStop", "\x80\2.", Code::kDataLoss, "0 values on its stack"},
    {"TwoAtStop", "\x80\2NN.", Code::kDataLoss, "2 values on its stack"},
    {"MarkAtStop", "\x80\2(.", Code::kDataLoss, "on its stack"},
    {"TextPastTheEnd",
     "\x80\2X\xff\xff\xff\xff"
     "a.",
     Code::kOutOfRange, "4294967295 bytes are wanted"},
    {"NegativeLength", "\x80\2\x8b\xff\xff\xff\xff.", Code::kDataLoss, "a length of -1"},
    {"HugeInteger", absl::StrCat("\x80\2\x8b", Bytes(int32_t{256}), std::string(256, 'x'), "."), Code::kDataLoss,
     "an integer of 256 bytes"},
    {"FrameThatLies", "\x80\4\x95\x09\0\0\0\0\0\0\0N."s, Code::kOutOfRange, "a frame of 9 bytes"},
    {"FrameTooShort", "\x80\4\x95\1\0\0\0\0\0\0\0K\1."s, Code::kDataLoss, "leaves its frame"},
    {"StopInsideAFrame", "\x80\4\x95\3\0\0\0\0\0\0\0N.N"s, Code::kDataLoss, "ends inside a frame"},
    {"MemoNeverSet", "\x80\2h\5.", Code::kDataLoss, "memo 5 was never set"},
    {"MemoCutShort", "\x80\2Nr", Code::kOutOfRange, "ends"},
    {"MemoPastTheBytes", "\x80\2Nr\0\0\0\x80."s, Code::kDataLoss, "memo 2147483648"},
    {"MemoOfNothing", "\x80\2q\1.", Code::kDataLoss, "takes 1 values"},
    {"Underflow", "\x80\2N\x87.", Code::kDataLoss, "takes 3 values; the stack has 1"},
    {"BelowAMark", "\x80\2N(\x85.", Code::kDataLoss, "takes 1 values; the stack has 0"},
    {"NoMark", "\x80\2Nt.", Code::kDataLoss, "wants a mark"},
    {"OddItems", "\x80\2}(Nu.", Code::kDataLoss, "without a value"},
    {"AppendToDict", "\x80\2}Na.", Code::kDataLoss, "not a list"},
    {"AppendToTuple", "\x80\2)(Ne.", Code::kDataLoss, "not a list"},
    {"SetItemOfList", "\x80\2]NNs.", Code::kDataLoss, "not a dict"},
    {"UnhashableKey", "\x80\2}]Ns.", Code::kDataLoss, "a key of a dict"},
    {"UnhashableKeyOfPairs", Pickled(Call(Global("collections", "OrderedDict"), {List({Tuple({"]\x85", Int(1)})})})),
     Code::kDataLoss, "a key of a dict"},
    {"UnhashableItem", Pickled("(]\x91"), Code::kDataLoss, "an item of a set"},
    {"CallOfText", Pickled(Text("a") + ")R"), Code::kDataLoss, "not a function"},
    {"CallWithList", Pickled(Hooks().substr(0, Hooks().size() - 3) + "]R"), Code::kDataLoss, "not a tuple"},
    {"NewObjectOfAFunction",
     Pickled(Global("torch._utils", "_rebuild_tensor_v2") +
             Tuple({kFloats, Int(0), Numbers({4}), Numbers({1}), Bool(false), Hooks()}) + "\x81"),
     Code::kDataLoss, "an object of \"torch._utils._rebuild_tensor_v2\" by NEWOBJ"},
    {"NewObjectOfADict", Pickled(Global("collections", "OrderedDict") + ")}\x92"), Code::kDataLoss, "by NEWOBJ"},
    {"DequeOfMoreItems", Pickled(Call(Global("collections", "deque"), {")", Int(1)}) + "(NNe"), Code::kDataLoss,
     "a deque of at most 1 items gets more"},
    {"DequeOfADict", Pickled(Call(Global("collections", "deque"), {"}"})), Code::kDataLoss, "it takes a list"},
    {"CounterOfPairs", Pickled(Call(Global("collections", "Counter"), {List({})})), Code::kDataLoss,
     "a dict of counts"},
    {"TensorAsAttributeOfADict", Pickled(Hooks() + Dict({{Text("hidden"), Tensor(kFloats, 0, {4}, {1})}}) + "b"),
     Code::kUnimplemented, "a dict has the attribute \"hidden\", which is a tensor or has one"},
    {"StorageInAnAttributeOfADict",
     Pickled(Hooks() + Dict({{Text("a"), Int(1)}, {Text("hidden"), List({Dict({{Text("b"), Tuple({kFloats})}})})}}) +
             "b"),
     Code::kUnimplemented, "the attribute \"hidden\""},
    {"TensorInAnObjectInAnAttributeOfADict",
     Pickled(Hooks() +
             Dict({{Text("hidden"), Global("argparse", "Namespace") + ")\x81" +
                                        Dict({{Text("w"), Tensor(kFloats, 0, {4}, {1})}}) + "b"}}) +
             "b"),
     Code::kUnimplemented, "the attribute \"hidden\""},
    {"TensorInAnAttributeLater",  // the state is in the memo, and gets the tensor when it is no longer on the stack
     Pickled("(" + Hooks() + "}q\1" + Text("a") + "]q\2sb" + "h\2" + Tensor(kFloats, 0, {4}, {1}) + "at"),
     Code::kUnimplemented, "the attribute \"a\""},
    {"AttributeOfADictLater", Pickled("(" + Hooks() + "}q\1b" + "h\1" + Text("hidden") + kFloats + "st"),
     Code::kUnimplemented, "the attribute \"hidden\""},
    {"UnknownClassAsAttributeOfADict", Pickled(Hooks() + Dict({{Text("a"), Global("my.module", "Model")}}) + "b"),
     Code::kUnimplemented, "is not one of the names"},
    {"NumberAsNameOfAnAttribute", Pickled(Hooks() + Dict({{Int(1), Int(1)}}) + "b"), Code::kDataLoss,
     "an attribute whose name is not text"},
    {"SlotsOfADict", Pickled(Hooks() + Tuple({"}", "}"}) + "b"), Code::kDataLoss, "are not a dict"},
    {"CallOfStorageClass", Pickled(Call(Global("torch", "FloatStorage"), {})), Code::kDataLoss, "only name"},
    {"StateOfAGlobal", Pickled(Global("torch", "Tensor") + "}b"), Code::kDataLoss, "has none"},
    {"StateOfAList", Pickled("]}b"), Code::kDataLoss, "has none"},
    {"SameKeyTwice", Pickled(Tuple({kFloats, Storage("LongStorage", "0", 4)})), Code::kDataLoss, "declared twice"},
    {"PartOfTwoPlaces", Pickled(Tuple({Part("7", 0, 2), Part("7", 1, 2)})), Code::kDataLoss,
     "a part \"7\" of storage \"0\" is declared twice"},
    {"KeyOfAStorageAndAPart", Pickled(Part("0", 0, 2)), Code::kDataLoss, "both a storage and a part of one"},
    {"KeyOfAPartAndAStorage", Pickled(Tuple({Part("7", 0, 2), Storage("FloatStorage", "7", 4)})), Code::kDataLoss,
     "both a storage and a part of one"},
    {"SameKeyOfTwoSizes", Pickled(Tuple({kFloats, Storage("FloatStorage", "0", 5)})), Code::kDataLoss,
     "declared twice"},
    {"IdOfText", Pickled(Text("storage") + "Q"), Code::kDataLoss, "not a tuple"},
    {"IdOfAModule", Pickled(Tuple({Text("module"), "N"}) + "Q"), Code::kDataLoss, "does not begin with \"storage\""},
    {"ShortId", Pickled(Tuple({Text("storage"), "N"}) + "Q"), Code::kDataLoss, "without a class"},
    {"StorageOfADict",
     Pickled(Tuple({Text("storage"), Global("collections", "OrderedDict"), Text("0"), Text("cpu"), Int(1)}) + "Q"),
     Code::kDataLoss, "has the class"},
    {"NegativeStorage", Pickled(Storage("FloatStorage", "0", -4)), Code::kDataLoss, "-4 elements"},
    {"NegativeSize", Pickled(Tensor(kFloats, 0, {-1}, {1})), Code::kDataLoss, "has -1 for an axis"},
    {"NegativeStride", Pickled(Tensor(kFloats, 0, {2}, {-1})), Code::kDataLoss, "has -1 for an axis"},
    {"NegativeOffset", Pickled(Tensor(kFloats, -1, {1}, {1})), Code::kDataLoss, "begins at element -1"},
    {"OffsetPastTheStorage", Pickled(Tensor(kFloats, 4, {1}, {1})), Code::kDataLoss, "its storage has 4"},
    {"StridePastTheStorage", Pickled(Tensor(kFloats, 0, {2, 2}, {4, 1})), Code::kDataLoss, "its storage has 4"},
    {"SizeOverflow", Pickled(Tensor(kFloats, 0, {2000000000, 2000000000, 2000000000}, {0, 0, 0})), Code::kDataLoss,
     "a tensor"},
    {"RanksDiffer", Pickled(Tensor(kFloats, 0, {2, 2}, {1})), Code::kDataLoss, "2 sizes, but 1 strides"},
    {"RankOf1000", Pickled(Tensor(kFloats, 0, std::vector<int32_t>(1000, 1), std::vector<int32_t>(1000, 1))),
     Code::kDataLoss, "1000 axes"},
    {"TensorOfText", Pickled(Call(Global("torch._utils", "_rebuild_tensor_v2"), {Text("0"), Int(0), ")", ")"})),
     Code::kDataLoss, "a storage, an offset"},
    {"TensorOfOneArgument", Pickled(Call(Global("torch._utils", "_rebuild_tensor_v2"), {kFloats})), Code::kDataLoss,
     "called with 1 argument"},
    {"UnknownMetadata", Pickled(Tensor(kFloats, 0, {4}, {1}, {Dict({{Text("x"), Bool(true)}})})), Code::kUnimplemented,
     "only \"conj\" and \"neg\""},
    {"NumpyBytesOfAnotherShape", Pickled(NumpyArray({3}, NumpyDType("i2", "<"), false, "abcd")), Code::kDataLoss,
     "has 4 bytes, which are not those of int16 [3]"},
    {"NumpyShapeThatOverflows",
     Pickled(NumpyArray({2000000000, 2000000000, 2000000000}, NumpyDType("i2", "<"), false, "")), Code::kDataLoss,
     "an array of NumPy: "},
    {"NumpyNegativeAxis", Pickled(NumpyArray({-1}, NumpyDType("i2", "<"), false, "")), Code::kDataLoss, "at least 0"},
    {"NumpyRankOf65", Pickled(NumpyArray(std::vector<int32_t>(65, 1), NumpyDType("u1", "|"), false, "a")),
     Code::kDataLoss, "65 axes"},
    {"NumpyTwoStates",
     Pickled(NumpyArray({1}, NumpyDType("u1", "|"), false, "a") +
             Tuple({Int(1), Numbers({1}), NumpyDType("u1", "|"), Bool(false), BytesValue("b")}) + "b"),
     Code::kDataLoss, "two states"},
    {"NumpyNumbersOfText",
     Pickled(Call(Global("numpy.core.multiarray", "_reconstruct"),
                  {Global("numpy", "ndarray"), Numbers({0}), BytesValue("b")}) +
             Tuple({Int(1), Numbers({1}), NumpyDType("u1", "|"), Bool(false), Text("a")}) + "b"),
     Code::kDataLoss, "not bytes"},
    {"NumpyBufferInNoOrder",
     Pickled(Call(Global("numpy.core.numeric", "_frombuffer"),
                  {BytesValue("a"), NumpyDType("u1", "|"), Numbers({1}), Text("A")})),
     Code::kDataLoss, "an order"},
    {"TensorOfAnotherDType",
     Pickled(Call(
         Global("torch._utils", "_rebuild_device_tensor_from_numpy"),
         {NumpyArray({1}, NumpyDType("u1", "|"), false, "a"), Global("torch", "int64"), Text("xla:0"), Bool(false)})),
     Code::kUnimplemented, "stored as an array of uint8"},
    {"TensorOfTexts",
     Pickled(Call(
         Global("torch._utils", "_rebuild_device_tensor_from_numpy"),
         {NumpyArray({1}, NumpyDType("S1", "|"), false, "a"), Global("torch", "int64"), Text("xla:0"), Bool(false)})),
     Code::kDataLoss, "an array of numbers"},
    {"CpuTensorOfAnotherDType",
     Pickled(Call(Global("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"),
                  {Tensor(kFloats, 0, {4}, {1}), Global("torch", "float16"), Text("xla:0"), Bool(false)})),
     Code::kUnimplemented, "\"torch.float16\" that is stored as float32"},
    {"TensorAsKey", Pickled(Dict({{Tensor(kFloats, 0, {4}, {1}), Int(1)}})), Code::kUnimplemented, "a key of a dict"},
    {"TensorInAKey", Pickled(Dict({{Tuple({Tensor(kFloats, 0, {4}, {1})}), Int(1)}})), Code::kUnimplemented,
     "a key of a dict"},
    {"ListInItself", "\x80\2]q\1h\1a.", Code::kUnimplemented, "contains itself"},
    {"KeyOfItself", Pickled(Global("argparse", "Namespace") + ")\x81q\1" + Dict({{"h\1", "K\1"}}) + "b"),
     Code::kUnimplemented, "contains itself"},
    {"KeyWithItself", Pickled(Global("argparse", "Namespace") + ")\x81q\1" + Dict({{"h\1\x85", "K\1"}}) + "b"),
     Code::kUnimplemented, "contains itself"},
    {"DeepKey", absl::StrCat("\x80\2})", std::string(100000, '\x85'), "Ns."), Code::kUnimplemented, "nested"},
    {"DictInItself", "\x80\2}q\1Nh\1s.", Code::kUnimplemented, "contains itself"},
    {"Deep", absl::StrCat("\x80\2", std::string(100000, ']'), std::string(99999, 'a'), "."), Code::kUnimplemented,
     "nested"},
};
INSTANTIATE_TEST_SUITE_P(Malformed, PickleRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

// Lists that hold the one before twice: 2^34 ways to one tensor, in 200 bytes.
TEST(PickleTest, WaysAreCountedBeforeNamesAreMade) {
  std::string value = Tensor(kFloats, 0, {4}, {1});
  for (char i = 0; i < 34; ++i) {
    const std::string slot(1, i);
    value += absl::StrCat("q", slot, "0](h", slot, "h", slot, "e");
  }
  EXPECT_THAT(ReadAll(Pickled(value)).status(), StatusIs(Code::kResourceExhausted, HasSubstr("17179869184 ways")));
}

// What a few bytes repeat may not take memory without end.
TEST(PickleTest, MemoryIsThatOfTheBytes) {
  std::string value = List({Text(std::string(60000, 'x')), "q\1"});
  value += "(";
  for (int i = 0; i < 100000; ++i) value += Global("_codecs", "encode") + "h\1" + Text("latin1") + "\x86R";
  value += "e";
  EXPECT_THAT(ReadAll(Pickled(value)).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

// A list of numbers takes many times the bytes of small ones.
TEST(PickleTest, LargeArraysOfNumpyAreBytes) {
  const std::string bytes(1024, '\1');
  const absl::StatusOr<Read> read =
      ReadAll(Pickled(List({NumpyArray({1023}, NumpyDType("u1", "|"), false, bytes.substr(1)),
                            NumpyArray({512, 2}, NumpyDType("u1", "|"), false, bytes)})));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->json, HasSubstr("[[1,1,1,"));
  EXPECT_THAT(read->json, HasSubstr("1,1],{\"object\":\"numpy.ndarray\",\"arguments\":[\"uint8\",[512,2],{\"bytes\":"));
  const ValueTree values = ToValues(read->pickle, {});
  EXPECT_EQ(values.root().item(0).item(0).bits(), 8);
  EXPECT_EQ(values.root().item(1).arguments().item(2).text(), bytes);
}

TEST(PickleTest, EmptyStoragesMayHaveSeveralTypes) {
  const absl::StatusOr<Read> read = ReadAll(Pickled(Tuple(
      {Tensor(Storage("FloatStorage", "0", 0), 0, {0}, {1}), Tensor(Storage("LongStorage", "0", 0), 0, {0}, {1})})));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->pickle.tensors.size(), 2u);
  EXPECT_EQ(read->pickle.tensors[0].dtype, DType::kFloat32);
  EXPECT_EQ(read->pickle.tensors[1].dtype, DType::kInt64);
}

// The example of FORMAT.md section 7; what stands after '#' is for people.
TEST(PickleTest, TheExampleIsRead) {
  std::ifstream in("serialize/torch/FORMAT.md");
  ASSERT_TRUE(in.good());
  std::string line;
  while (std::getline(in, line) && line != "```hex") {
  }
  std::string bytes;
  while (std::getline(in, line) && line != "```") {
    for (const absl::string_view digits : absl::StrSplit(line.substr(0, line.find('#')), ' ', absl::SkipEmpty())) {
      bytes += ::tensorcask::testing::BytesOfHex(digits);
    }
  }
  const absl::StatusOr<Read> read = ReadAll(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->pickle.size_bytes, bytes.size());
  ASSERT_EQ(read->tensors.size(), 1u);
  EXPECT_EQ(read->tensors[0].name, "w");
  const PickledTensor& tensor = read->pickle.tensors[0];
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  ASSERT_EQ(read->pickle.storages.size(), 1u);
  EXPECT_EQ(read->pickle.storages[0].num_elements, 2u);
  EXPECT_EQ(read->pickle.object(read->pickle.storages[0].key).text, "0");
}

}  // namespace
}  // namespace tensorcask::torch::testing
