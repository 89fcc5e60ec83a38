// Edits of models: which places a new name changes, what is refused, and that every other byte stays.

#include "tensorcask/serialize/onnx/edit_model.h"

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using Code = absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Small(const std::string& name) { return RawTensor(2, {2}, "\x01\x02", name); }
std::string NodeOf(const std::string& input, const std::string& output) {
  return Sub(1, Sub(1, input) + Sub(2, output) + Sub(3, "node") + Sub(4, "Relu"));
}
std::string Named(uint32_t field, const std::string& name) { return Sub(field, Sub(1, name) + Sub(2, "type")); }
std::string Pair(uint32_t field, const std::string& key, const std::string& value) {
  return Sub(field, Sub(1, key) + Sub(2, value));
}

// A model that uses the name `w` of an initializer in each place that there is; "w" is also a text that is not a name.
std::string EachPlace(const std::string& w) {
  const std::string sharding = Sub(10, Sub(1, "w") + Sub(2, Sub(1, w) + Num(2, 0)));
  const std::string inner = NodeOf(w, "i") + Initializer(Small("other"));
  const std::string shadow = Initializer(Small("w")) + NodeOf("w", "s");
  const std::string algorithm = NodeOf(w, "w.grad");
  const std::string training = Sub(20, Sub(2, algorithm) + Pair(4, w, "w.grad"));
  const std::string function = Sub(25, Sub(1, "w") + Sub(4, "w") + Sub(7, Sub(1, "w") + Sub(2, "r") + Sub(4, "Relu")));
  const std::string node = Sub(1, Sub(1, w) + Sub(1, "") + Sub(2, "y") + Sub(3, "w") + Sub(4, "w") +
                                      Sub(5, Sub(1, "w") + Sub(4, "w") + Num(20, 3)) + Sub(6, "w") + sharding);
  return Model(Initializer(Small(w)) + node + NodeWithGraph("n", "sees", inner) + NodeWithGraph("m", "hides", shadow) +
                   Sub(2, "w") + Named(11, w) + Named(12, w) + Named(13, w) + Named(13, "y") +
                   Sub(14, Sub(1, w) + Pair(2, "SCALE_TENSOR", w)),
               training + function + Pair(14, "w", "w"));
}

class OnnxEdit : public ::testing::Test {
 protected:
  absl::StatusOr<FileEditResult> Edit(const std::string& content, const FileEdits& edits) {
    files_.Put("m.onnx", content);
    options_.file_system = &files_;
    return onnx::EditModel("m.onnx", edits, options_);
  }
  std::string Result() const { return *files_.Find("m.onnx"); }
  static FileEdits Rename(const std::map<std::string, std::string>& names) {
    FileEdits edits;
    edits.renames = names;
    return edits;
  }
  static FileEdits Remove(const std::string& name) {
    FileEdits edits;
    edits.removed = {name};
    return edits;
  }

  MemoryFileSystem files_;
  FileEditOptions options_;
};

TEST_F(OnnxEdit, ANewNameChangesEachUseAndNothingElse) {
  for (const char* const name : {"v",
                                 "a name that is longer than those of the messages around it had before: 128 bytes "
                                 "and more, so that lengths get another byte, too ........................"}) {
    ASSERT_OK(Edit(EachPlace("w"), Rename({{"w", name}})));
    EXPECT_EQ(Result(), EachPlace(name));
    // Another graph has a value of the old name, which would hide the tensor from it.
    EXPECT_THAT(Edit(Result(), Rename({{name, "w"}})), StatusIs(Code::kAlreadyExists));
  }
}

TEST_F(OnnxEdit, NamesCanBeSwapped) {
  const auto model = [](const std::string& a, const std::string& b) {
    return Model(Initializer(Small(a)) + Initializer(Small(b)) + NodeOf(a, "x") + NodeOf(b, "y"));
  };
  ASSERT_OK(Edit(model("a", "b"), Rename({{"a", "b"}, {"b", "a"}})));
  EXPECT_EQ(Result(), model("b", "a"));
}

TEST_F(OnnxEdit, AnInitializerOfAnInnerGraphKeepsItsScope) {
  const auto model = [](const std::string& inner) {
    return Model(NodeOf("k", "x") + NodeWithGraph("n", "b", Initializer(Small(inner)) + NodeOf(inner, "z")) +
                 NodeWithGraph("m", "b", NodeOf("k", "u")));
  };
  ASSERT_OK(Edit(model("k"), Rename({{"k", "q"}})));
  EXPECT_EQ(Result(), model("q"));
}

