// The object graph of TensorFlow's checkpoints follows the names that a conversion gives to tensors.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/checkpoint/edit_graph.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/object_graph_messages.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Attribute;
using ::tensorcask::testing::BytesField;
using ::tensorcask::testing::Child;
using ::tensorcask::testing::Node;
using ::tensorcask::testing::Slot;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::VarintField;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Names = checkpoint::NewNames;

// ---- Messages by hand -----------------------------------------------------------------------------------------------

std::string Value(const std::string& path) { return path + "/.ATTRIBUTES/VARIABLE_VALUE"; }

// model.w, model.b, opt.step, and opt's slot variable of w; an unknown field in the node of w.
std::string Model() {
  return Node(Child(1, "model") + Child(2, "opt")) + Node(Child(3, "w") + Child(4, "b")) +
         Node(Child(5, "step") + Slot(3, "m", 6)) + Node(Attribute(Value("model/w")) + VarintField(99, 7)) +
         Node(Attribute(Value("model/b"))) + Node(Attribute(Value("opt/step"))) + Node(Attribute(Value("w/m"))) +
         BytesField(98, "x");
}

Names AllOfModel() {
  Names names;
  for (const char* const path : {"model/w", "model/b", "opt/step", "w/m"}) names[Value(path)] = Value(path);
  names[checkpoint::kGraphName] = checkpoint::kGraphName;
  return names;
}

TEST(EditObjectGraph, WithoutChangesKeepsEachByte) {
  ASSERT_OK_AND_ASSIGN(const std::string edited, checkpoint::EditObjectGraph(Model(), AllOfModel()));
  EXPECT_EQ(edited, Model());
}

TEST(EditObjectGraph, RenamesKeysAndKeepsUnknownFields) {
  Names names = AllOfModel();
  names[Value("model/w")] = Value("encoder/kernel");
  ASSERT_OK_AND_ASSIGN(const std::string edited, checkpoint::EditObjectGraph(Model(), names));
  const std::string before = Attribute(Value("model/w")) + VarintField(99, 7);
  const std::string after = Attribute(Value("encoder/kernel")) + VarintField(99, 7);
  EXPECT_EQ(edited, absl::StrReplaceAll(Model(), {{Node(before), Node(after)}}));
}

TEST(EditObjectGraph, PrunesVariablesWithTheirEdges) {
  Names names = AllOfModel();
  names[Value("opt/step")] = names[Value("w/m")] = "";
  ASSERT_OK_AND_ASSIGN(const std::string edited, checkpoint::EditObjectGraph(Model(), names));
  ASSERT_OK_AND_ASSIGN(const ObjectGraph graph, DecodeObjectGraph(edited));
  ASSERT_EQ(graph.nodes.size(), 7u);
  EXPECT_TRUE(graph.nodes[2].children.empty() && graph.nodes[2].slot_variables.empty());
  EXPECT_TRUE(graph.nodes[5].attributes.empty() && graph.nodes[6].attributes.empty());
  EXPECT_EQ(graph.nodes[1].children.size(), 2u);
}

void ExpectRefused(const std::string& message, const Names& names, const std::string& name, const std::string& why) {
  EXPECT_THAT(
      checkpoint::EditObjectGraph(message, names),
      StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr(name), HasSubstr(why), HasSubstr("leave out the graph"))));
}

TEST(EditObjectGraph, RefusesWhatTensorFlowCouldNotRestore) {
  Names names = AllOfModel();
  names[Value("model/w")] = "kernel";
  ExpectRefused(Model(), names, "model/w",
                "needs a name that ends in /.ATTRIBUTES/VARIABLE_VALUE; \"kernel\" does not");
  names = AllOfModel();
  names[Value("model/w")] = "";  // its slot variable is reached only through the optimizer's entry of it
  ExpectRefused(Model(), names, "w/m", "belongs to a variable that is left out");

  const std::string table = Node(Child(1, "t")) + Node(Attribute("t/.ATTRIBUTES/table", "table"));
  const std::string keys = "t/.ATTRIBUTES/table-keys";
  const std::string values = "t/.ATTRIBUTES/table-values";
  ExpectRefused(table, {{keys, "u/.ATTRIBUTES/table-keys"}, {values, values}}, "table-keys", "must keep its name");
  ExpectRefused(table, {{keys, ""}, {values, values}}, "table-keys", "is one of 2 tensors of an object");
  ASSERT_OK_AND_ASSIGN(const std::string without, checkpoint::EditObjectGraph(table, {{keys, ""}, {values, ""}}));
  EXPECT_EQ(without, Node("") + Node(""));
  ASSERT_OK_AND_ASSIGN(const std::string same, checkpoint::EditObjectGraph(table, {{keys, keys}, {values, values}}));
  EXPECT_EQ(same, table);

  const std::string saver = Node(BytesField(4, BytesField(1, "saver") + BytesField(2, "object")));
  ExpectRefused(saver, {{"object/x", "object/y"}}, "functions of the program", "must stay");
  EXPECT_THAT(checkpoint::EditObjectGraph("\x0a\x05", AllOfModel()), StatusIs(Code::kDataLoss));
}

// ---- Conversions ----------------------------------------------------------------------------------------------------

class Conversions : public ::testing::Test {
 protected:
  void SetUp() override { Write("source", Model()); }

