// Models and sequences: where their tensors are, and what the tensors are called.

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using Code = absl::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string Bytes(const std::string& name, char value) { return RawTensor(2, {1}, std::string(1, value), name); }

// The names with the one byte of each tensor.
std::vector<std::pair<std::string, std::string>> Tensors(const OnnxReader& reader) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const OnnxEntry& entry : reader.entries()) {
    const absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
    found.emplace_back(entry.name, tensor.ok() ? std::string(tensor->bytes()) : tensor.status().ToString());
  }
  return found;
}

absl::StatusOr<OnnxReader> Open(const std::string& bytes, const OnnxReaderOptions& options = {}) {
  static std::deque<std::string> kept;  // a source does not keep its bytes
  kept.push_back(bytes);
  return OnnxReader::OpenSource(MakeMemorySource("m.onnx", kept.back()), options);
}

TEST(OnnxModel, FindsInitializersOfAllGraphs) {
  const std::string loop = Initializer(Bytes("deep", '3'));
  const std::string then_branch = NodeWithGraph("loop", "body", loop) + Initializer(Bytes("b", '2'));
  const std::string function =
      Sub(25, Sub(1, "f") + Sub(7, Sub(5, Sub(1, "g") + Sub(6, Initializer(Bytes("in_function", '5'))))));
  const std::string training =
      Sub(20, Sub(1, Initializer(Bytes("start", '6'))) + Sub(2, Initializer(Bytes("step", '7'))));
  const std::string model =
      Model(NodeWithGraph("if", "then_branch", then_branch) + Initializer(Bytes("w", '1')), function + training);
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(model));
  EXPECT_EQ(reader.kind(), OnnxReader::Kind::kModel);
  EXPECT_THAT(Tensors(reader), UnorderedElementsAre(Pair("w", "1"), Pair("b", "2"), Pair("deep", "3"),
                                                    Pair("in_function", "5"), Pair("start", "6"), Pair("step", "7")));
}

TEST(OnnxModel, GivesNamesOfSeveralGraphsTheirPath) {
  const std::string b = Initializer(Bytes("b", '2'));
  const std::string inner = NodeWithGraph("loop", "body", Initializer(Bytes("b", '3')));
  const std::string model = Model(NodeWithGraph("if", "then_branch", b) + NodeWithGraph("", "else_branch", inner) +
                                  Initializer(Bytes("b", '1')) + Initializer(Bytes("c", '4')));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(model));
  EXPECT_THAT(Tensors(reader), UnorderedElementsAre(Pair("b", "1"), Pair("c", "4"), Pair("if.then_branch/b", "2"),
                                                    Pair("node 1.else_branch/loop.body/b", "3")));
}

TEST(OnnxModel, NumbersGraphsOfNodesWithEqualNames) {
  const auto branch = [](char value) { return NodeWithGraph("if", "then_branch", Initializer(Bytes("b", value))); };
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(Model(branch('1') + branch('2'))));
  EXPECT_THAT(Tensors(reader), UnorderedElementsAre(Pair("if.then_branch#1/b", "1"), Pair("if.then_branch#2/b", "2")));
}

TEST(OnnxModel, RefusesTwoTensorsOfOneGraphWithOneName) {
  EXPECT_THAT(Open(Model(Initializer(Bytes("b", '1')) + Initializer(Bytes("b", '2')))).status(),
              StatusIs(Code::kDataLoss, HasSubstr("two tensors of one graph have the name \"b\"")));
}

TEST(OnnxModel, RefusesNamesThatMeetAPath) {
  const auto branch = [](const std::string& name, const std::string& tensor) {
    return NodeWithGraph(name, "g", Initializer(Bytes(tensor, '1')));
  };
  const std::string model = Model(branch("a", "b") + branch("c", "b") + Initializer(Bytes("a.g/b", '2')) +
                                  Initializer(Bytes("a.g#1/b", '3')));
  EXPECT_THAT(Open(model).status(), StatusIs(Code::kDataLoss, HasSubstr("would be listed as \"a.g#1/b\"")));
}