TEST_F(OnnxEdit, ANameThatAnotherValueHasIsRefused) {
  const std::string model = EachPlace("w");
  for (const char* const taken : {"y", "i", "w.grad", "s", "other"}) {
    EXPECT_THAT(Edit(model, Rename({{"w", taken}})),
                StatusIs(Code::kAlreadyExists, HasSubstr(absl::StrCat("m.onnx: another value of the model is called \"",
                                                                      taken, "\", at byte "))));
    EXPECT_EQ(Result(), model);
  }
  EXPECT_THAT(Edit(model, Rename({{"w", ""}})), StatusIs(Code::kInvalidArgument, HasSubstr("a new name is empty")));
  EXPECT_THAT(Edit(model, Rename({{"w", "\xff"}})), StatusIs(Code::kInvalidArgument, HasSubstr("is not UTF-8")));
  EXPECT_THAT(Edit(model, Rename({{"none", "x"}})),
              StatusIs(Code::kNotFound, HasSubstr("tensor \"none\": is not there")));
}

TEST_F(OnnxEdit, WhatHasNoNameOfItsOwnKeepsIt) {
  const std::string model = EachPlace("w");
  EXPECT_THAT(Edit(model, Rename({{"m.hides/w", "x"}})),
              StatusIs(Code::kFailedPrecondition, HasSubstr("is called \"w\" in its graph")));
  const std::string sparse =
      Sub(1, RawTensor(2, {1}, "\x05", "s")) + Sub(2, RawTensor(7, {1}, std::string(8, '\0'), "")) + Num(3, 4);
  EXPECT_THAT(Edit(Model(Sub(15, sparse)), Rename({{"s.values", "x"}})),
              StatusIs(Code::kFailedPrecondition, HasSubstr("is a part of the sparse tensor \"s\"")));
  const std::string attribute = Sub(5, Sub(1, "body") + Sub(6, Initializer(Small("f"))));
  const std::string function = Sub(25, Sub(1, "fn") + Sub(7, Sub(4, "If") + attribute));
  EXPECT_THAT(Edit(Model("", function), Rename({{"f", "x"}})),
              StatusIs(Code::kFailedPrecondition, HasSubstr("is in a function")));
  EXPECT_THAT(Edit(Small("t"), Rename({{"t", "x"}})),
              StatusIs(Code::kUnimplemented, HasSubstr("is not an ONNX model")));
}

TEST_F(OnnxEdit, OnlyWhatNothingUsesIsRemoved) {
  const auto model = [](const std::string& unused) {
    return Model(Initializer(Small("w")) + unused + NodeOf("w", "y") + Named(13, "u"), Pair(14, "k", "v"));
  };
  ASSERT_OK(Edit(model(Initializer(Small("u"))), Remove("u")));
  EXPECT_EQ(Result(), model(""));
  const std::pair<std::string, const char*> users[] = {
      {NodeOf("u", "x"), "a node at byte "},
      {NodeWithGraph("n", "b", NodeOf("u", "x")), "a node at byte "},
      {Named(11, "u"), "the list of inputs of its graph at byte "},
      {Named(12, "u"), "the list of outputs of its graph at byte "},
      {Sub(14, Sub(1, "w") + Pair(2, "SCALE_TENSOR", "u")), "an annotation at byte "}};
  for (const auto& [user, says] : users) {
    EXPECT_THAT(Edit(model(Initializer(Small("u")) + user), Remove("u")),
                StatusIs(Code::kFailedPrecondition, HasSubstr(absl::StrCat("\"u\" is not removed: ", says))));
  }
}

TEST_F(OnnxEdit, MetadataChange) {
  const std::string graph = Initializer(Small("w"));
  FileEdits edits;
  edits.set_metadata = {{"a", "new"}, {"z", "added"}};
  edits.unset_metadata = {"b"};
  // A key that is there twice is there once afterwards.
  ASSERT_OK(
      Edit(Model(graph, Pair(14, "a", "1") + Pair(14, "b", "2") + Pair(14, "a", "3") + Pair(14, "c", "4")), edits));
  EXPECT_EQ(Result(), Model(graph, Pair(14, "a", "new") + Pair(14, "c", "4") + Pair(14, "z", "added")));
  for (const char* const key : {"onnx.ir_version", "onnx.opset_import", "onnx.sparse.w"}) {
    FileEdits field;
    field.set_metadata = {{key, "1"}};
    EXPECT_THAT(Edit(Result(), field), StatusIs(Code::kInvalidArgument, HasSubstr("is a field of the model")));
  }
  FileEdits other;  // as onnxruntime writes it
  other.set_metadata = {{"onnx.infer", "here"}};
  ASSERT_OK(Edit(Model(graph), other));
  EXPECT_EQ(Result(), Model(graph, Pair(14, "onnx.infer", "here")));
  FileEdits bad;
  bad.set_metadata = {{"k", "\xff"}};
  EXPECT_THAT(Edit(Result(), bad), StatusIs(Code::kInvalidArgument, HasSubstr("metadata \"k\" is not UTF-8")));
}