  void Write(const std::string& name, const std::string& graph_text) {
    source_ = folder_.Path(name);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer, CreateArchive(source_, Checkpoint()));
    Tensor graph = *Tensor::Create(DType::kString, TensorShape());
    graph.mutable_flat<std::string>()[0] = graph_text;
    std::vector<std::pair<std::string, Tensor>> all = {{checkpoint::kGraphName, graph}};
    for (const auto& [name, to] : AllOfModel()) {
      if (name != checkpoint::kGraphName) all.emplace_back(name, *Tensor::Zeros(DType::kFloat32, TensorShape({2})));
    }
    for (const auto& [name, tensor] : all) {
      const DecodedTensor decoded = {tensor, {}};
      ASSERT_OK(writer->Declare(DescribeTensor(name, decoded)));
    }
    for (const auto& [name, tensor] : all) {
      const DecodedTensor decoded = {tensor, {}};
      ASSERT_OK(writer->Add(DescribeTensor(name, decoded), decoded));
    }
    ASSERT_OK(writer->Finish());
  }
  const ArchiveFormat& Checkpoint() { return **FindFormat("checkpoint", formats_.list()); }

  // The keys of the graph in what the conversion writes.
  absl::StatusOr<std::vector<std::string>> Converted(const ConvertOptions& options) {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> source, OpenArchive(source_, formats_.list()));
    const ArchiveReader* const sources[] = {source.get()};
    CASK_ASSIGN_OR_RETURN(const ConversionPlan plan, PlanConversion(sources, Checkpoint(), options));
    const std::string path = folder_.Path(absl::StrCat("copy-", count_++));
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, CreateArchive(path, Checkpoint()));
    CASK_RETURN_IF_ERROR(RunConversion(plan, options, writer.get()).status());
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> copy, OpenArchive(path, formats_.list()));
    CASK_ASSIGN_OR_RETURN(const Tensor text, copy->Read(checkpoint::kGraphName));
    CASK_ASSIGN_OR_RETURN(const ObjectGraph graph, DecodeObjectGraph(text.flat<std::string>()[0]));
    std::vector<std::string> keys;
    for (const ObjectGraph::Node& node : graph.nodes) {
      for (const ObjectGraph::Attribute& attribute : node.attributes) {
        EXPECT_OK(copy->Find(attribute.checkpoint_key).status());
        keys.push_back(attribute.checkpoint_key);
      }
    }
    EXPECT_EQ(copy->entries().size(), keys.size() + 1);
    return keys;
  }

  const AllFormats formats_;
  const testing::TempFolder folder_;
  std::string source_;
  int count_ = 0;
};

TEST_F(Conversions, TheGraphHasTheNewNames) {
  ConvertOptions options;
  options.rename = [](absl::string_view name) { return absl::StrReplaceAll(name, {{"model/", "encoder/"}}); };
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> keys, Converted(options));
  EXPECT_THAT(keys, ElementsAre(Value("encoder/w"), Value("encoder/b"), Value("opt/step"), Value("w/m")));
}

TEST_F(Conversions, TheGraphLosesWhatIsLeftOut) {
  ConvertOptions options;
  options.exclude = {"opt/*", "w/*"};
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> keys, Converted(options));
  EXPECT_THAT(keys, ElementsAre(Value("model/w"), Value("model/b")));
  options.exclude.clear();
  options.include = {"model/*"};  // the graph comes along
  ASSERT_OK_AND_ASSIGN(keys, Converted(options));
  EXPECT_THAT(keys, ElementsAre(Value("model/w"), Value("model/b")));
  options.exclude = {checkpoint::kGraphName};
  EXPECT_THAT(Converted(options), StatusIs(Code::kNotFound));
}

TEST_F(Conversions, SlotsOfOptimizersAreLeftOutOfTheTensorsAndOfTheGraph) {
  ConvertOptions options;
  options.exclude_slots = true;
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> keys, Converted(options));
  EXPECT_THAT(keys, ElementsAre(Value("model/w"), Value("model/b"), Value("opt/step")));
  options.include = {"*/m/*", "*/w/*", Value("w/m")};  // a slot that a pattern chooses is left out, too
  ASSERT_OK_AND_ASSIGN(keys, Converted(options));
  EXPECT_THAT(keys, ElementsAre(Value("model/w")));
}

// Without its last variable the graph ends in an empty message, whose length is a NUL byte.
TEST_F(Conversions, AChangedGraphThatTheTargetCannotHoldIsFoundByThePlan) {
  const std::string model = Model();
  Write("other", model.substr(0, model.size() - BytesField(98, "x").size()));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> source, OpenArchive(source_, formats_.list()));
  const ArchiveReader* const sources[] = {source.get()};
  const ArchiveFormat& npz = **FindFormat("npz", formats_.list());
  ConvertOptions options;
  ASSERT_OK_AND_ASSIGN(ConversionPlan plan, PlanConversion(sources, npz, options));
  EXPECT_EQ(plan.items.size(), 5);
  options.exclude = {"opt/*", "w/*"};
  EXPECT_THAT(PlanConversion(sources, npz, options),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr(checkpoint::kGraphName), HasSubstr("NUL byte"))));
  options.allow_loss = true;
  ASSERT_OK_AND_ASSIGN(plan, PlanConversion(sources, npz, options));
  EXPECT_EQ(plan.items.size(), 2);
  ASSERT_EQ(plan.losses.size(), 1);
  EXPECT_EQ(plan.losses[0].tensor, checkpoint::kGraphName);
}

TEST_F(Conversions, AGraphThatCannotFollowIsAnErrorOfThePlan) {
  ConvertOptions options;
  options.rename = [](absl::string_view name) { return absl::StrCat("x/", name); };
  EXPECT_THAT(Converted(options), StatusIs(Code::kFailedPrecondition, HasSubstr("finds the object graph by its name")));
  options.rename = nullptr;
  options.exclude = {"model/w*"};
  EXPECT_THAT(Converted(options), StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("source"), HasSubstr("w/m"))));
}

}  // namespace
}  // namespace tensorcask