TEST(OnnxModel, KeepsMetadata) {
  const std::string model =
      Model(Initializer(Bytes("w", '1')), Sub(3, "2.1") + Num(5, 7) + Sub(8, Sub(1, "com.microsoft") + Num(2, 1)) +
                                              Sub(14, Sub(1, "author") + Sub(2, "me")) +
                                              Sub(14, Sub(1, "bad") + Sub(2, "\xff")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(model));
  EXPECT_THAT(reader.metadata(),
              UnorderedElementsAre(Pair("onnx.ir_version", "13"), Pair("onnx.producer_name", "tests"),
                                   Pair("onnx.producer_version", "2.1"), Pair("onnx.model_version", "7"),
                                   Pair("onnx.opset_import", "ai.onnx 21, com.microsoft 1"), Pair("author", "me")));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("\"bad\" is not UTF-8")));
}

// As protobuf reads it: a field counts as it is given last, and numbers have signs.
TEST(OnnxModel, KeepsMetadataAsProtobufReadsThem) {
  const auto prop = [](const char* key, const char* value) { return Sub(14, Sub(1, key) + Sub(2, value)); };
  const auto minus_one = ~uint64_t{0};
  const std::string model =
      Model(Initializer(Bytes("w", '1')), Sub(2, "new") + Num(5, 3) + Num(5, minus_one) + Sub(4, "gone") + Sub(4, "") +
                                              Sub(8, Sub(1, "odd") + Num(2, minus_one)) + prop("empty", "") +
                                              prop("onnx.infer", "here") + prop("onnx.ir_version", "999") +
                                              prop("twice", "1") + prop("twice", "2"));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(model));
  EXPECT_THAT(reader.metadata(),
              UnorderedElementsAre(Pair("onnx.ir_version", "13"), Pair("onnx.producer_name", "new"),
                                   Pair("onnx.model_version", "-1"), Pair("onnx.opset_import", "ai.onnx 21, odd -1"),
                                   Pair("empty", ""), Pair("onnx.infer", "here"), Pair("twice", "1")));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("\"twice\" is given twice"), HasSubstr("\"onnx.ir_version\" of")));
  EXPECT_TRUE(OnnxReader::IsFieldKey("onnx.opset_import"));
  EXPECT_TRUE(OnnxReader::IsFieldKey("onnx.sparse.w"));
  EXPECT_FALSE(OnnxReader::IsFieldKey("onnx.infer"));
}

TEST(OnnxModel, NotesTextsOfTensors) {
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader,
                       Open(Model(Initializer(Bytes("v", '1')) + Initializer(Bytes("w", '1') + Sub(12, "for later")) +
                                  Initializer(Bytes("x", '1') + Sub(16, Sub(1, "k") + Sub(2, "v"))))));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("2 tensors have a doc_string or metadata_props")));
}

TEST(OnnxModel, RefusesAnAttributeWithTwoTensorsIfConstantsAreAsked) {
  const std::string twice = Sub(
      1, Sub(2, "c") + Sub(4, "Constant") + Sub(5, Sub(1, "value") + Sub(5, Bytes("", '1')) + Sub(5, Bytes("", '2'))));
  OnnxReaderOptions options;
  EXPECT_OK(Open(Model(twice), options).status());
  options.constants = true;
  EXPECT_THAT(Open(Model(twice), options), StatusIs(Code::kDataLoss, HasSubstr("has two tensors")));
}

TEST(OnnxModel, ListsConstantsIfAsked) {
  const std::string constant =
      Sub(1, Sub(2, "shape") + Sub(4, "Constant") + Sub(5, Sub(1, "value") + Sub(5, Bytes("", '1'))));
  const std::string other =
      Sub(1, Sub(2, "y") + Sub(4, "ConstantOfShape") + Sub(5, Sub(1, "value") + Sub(5, Bytes("", '2'))));
  const std::string model = Model(constant + other + Initializer(Bytes("w", '3')));
  ASSERT_OK_AND_ASSIGN(const OnnxReader without, Open(model));
  EXPECT_THAT(Tensors(without), ElementsAre(Pair("w", "3")));
  OnnxReaderOptions options;
  options.constants = true;
  ASSERT_OK_AND_ASSIGN(const OnnxReader with, Open(model, options));
  EXPECT_THAT(Tensors(with), UnorderedElementsAre(Pair("shape", "1"), Pair("w", "3")));
}