TEST_F(OnnxEdit, AnOutputStaysBesideTheSideFiles) {
  const std::string model = Model(Initializer(ExternalTensor(2, {2}, Entry("location", "side.bin"), "w")));
  files_.Put("side.bin", "ab");
  options_.output = "n.onnx";
  ASSERT_OK(Edit(model, Rename({{"w", "v"}})));
  EXPECT_EQ(Result(), model);
  EXPECT_EQ(*files_.Find("n.onnx"), absl::StrReplaceAll(model, {{"\x01w", "\x01v"}}));
  options_.output = "elsewhere/n.onnx";
  EXPECT_THAT(Edit(model, Rename({{"w", "v"}})),
              StatusIs(Code::kFailedPrecondition, HasSubstr("the result belongs in the same folder")));
}

TEST_F(OnnxEdit, AnOutputStaysBesideTheSideFilesOfWhatIsNotListed) {
  const auto attribute = [](const std::string& value) {
    return Sub(1, Sub(2, "y") + Sub(4, "Custom") + Sub(5, Sub(1, "a") + value));
  };
  const std::string tensor = ExternalTensor(2, {2}, Entry("location", "side.bin"), "");
  const std::string odd = ExternalTensor(99, {2}, Entry("location", "side.bin"), "odd");
  for (const std::string& more :
       {attribute(Sub(5, tensor)), attribute(Sub(10, tensor)), attribute(Sub(22, Sub(1, tensor))),
        attribute(Sub(23, Sub(2, tensor))), Initializer(odd)}) {
    options_.output = "elsewhere/n.onnx";
    EXPECT_THAT(Edit(Model(Initializer(Small("w")) + more), Rename({{"w", "v"}})),
                StatusIs(Code::kFailedPrecondition, HasSubstr("the result belongs in the same folder")));
    options_.output = "";
    EXPECT_OK(Edit(Model(Initializer(Small("w")) + more), Rename({{"w", "v"}})));
  }
}

// A binding names an initializer, of the algorithm or of the model, and an output of its graph, which may come later.
TEST_F(OnnxEdit, BindingsOfATrainingStepMeanTheNamesOfItsGraphs) {
  const auto model = [](const std::string& w, const std::string& rate) {
    const std::string initialization = Sub(1, NodeOf("seed", "w") + Named(12, "w"));
    const std::string algorithm = Sub(2, Initializer(Small(rate)) + NodeOf(w, "w_new") + NodeOf(rate, "rate_new"));
    return Model(
        Initializer(Small(w)) + NodeOf(w, "y"),
        Sub(20, Pair(3, w, "w") + Pair(4, w, "w_new") + initialization + algorithm + Pair(4, rate, "rate_new")));
  };
  ASSERT_OK(Edit(model("w", "rate"), Rename({{"w", "v"}, {"rate", "speed"}})));
  EXPECT_EQ(Result(), model("v", "speed"));
  const std::string bound =
      Model(Initializer(Small("w")), Sub(20, Sub(2, Initializer(Small("rate"))) + Pair(4, "rate", "rate")));
  EXPECT_THAT(Edit(bound, Remove("rate")), StatusIs(Code::kFailedPrecondition, HasSubstr("an annotation")));
}

TEST_F(OnnxEdit, AModelWithoutOpsetsOrWithNewFieldsIsAModel) {
  const auto model = [](const std::string& name) { return Num(1, 8) + Sub(7, Initializer(Small(name))) + Num(77, 1); };
  ASSERT_OK(Edit(model("w"), Rename({{"w", "v"}})));
  EXPECT_EQ(Result(), model("v"));
  EXPECT_THAT(Edit(Small("w"), Rename({{"w", "v"}})), StatusIs(Code::kUnimplemented));
}

// Each prefix and each changed byte: refused, and nothing has changed, or edited to what is read again.
TEST_F(OnnxEdit, DamagedModelsAreRefusedOrStayReadable) {
  const std::string whole = EachPlace("w");
  FileEdits edits = Rename({{"w", "renamed"}});
  edits.set_metadata = {{"k", "v"}};
  int refused = 0;
  const auto check = [&](const std::string& content) {
    const absl::Status edited = Edit(content, edits).status();
    if (!edited.ok()) {
      ++refused;
      EXPECT_EQ(Result(), content);
      return;
    }
    OnnxReaderOptions read;
    read.read.file_system = &files_;
    ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open("m.onnx", read));
    EXPECT_EQ(reader.metadata().at("k"), "v");
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    SCOPED_TRACE(at);
    check(whole.substr(0, at));
    for (const char mask : {'\x01', '\x08', '\x21', '\x80'}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ mask);
      check(changed);
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(OnnxEdit, LimitsHold) {
  options_.limits.max_depth = 3;
  EXPECT_THAT(Edit(EachPlace("w"), Rename({{"w", "v"}})), StatusIs(Code::kResourceExhausted, HasSubstr("max_depth")));
}

}  // namespace
}  // namespace tensorcask
