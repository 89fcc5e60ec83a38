// Object graphs in TensorFlow's checkpoints, and messages that are not object graphs.

#include "tensorcask/serialize/checkpoint/object_graph.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/object_graph_messages.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Attribute;
using ::tensorcask::testing::BytesField;
using ::tensorcask::testing::Child;
using ::tensorcask::testing::Node;
using ::tensorcask::testing::Slot;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TestDataFolder;
using ::tensorcask::testing::VarintField;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Code = absl::StatusCode;

// Messages by hand, wrong ones too.

TEST(ObjectGraph, IsNamedAndDrawnByTheShortestWay) {
  const std::string message = Node(Child(1, "model") + Child(2, "opt") + Child(3, "first")) +  // 0
                              Node(Child(3, "layer") + Child(0, "owner")) +                    // 1
                              Node(Slot(4, "momentum", 5)) +                                   // 2
                              Node(Child(4, "kernel")) +                                       // 3
                              Node(Attribute("first/kernel/.ATTRIBUTES/VARIABLE_VALUE")) +     // 4
                              Node(Attribute("m")) +                                           // 5
                              Node(Child(7, "self")) +                                         // 6: no node's child
                              Node(Child(6, "back"));                                          // 7
  ASSERT_OK_AND_ASSIGN(const ObjectGraph graph, DecodeObjectGraph(message));
  EXPECT_THAT(graph.Names(), ElementsAre("", "model", "opt", "first", "first/kernel",
                                         "first/kernel/.OPTIMIZER_SLOT/opt/momentum", "(node 6)", "(node 6)/self"));
  EXPECT_EQ(graph.ToString([](absl::string_view key) { return key == "m" ? "float32 [2]" : ""; }),
            "(root)\n"
            "|- model\n"
            "|  |- layer -> first\n"
            "|  |- owner -> (root)\n"
            "|- opt\n"
            "|  |- momentum of first/kernel  float32 [2]  m\n"
            "|- first\n"
            "|  |- kernel  first/kernel/.ATTRIBUTES/VARIABLE_VALUE\n"
            "(node 6)\n"
            "|- self\n"
            "|  |- back -> (node 6)\n");
  EXPECT_EQ(graph.nodes[4].attributes[0].name, "VARIABLE_VALUE");
  EXPECT_EQ(graph.nodes[4].attributes[0].full_name, "full/name");
}

TEST(ObjectGraph, OfNothing) {
  ASSERT_OK_AND_ASSIGN(const ObjectGraph graph, DecodeObjectGraph(""));
  EXPECT_TRUE(graph.nodes.empty());
  EXPECT_TRUE(graph.Names().empty());
  EXPECT_EQ(graph.ToString(), "");
  ASSERT_OK_AND_ASSIGN(const ObjectGraph root, DecodeObjectGraph(Node("")));
  EXPECT_EQ(root.ToString(), "(root)\n");
}