std::string Sparse(const std::vector<uint64_t>& dims, const std::vector<int64_t>& index_dims,
                   const std::vector<uint64_t>& indices) {
  std::string raw;
  for (const uint64_t index : indices) raw += LittleEndian(index, 8);
  return Sub(15, Sub(1, RawTensor(2, {2}, "ab", "s")) + Sub(2, RawTensor(7, index_dims, raw, "i")) + Packed(3, dims));
}

TEST(OnnxModel, ListsSparseTensorsAsTheirParts) {
  for (const std::string& sparse : {Sparse({3, 4}, {2}, {1, 11}), Sparse({3, 4}, {2, 2}, {0, 1, 2, 3})}) {
    ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(Model(sparse)));
    ASSERT_EQ(reader.entries().size(), 2u);
    EXPECT_EQ(reader.entries()[0].name, "s.values");
    EXPECT_EQ(reader.entries()[1].name, "s.indices");
    EXPECT_EQ(reader.entries()[1].part_of, "s");
    EXPECT_THAT(reader.metadata(), Contains(Pair("onnx.sparse.s", "[3,4]")));
    EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("sparse tensor \"s\" of shape [3,4]")));
    ASSERT_OK_AND_ASSIGN(const Tensor values, reader.Read("s.values"));
    EXPECT_EQ(values.bytes(), "ab");
    ASSERT_OK_AND_ASSIGN(const OnnxCounts counts,
                         reader.VerifyAll([](const OnnxDamage& damage) { ADD_FAILURE() << damage.status; }));
    EXPECT_EQ(counts.without_checksum, 2);
  }
}

TEST(OnnxModel, VerifiesTheIndicesOfSparseTensors) {
  for (const auto& [sparse, says] : std::vector<std::pair<std::string, std::string>>{
           {Sparse({3, 4}, {2}, {1, 12}), "index 1 is 12 on axis 0"},
           {Sparse({3, 4}, {2}, {5, 5}), "index 1 is not larger"},
           {Sparse({3, 4}, {2, 2}, {0, 4, 2, 3}), "index 0 is 4 on axis 1"},
           {Sparse({3, 4}, {2, 2}, {2, 0, 1, 3}), "index 1 is not larger"}}) {
    ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(Model(sparse)));
    std::vector<std::string> damages;
    ASSERT_OK_AND_ASSIGN(const OnnxCounts counts, reader.VerifyAll([&](const OnnxDamage& damage) {
      damages.push_back(std::string(damage.status.message()));
    }));
    EXPECT_EQ(counts.without_checksum, 1);
    EXPECT_THAT(damages, ElementsAre(HasSubstr(says)));
  }
}

TEST(OnnxModel, RefusesSparseTensorsWhosePartsDoNotFit) {
  EXPECT_THAT(Open(Model(Sparse({3, 4}, {1}, {1}))).status(), StatusIs(Code::kDataLoss, HasSubstr("wanted [N]")));
  EXPECT_THAT(Open(Model(Sparse({3, 4}, {2, 1}, {1, 2}))).status(), StatusIs(Code::kDataLoss, HasSubstr("wanted [N]")));
  EXPECT_THAT(Open(Model(Sub(15, Sub(1, Bytes("s", 'a')) + Num(3, 4)))).status(),
              StatusIs(Code::kDataLoss, HasSubstr("lacks its values or its indices")));
}