TEST(ObjectGraph, FieldsOfLaterVersionsArePassedOver) {
  const std::string saver = BytesField(4, BytesField(1, "s") + BytesField(2, "o"));
  const std::string has_values = BytesField(5, VarintField(1, 1));
  ASSERT_OK_AND_ASSIGN(const ObjectGraph graph,
                       DecodeObjectGraph(Node(saver + has_values + VarintField(99, 7)) + BytesField(98, "x")));
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(ObjectGraph, TextIsEscaped) {
  ASSERT_OK_AND_ASSIGN(
      const ObjectGraph graph,
      DecodeObjectGraph(Node(Child(1, "a\x1b[2J\nb") + Child(1, "") + Child(1, "same")) + Node(Attribute("k\x07"))));
  EXPECT_EQ(graph.ToString(),
            "(root)\n"
            "|- \"a\\x1b[2J\\nb\"  \"k\\x07\"\n"
            "|- \"\" -> \"a\\x1b[2J\\nb\"\n"
            "|- same -> \"a\\x1b[2J\\nb\"\n");
}

struct RejectCase {
  const char* name;
  std::string message;
  const char* says;
};
class ObjectGraphRejects : public ::testing::TestWithParam<RejectCase> {};
TEST_P(ObjectGraphRejects, WithCodeAndMessage) {
  EXPECT_THAT(DecodeObjectGraph(GetParam().message), StatusIs(Code::kDataLoss, HasSubstr(GetParam().says)));
}
INSTANTIATE_TEST_SUITE_P(
    Malformed, ObjectGraphRejects,
    ::testing::Values(
        RejectCase{"ChildOutside", Node(Child(1, "x")), "node 0 has children.node_id 1; there are 1 nodes"},
        RejectCase{"ChildNegative", Node("") + Node(Child(UINT64_MAX, "x")), "node 1 has children.node_id -1"},
        RejectCase{"SlotOutside", Node(Slot(0, "m", 2)), "slot_variables.slot_variable_node_id 2"},
        RejectCase{"OriginalOutside", Node(Slot(0x7fffffff, "m", 0)), "original_variable_node_id 2147483647"},
        RejectCase{"NodeIsANumber", VarintField(1, 3), "nodes at byte 0 is a varint"},
        RejectCase{"NodeIdIsBytes", Node(BytesField(1, BytesField(1, "x"))),
                   "nodes: children: node_id at byte 0 is bytes"},
        RejectCase{"NameIsNotUtf8", Node(BytesField(1, BytesField(2, "\xff"))), "local_name at byte 0 is not UTF-8"},
        RejectCase{"CutShort", Node("").substr(0, 1), "object graph: "},
        RejectCase{"LengthPastTheEnd", std::string("\x0a\xff\xff\xff\xff\x07", 6), "object graph: "}),
    [](const auto& info) { return std::string(info.param.name); });

// The names, and the drawing, of a chain or of a star stay in proportion to the message.
TEST(ObjectGraph, DeepChainsAreDrawnWithoutRecursionAndInBounds) {
  constexpr int kNodes = 200'000;
  std::string message;
  for (int i = 0; i < kNodes; ++i) message += Node(i + 1 < kNodes ? Child(static_cast<uint64_t>(i) + 1, "n") : "");
  ASSERT_OK_AND_ASSIGN(const ObjectGraph graph, DecodeObjectGraph(message));
  const std::vector<std::string> names = graph.Names();
  EXPECT_EQ(names[3], "n/n/n");
  EXPECT_EQ(names[kNodes - 1], absl::StrCat("(node ", kNodes - 1, ")"));
  const std::string drawing = graph.ToString(nullptr, /*max_lines=*/200'000);
  EXPECT_LT(drawing.size(), size_t{kNodes} * 130);
  EXPECT_THAT(drawing, HasSubstr("|- (level 199999) n\n"));
}

TEST(ObjectGraph, ManyMentionsOfALongNameAreCut) {
  std::string children;
  for (int i = 0; i < 1000; ++i) children += Child(1, "x");
  ASSERT_OK_AND_ASSIGN(const ObjectGraph graph,
                       DecodeObjectGraph(Node(Child(1, std::string(50'000, 'y')) + children) + Node("")));
  EXPECT_LT(graph.ToString().size(), 300'000u);
}

TEST(ObjectGraph, DrawingsAreLimited) {
  ASSERT_OK_AND_ASSIGN(const ObjectGraph small, DecodeObjectGraph(Node(Child(1, "a") + Child(2, "b") + Child(0, "c")) +
                                                                  Node(Child(2, "d")) + Node("") + Node("")));
  const std::string whole = "(root)\n|- a\n|  |- d -> b\n|- b\n|- c -> (root)\n(node 3)\n";
  EXPECT_EQ(small.ToString(), whole);
  EXPECT_EQ(small.ToString(nullptr, 6), whole);
  EXPECT_EQ(small.ToString(nullptr, 5), "(root)\n|- a\n|  |- d -> b\n|- b\n|- c -> (root)\n... 1 line more\n");
  EXPECT_EQ(small.ToString(nullptr, 3), "(root)\n|- a\n|  |- d -> b\n... 3 lines more\n");
  EXPECT_EQ(small.ToString(nullptr, 0), "... 6 lines more\n");

  std::string children;
  for (int i = 0; i < 200'000; ++i) children += Child(0, "x");
  ASSERT_OK_AND_ASSIGN(const ObjectGraph wide, DecodeObjectGraph(Node(children)));
  const std::string drawing = wide.ToString();
  EXPECT_EQ(std::count(drawing.begin(), drawing.end(), '\n'), ObjectGraph::kMaxLines + 1);
  EXPECT_THAT(drawing, EndsWith("\n... 100001 lines more\n"));

  // A line of a hundred million bytes.
  ObjectGraph keys;
  keys.nodes.resize(2);
  keys.nodes[0].attributes.resize(500'000, {"", "", std::string(199, 'k')});
  EXPECT_LT(keys.ToString().size(), (64u << 20) + 1000);
  EXPECT_THAT(keys.ToString(), EndsWith("\n... 1 line more\n"));
}

TEST(ObjectGraph, PartsAreLimited) {
  const std::string empty_node = Node("");
  std::string message;
  for (int i = 0; i < 10'000'001; ++i) message += empty_node;
  EXPECT_THAT(DecodeObjectGraph(message), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries 10000000")));
}

TEST(ObjectGraph, OfACheckpointWithoutOne) {
  MemoryFileSystem files;
  CheckpointWriterOptions write;
  write.file_system = &files;
  ASSERT_OK(testing::Save("/none", {{"w", Tensor::Scalar<float>(1)}}, write));
  ASSERT_OK(testing::Save("/bad", {{"_CHECKPOINTABLE_OBJECT_GRAPH", Tensor::Scalar<float>(1)}}, write));
  ASSERT_OK(testing::Save("/worse", {{"_CHECKPOINTABLE_OBJECT_GRAPH", Tensor::Scalar<std::string>("\x0a")}}, write));
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader none, CheckpointReader::Open("/none", read));
  EXPECT_THAT(ReadObjectGraph(none), StatusIs(Code::kNotFound, HasSubstr("_CHECKPOINTABLE_OBJECT_GRAPH")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader bad, CheckpointReader::Open("/bad", read));
  EXPECT_THAT(ReadObjectGraph(bad), StatusIs(Code::kDataLoss, HasSubstr("is float32 [], not one string")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader worse, CheckpointReader::Open("/worse", read));
  EXPECT_THAT(ReadObjectGraph(worse), StatusIs(Code::kDataLoss, HasSubstr("/worse: object graph: ")));
}

TEST(OptimizerSlots, AreThoseOfTheGraph) {
  MemoryFileSystem files;
  CheckpointWriterOptions write;
  write.file_system = &files;
  const std::string graph = Node(Child(1, "w") + Child(2, "opt")) + Node(Attribute("w/VALUE")) +
                            Node(Slot(1, "m", 3) + Slot(1, "v", 4) + Slot(1, "m", 3)) + Node(Attribute("slot/m")) +
                            Node(Attribute("slot/a") + Attribute("slot/b"));
  ASSERT_OK(testing::Save("/graph",
                          {{"_CHECKPOINTABLE_OBJECT_GRAPH", Tensor::Scalar<std::string>(graph)},
                           {"w/Adam", Tensor::Scalar<float>(1)},
                           {"w", Tensor::Scalar<float>(1)}},
                          write));
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/graph", read));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> slots, OptimizerSlots(reader));
  EXPECT_THAT(slots, ElementsAre("slot/a", "slot/b", "slot/m"));
}

TEST(OptimizerSlots, WithoutAGraphHaveTheNamesOfTensorFlow1) {
  MemoryFileSystem files;
  CheckpointWriterOptions write;
  write.file_system = &files;
  const Tensor row = Tensor::FromValues<float>({1, 2});
  ASSERT_OK(testing::Save("/old",
                          {{"Adam", row},
                           {"a/w", row},
                           {"a/w/Adam", row},
                           {"a/w/Adam_1", row},
                           {"a/w/Momentum", Tensor::Scalar<float>(1)},
                           {"a/w/Other", row},
                           {"b/Adam", row}},
                          write));
  ASSERT_OK(testing::Save("/bad", {{"_CHECKPOINTABLE_OBJECT_GRAPH", Tensor::Scalar<float>(1)}}, write));
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/old", read));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> slots, OptimizerSlots(reader));
  EXPECT_THAT(slots, ElementsAre("a/w/Adam", "a/w/Adam_1"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader bad, CheckpointReader::Open("/bad", read));
  EXPECT_THAT(OptimizerSlots(bad), StatusIs(Code::kDataLoss, HasSubstr("not one string")));
}

// Each attribute leads to a tensor of the checkpoint, and each tensor but the graph itself is led to.
TEST(ObjectGraph, OfTensorFlowsCheckpoints) {
  const std::string folder = TestDataFolder("tensorflow");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  int graphs = 0;
  int attributes = 0;
  std::vector<std::string> without_tensor;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".index") continue;
    SCOPED_TRACE(file.path().string());
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(file.path().string()));
    const absl::StatusOr<ObjectGraph> graph = ReadObjectGraph(reader);
    if (absl::IsNotFound(graph.status())) continue;
    ASSERT_OK(graph);
    ++graphs;
    const std::string drawing = graph->ToString();
    std::set<std::string> led_to = {"_CHECKPOINTABLE_OBJECT_GRAPH"};
    for (const ObjectGraph::Node& node : graph->nodes) {
      for (const ObjectGraph::Attribute& attribute : node.attributes) {
        ++attributes;
        EXPECT_THAT(drawing, HasSubstr(attribute.checkpoint_key));
        // A lookup table is two tensors, of whose names the graph has the common beginning.
        const bool is_table = absl::EndsWith(attribute.checkpoint_key, "/.ATTRIBUTES/table");
        for (const char* part :
             is_table ? std::vector<const char*>{"-keys", "-values"} : std::vector<const char*>{""}) {
          const std::string key = attribute.checkpoint_key + part;
          led_to.insert(key);
          if (!reader.Find(key).ok()) without_tensor.push_back(key);
        }
      }
    }
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
    for (const CheckpointEntry& entry : entries) EXPECT_EQ(led_to.count(entry.name), 1u) << entry.name;
    // Names are unique, and each node has its line.
    const std::vector<std::string> names = graph->Names();
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    const std::vector<std::string> lines = absl::StrSplit(drawing, '\n', absl::SkipEmpty());
    EXPECT_GE(lines.size(), names.size());
  }
  EXPECT_EQ(graphs, 13);
  EXPECT_EQ(attributes, 63);
  // TensorFlow's test of exactly this: variables that had no value when they were saved.
  EXPECT_THAT(without_tensor, UnorderedElementsAre("uninitialized_variable/.ATTRIBUTES/VARIABLE_VALUE",
                                                   "sub_module/uninitialized_variable/.ATTRIBUTES/VARIABLE_VALUE"));
}

}  // namespace
}  // namespace tensorcask