TEST(OnnxModel, NumbersTheTensorsOfSequences) {
  const std::string inner = Num(2, 1) + Sub(3, Bytes("", '2')) + Sub(3, Bytes("", '3'));
  ASSERT_OK_AND_ASSIGN(const OnnxReader flat, Open(Sub(1, "x") + inner));
  EXPECT_EQ(flat.kind(), OnnxReader::Kind::kSequence);
  EXPECT_THAT(Tensors(flat), ElementsAre(Pair("0", "2"), Pair("1", "3")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader nested, Open(Sub(1, "x") + Num(2, 3) + Sub(5, inner) + Sub(5, inner)));
  EXPECT_EQ(nested.kind(), OnnxReader::Kind::kSequence);
  EXPECT_THAT(Tensors(nested), ElementsAre(Pair("0.0", "2"), Pair("0.1", "3"), Pair("1.0", "2"), Pair("1.1", "3")));
  EXPECT_THAT(Open(Sub(1, "x") + Num(2, 4) + Sub(3, Bytes("", '1')) + Sub(6, "")).status(),
              StatusIs(Code::kUnimplemented, HasSubstr("maps")));
}

TEST(OnnxModel, BoundsDepthEntriesAndNames) {
  std::string graph = Initializer(Bytes("w", '1'));
  for (int depth = 0; depth < 100; ++depth) graph = NodeWithGraph("n", "g", graph);
  EXPECT_THAT(Open(Model(graph)).status(), StatusIs(Code::kResourceExhausted, HasSubstr("max_depth")));
  OnnxReaderOptions options;
  options.limits.max_entries = 1;
  EXPECT_THAT(Open(Model(Initializer(Bytes("a", '1')) + Initializer(Bytes("b", '1'))), options).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
  options = {};
  options.limits.max_name_bytes = 10;
  EXPECT_THAT(Open(Model(Initializer(Bytes("abcdefghijk", '1'))), options).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_name_bytes")));
  options = {};
  options.limits.max_memory_beyond_input = 1000;
  std::string many;
  for (int i = 0; i < 1000; ++i) many += Initializer(Head(1, {0}, absl::StrCat(i)));
  EXPECT_THAT(Open(Model(many), options).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

TEST(OnnxModel, TellsWhatAFileIs) {
  const auto looks = [](const std::string& bytes, bool also_tensors) {
    return OnnxReader::LooksLikeOnnx(*MakeMemorySource("x", bytes), also_tensors);
  };
  EXPECT_TRUE(looks(Model(Initializer(Bytes("w", '1'))), false));
  EXPECT_FALSE(looks(Bytes("w", '1'), false));
  EXPECT_TRUE(looks(Bytes("w", '1'), true));
  EXPECT_TRUE(looks(Sub(1, "x") + Num(2, 1) + Sub(3, Bytes("", '2')), true));
  // TensorFlow's TensorProto: a number, then a message; with int_val, the fields of a model.
  EXPECT_FALSE(looks(Num(1, 3) + Sub(2, Sub(2, Num(1, 2))) + Sub(4, std::string(8, 'x')), true));
  EXPECT_FALSE(looks(Num(1, 3) + Sub(2, Sub(2, Num(1, 2))) + Packed(7, {1, 2}), true));
  EXPECT_FALSE(looks("", true));
  EXPECT_FALSE(looks("PK\3\4 and more", true));
  EXPECT_THAT(Open("{\"a\": 1}").status(), StatusIs(Code::kDataLoss, HasSubstr("m.onnx")));
  EXPECT_THAT(Open(Num(1, 13) + Sub(2, "tests")).status(), StatusIs(Code::kDataLoss, HasSubstr("no graph")));
}

TEST(OnnxModel, MapsAndStreamsRawElements) {
  const std::string raw = LittleEndian(0x3f800000, 4) + LittleEndian(0x40000000, 4);
  const std::string model = Model(Initializer(RawTensor(1, {2}, raw, "w")));
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, Open(model));
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map("w"));
  EXPECT_EQ(mapped.bytes(), raw);
  ASSERT_OK_AND_ASSIGN(const auto stream, reader.OpenStream("w"));
  std::string read(8, '\0');
  EXPECT_OK(stream->Read(absl::MakeSpan(&read[0], read.size())));
  EXPECT_OK(stream->Finish());
  EXPECT_EQ(read, raw);
  EXPECT_THAT(reader.Read("v"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"v\"")));
}

}  // namespace
}  // namespace tensorcask
