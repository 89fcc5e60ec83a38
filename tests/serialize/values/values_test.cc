// Values without behaviour: trees, JSON and paths.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/serialize/values/value_text.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;
using Step = PathStep::Kind;

std::string Json(const ValueTree& tree) { return ValueToJson(tree.root()).value_or("error"); }

TEST(ValueTest, KeepsWhatItWasGiven) {
  ValueTree tree;
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.value(tree.AddInt(-7, 16)).int_value(), -7);
  EXPECT_EQ(tree.root().bits(), 16);
  EXPECT_EQ(tree.value(tree.AddUint(std::numeric_limits<uint64_t>::max(), 64)).uint_value(), UINT64_MAX);
  EXPECT_EQ(tree.value(tree.AddFloat(-0.5, 32)).float_value(), -0.5);
  EXPECT_EQ(tree.value(tree.AddComplex({1, -2})).complex_value(), std::complex<double>(1, -2));
  EXPECT_TRUE(tree.value(tree.AddBool(true)).bool_value());
  EXPECT_EQ(tree.value(tree.AddText("hi")).text(), "hi");
  EXPECT_EQ(tree.value(tree.AddText("\x01", ValueKind::kBytes)).text(), "\x01");
  EXPECT_EQ(tree.value(tree.AddTensor(9)).tensor(), 9u);
  const FileArray array = {ValueKind::kUint, 32, 100, 4096, 400};
  EXPECT_EQ(tree.value(tree.AddFileArray(array)).file_array(), array);
  EXPECT_EQ(tree.value(tree.AddNone()).kind(), ValueKind::kNone);
  const ValueTree::Id one = tree.AddInt(1);
  const Value list = tree.value(tree.AddItems(ValueKind::kList, {one, one}));
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list.item(1).int_value(), 1);
  EXPECT_EQ(list.empty_item_kind(), ValueKind::kNone);
  EXPECT_EQ(tree.value(tree.AddItems(ValueKind::kList, {})).empty_item_kind(), ValueKind::kNone);
  EXPECT_EQ(tree.value(tree.AddItems(ValueKind::kTuple, {})).empty_item_kind(), ValueKind::kNone);
  const Value empty = tree.value(tree.AddEmptyList(ValueKind::kUint, 16));
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(empty.num_children(), 0u);
  EXPECT_EQ(empty.empty_item_kind(), ValueKind::kUint);
  EXPECT_EQ(empty.bits(), 16);
  const Value map = tree.value(tree.AddMap({{one, list.id()}}));
  EXPECT_EQ(map.key(0).int_value(), 1);
  EXPECT_EQ(map.entry(0).id(), list.id());
  const Value object = tree.value(tree.AddObject("a.B", list.id(), map.id()));
  EXPECT_EQ(object.class_name(), "a.B");
  EXPECT_EQ(object.arguments().id(), list.id());
  EXPECT_EQ(object.state().id(), map.id());
  EXPECT_EQ(object.depth(), 4u);
  EXPECT_GT(tree.memory_bytes(), 0u);
}

// What is shared is stored once, and counted as often as it would be written.
TEST(ValueTest, KnowsHowLargeItIsWhenItIsWrittenOut) {
  ValueTree tree;
  ValueTree::Id id = tree.AddInt(0);
  for (int i = 0; i < 100; ++i) id = tree.AddItems(ValueKind::kList, {id, id});
  EXPECT_EQ(tree.root().depth(), 101u);
  EXPECT_EQ(tree.root().num_values(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(tree.root().item(0).id(), tree.root().item(1).id());
  ValueJsonOptions options;
  options.max_bytes = 10000;
  EXPECT_THAT(ValueToJson(tree.root(), options).status(), StatusIs(Code::kResourceExhausted, HasSubstr("10000 bytes")));
  EXPECT_THAT(ValueToJson(tree.root()).status(), StatusIs(Code::kResourceExhausted, HasSubstr("1073741824 bytes")));
}

TEST(ValueTest, AMillionListsInOneAnotherNeedNoStack) {
  ValueTree tree;
  ValueTree::Id id = tree.AddItems(ValueKind::kList, {});
  for (int i = 1; i < 1'000'000; ++i) id = tree.AddItems(ValueKind::kList, {id});
  const std::string json = Json(tree);
  EXPECT_EQ(json.size(), 2'000'000u);
  const ValueTree copy = tree;
  EXPECT_EQ(copy.root().num_values(), 1'000'000u);
}

TEST(ValueJsonTest, HasAFormForEachKind) {
  ValueTree tree;
  const ValueTree::Id none = tree.AddNone();
  const ValueTree::Id text = tree.AddText("a\"\\\n\xc3\xb6");
  const ValueTree::Id three = tree.AddInt(3);
  const ValueTree::Id empty = tree.AddMap({});
  std::vector<ValueTree::Id> items = {
      none,
      tree.AddBool(false),
      three,
      tree.AddUint(UINT64_MAX),
      tree.AddText("123456789012345678901234567890", ValueKind::kBigInt),
      tree.AddFloat(0.1),
      tree.AddFloat(0.1f, 32),
      tree.AddFloat(1.0 / 3),
      tree.AddFloat(std::numeric_limits<double>::quiet_NaN()),
      tree.AddFloat(-std::numeric_limits<double>::infinity()),
      tree.AddComplex({0, 1}),
      text,
      tree.AddText("\xff", ValueKind::kText),
      tree.AddText("\xff", ValueKind::kBytes),
      tree.AddText("bfloat16", ValueKind::kDType),
      tree.AddTensor(4),
      tree.AddFileArray({ValueKind::kText, 0, 3, 64, 30}),
      empty,
      tree.AddMap({{text, none}}),
      tree.AddMap({{three, none}}),
      tree.AddMap({{three, none}, {text, three}}),
      tree.AddObject("a.B", none, empty),
  };
  tree.AddItems(ValueKind::kTuple, items);
  EXPECT_EQ(
      Json(tree),
      "[null,false,3,18446744073709551615,123456789012345678901234567890,0.1,0.1,0.3333333333333333,\"nan\","
      "\"-inf\",[0.0,1.0],\"a\\\"\\\\\\u000a\xc3\xb6\",\"\xef\xbf\xbd\",{\"bytes\":\"ff\"},\"bfloat16\",{\"tensor\":4},"
      "{\"array\":\"text\",\"bits\":0,\"count\":3,\"offset\":64,\"stored_bytes\":30},{},"
      "{\"a\\\"\\\\\\u000a\xc3\xb6\":null},{\"3\":null},{\"map\":[[3,null],[\"a\\\"\\\\\\u000a\xc3\xb6\",3]]},"
      "{\"object\":\"a.B\",\"arguments\":null,\"state\":{}}]");
}

// ---- Paths ----------------------------------------------------------------------------------------------------------

TEST(ValuePathTest, NamesAreJoinedOrExact) {
  const std::vector<PathStep> path = {{Step::kKey, "a.b", 0},
                                      {Step::kPosition, "", 3},
                                      {Step::kIntKey, "", -1},
                                      {Step::kAttribute, "state", 0},
                                      {Step::kKey, "q\"\n", 0}};
  EXPECT_EQ(JoinedName(path), "a.b.3.-1.state.q\"\n");
  EXPECT_EQ(ExactName(path), "[\"a.b\"][3][-1].state[\"q\\\"\\u000a\"]");
  EXPECT_EQ(JoinedName({}), "");
}

class FindValueTest : public ::testing::Test {
 protected:
  FindValueTest() {
    const ValueTree::Id lr = tree_.AddFloat(0.5);
    const ValueTree::Id group = tree_.AddMap({{tree_.AddText("lr"), lr}, {tree_.AddInt(7), tree_.AddText("seven")}});
    const ValueTree::Id groups = tree_.AddItems(ValueKind::kList, {group, tree_.AddInt(2)});
    const ValueTree::Id object = tree_.AddObject("C", tree_.AddNone(), group);
    tree_.AddMap({{tree_.AddText("param_groups"), groups},
                  {tree_.AddText("a.b"), lr},
                  {tree_.AddText("q\"\n"), tree_.AddInt(5)},
                  {tree_.AddText("args"), object}});
  }
  std::string Find(const std::string& name) const {
    const absl::StatusOr<Value> found = FindValue(tree_.root(), name);
    return found.ok() ? *ValueToJson(*found) : std::string(found.status().message());
  }
  ValueTree tree_;
};

TEST_F(FindValueTest, TakesBothFormsAndMixtures) {
  EXPECT_EQ(Find("param_groups.0.lr"), "0.5");
  EXPECT_EQ(Find("param_groups[0].lr"), "0.5");
  EXPECT_EQ(Find("[\"param_groups\"][0][\"lr\"]"), "0.5");
  EXPECT_EQ(Find("param_groups[0][7]"), "\"seven\"");
  EXPECT_EQ(Find("param_groups.0.7"), "\"seven\"");
  EXPECT_EQ(Find("args.lr"), "0.5");
  EXPECT_EQ(Find("[\"a.b\"]"), "0.5");
  EXPECT_EQ(Find("a.b"), "0.5");
  EXPECT_EQ(Find(ExactName({{Step::kKey, "q\"\n", 0}})), "5");
  EXPECT_EQ(Find("param_groups[1]"), "2");
  EXPECT_EQ(FindValue(tree_.root(), "")->id(), tree_.root().id());
}

TEST(FindValueOfDottedKeysTest, TheShortestKeyCounts) {
  ValueTree tree;
  const ValueTree::Id one = tree.AddInt(1);
  const ValueTree::Id inner = tree.AddMap({{tree.AddText("b.c"), tree.AddInt(2)}, {tree.AddText("x"), one}});
  tree.AddMap({{tree.AddText("a"), inner},
               {tree.AddText("a.b"), tree.AddInt(3)},
               {tree.AddText("g.h"), inner},
               {tree.AddText("g.h.i"), tree.AddInt(4)},
               {tree.AddText("t.u"), tree.AddItems(ValueKind::kList, {one})}});
  const auto find = [&](const std::string& name) {
    const absl::StatusOr<Value> found = FindValue(tree.root(), name);
    return found.ok() ? *ValueToJson(*found) : std::string(found.status().message());
  };
  EXPECT_EQ(find("a.b.c"), "2");
  EXPECT_EQ(find("a.b"), "3") << "\"a\" has no \"b\"";
  EXPECT_EQ(find("a.c"), "no value \".c\" in \"a\"");
  EXPECT_EQ(find("[\"a.b\"]"), "3");
  EXPECT_EQ(find("g.h.x"), "1");
  EXPECT_EQ(find("t.u[0]"), "1");
  EXPECT_EQ(find("t.u.0"), "1");
  EXPECT_EQ(find("t.v"), "no value \"t\" in the values of the file");
  EXPECT_EQ(find("t."), "no value \"t\" in the values of the file");
}

// Each step of the name can be taken in many ways.
TEST(FindValueOfDottedKeysTest, TakesTimeThatIsBounded) {
  ValueTree tree;
  ValueTree::Id below = tree.AddMap({});
  std::string name = "a";
  for (int i = 0; i < 60; ++i) {
    below = tree.AddMap({{tree.AddText("a"), below}, {tree.AddText("a.a"), below}, {tree.AddText("a.a.a"), below}});
    name += ".a";
  }
  EXPECT_THAT(FindValue(tree.root(), name + ".b").status(), StatusIs(Code::kNotFound));
}

TEST(FindValueInArrayTest, GivesTheRestOfTheName) {
  ValueTree tree;
  FileArray array;
  array.count = 3;
  const ValueTree::Id in_file = tree.AddFileArray(array);
  tree.AddMap({{tree.AddText("t.tokens"), in_file}});
  std::string rest = "none";
  ASSERT_OK_AND_ASSIGN(const Value found, FindValue(tree.root(), "t.tokens[2]", &rest));
  EXPECT_EQ(found.kind(), ValueKind::kFileArray);
  EXPECT_EQ(rest, "[2]");
  EXPECT_THAT(FindValue(tree.root(), "t.tokens[2]").status(), StatusIs(Code::kNotFound));
}

TEST_F(FindValueTest, SaysWhichStepIsMissing) {
  EXPECT_EQ(Find("x"), "no value \"x\" in the values of the file");
  EXPECT_EQ(Find("param_groups[2]"), "no value \"[2]\" in \"param_groups\"");
  EXPECT_EQ(Find("param_groups[-1]"), "no value \"[-1]\" in \"param_groups\"");
  EXPECT_EQ(Find("a.c"), "no value \"a\" in the values of the file");
  EXPECT_EQ(Find("param_groups.1.x"), "no value \".x\" in \"param_groups.1\"");
}

TEST_F(FindValueTest, RefusesNamesThatAreNotWellFormed) {
  for (const std::string name :
       {"[", "[x]", "[1", "[\"a", "[\"\\x\"]", "[\"\\u00ff\"]", "[\"param_groups\"]x", "[ 1]", "[01]"}) {
    EXPECT_THAT(FindValue(tree_.root(), name).status(), StatusIs(Code::kInvalidArgument, HasSubstr("the name")))
        << name;
  }
}

TEST(ValuePathTest, TheStepToAnEntryHasItsKey) {
  ValueTree tree;
  const ValueTree::Id text = tree.AddText("a.b");
  const ValueTree::Id number = tree.AddInt(7);
  const ValueTree::Id pair = tree.AddItems(ValueKind::kTuple, {number, number});
  EXPECT_EQ(JoinedName({StepTo(tree.value(text)), StepTo(tree.value(number))}), "a.b.7");
  EXPECT_EQ(ExactName({StepTo(tree.value(text)), StepTo(tree.value(number))}), "[\"a.b\"][7]");
  EXPECT_EQ(JoinedName({StepTo(tree.value(pair))}), "(7, 7)");
}

TEST(ValuePathTest, AKeyHasOneSpelling) {
  ValueTree tree;
  const ValueTree::Id none = tree.AddNone();
  const ValueTree::Id yes = tree.AddBool(true);
  const ValueTree::Id half = tree.AddFloat(0.5);
  const ValueTree::Id text = tree.AddText("a");
  const ValueTree::Id list = tree.AddItems(ValueKind::kTuple, {yes});
  const ValueTree::Id tuple = tree.AddItems(ValueKind::kTuple, {tree.AddInt(1), text, half, list, none});
  const std::pair<ValueTree::Id, std::string> keys[] = {
      {none, "None"},
      {yes, "True"},
      {half, "0.5"},
      {tree.AddFloat(std::numeric_limits<double>::infinity()), "inf"},
      {tree.AddUint(UINT64_MAX), "18446744073709551615"},
      {tree.AddText("raw", ValueKind::kBytes), "raw"},
      {tree.AddText("float32", ValueKind::kDType), "torch.float32"},
      {tree.AddText("cuda:0", ValueKind::kDevice), "cuda:0"},
      {tree.AddText("123456789012345678901", ValueKind::kBigInt), "123456789012345678901"},
      {tuple, "(1, a, 0.5, .., None)"},
      {tree.AddItems(ValueKind::kSize, {}), "()"},
      {tree.AddItems(ValueKind::kSet, {text}), "(a value)"},
  };
  std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
  for (const auto& [key, name] : keys) entries.emplace_back(key, tree.AddText(name));
  tree.AddMap(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string& name = keys[i].second;
    EXPECT_EQ(JoinedName({StepTo(tree.value(keys[i].first))}), name);
    GrowingName growing(GrowingName::MaxBytesFor(tree));
    growing.Enter(tree.root(), i);
    EXPECT_EQ(growing.text(), name);
    const absl::StatusOr<Value> found = FindValue(tree.root(), name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->text(), name);
  }
  // A text comes first.
  ValueTree both;
  const ValueTree::Id key = both.AddBool(true);
  both.AddMap({{both.AddText("True"), both.AddInt(1)}, {key, both.AddInt(2)}});
  EXPECT_EQ(FindValue(both.root(), "True")->int_value(), 1);
}

TEST(GrowingNameTest, GrowsAndShrinksWithTheWalk) {
  ValueTree tree;
  const ValueTree::Id list = tree.AddItems(ValueKind::kList, {tree.AddInt(5), tree.AddInt(6)});
  tree.AddMap({{tree.AddText("a.b"), list}, {tree.AddInt(-7), list}});
  GrowingName name(100);
  EXPECT_EQ(name.text(), "");
  EXPECT_FALSE(name.is_cut());
  name.Enter(tree.root(), 0);
  name.Enter(tree.value(list), 1);
  EXPECT_EQ(name.text(), "a.b.1");
  EXPECT_EQ(name.depth(), 2u);
  name.Leave();
  EXPECT_EQ(name.text(), "a.b");
  name.Leave();
  name.Enter(tree.root(), 1);
  EXPECT_EQ(name.text(), "-7");
}

TEST(GrowingNameTest, StepsPastTheLimitAreCut) {
  ValueTree tree;
  const ValueTree::Id inner = tree.AddMap({{tree.AddText("k"), tree.AddInt(1)}});
  tree.AddMap({{tree.AddText("long"), inner}, {tree.AddText("l"), inner}});
  GrowingName name(9);  // a step takes a byte more than its text
  name.Enter(tree.root(), 0);
  EXPECT_FALSE(name.is_cut());
  name.Leave();
  name.Enter(tree.root(), 0);
  EXPECT_EQ(name.text(), "");
  EXPECT_TRUE(name.is_cut());
  name.Enter(tree.value(inner), 0);
  EXPECT_EQ(name.text(), "");
  EXPECT_TRUE(name.is_cut());
  name.Leave();
  name.Leave();
  EXPECT_FALSE(name.is_cut());
  name.Enter(tree.root(), 1);
  EXPECT_EQ(name.text(), "l");
}

// Without a limit, the walk would copy a terabyte.
TEST(ValuePathTest, ALongKeyOfManyMapsEndsTheWalk) {
  ValueTree tree;
  const ValueTree::Id key = tree.AddText(std::string(size_t{1} << 20, 'k'));
  ValueTree::Id map = tree.AddMap({{key, tree.AddInt(1)}});
  std::vector<std::pair<ValueTree::Id, ValueTree::Id>> maps;
  for (int i = 0; i < 1'000'000; ++i) maps.emplace_back(tree.AddInt(i), map);
  tree.AddMap(maps);
  EXPECT_FALSE(ForEachInMaps(tree.root(), uint64_t{1} << 22, [](absl::Span<const PathStep>, Value) {}));
}

TEST(ValuePathTest, VisitsWhatIsInMaps) {
  ValueTree tree;
  const ValueTree::Id one = tree.AddInt(1);
  const ValueTree::Id list = tree.AddItems(ValueKind::kList, {one, tree.AddMap({{tree.AddText("x"), one}})});
  const ValueTree::Id inner = tree.AddMap({{tree.AddText("b"), one}, {tree.AddInt(7), list}});
  tree.AddMap({{tree.AddText("a"), inner}, {tree.AddText("empty"), tree.AddMap({})}, {tree.AddText("c"), one}});
  std::vector<std::string> names;
  const auto visit = [&](absl::Span<const PathStep> path, Value value) {
    EXPECT_EQ(value.kind(), names.size() == 1 ? ValueKind::kList : ValueKind::kInt);
    names.push_back(JoinedName(path));
  };
  EXPECT_TRUE(ForEachInMaps(tree.root(), 6, visit));
  EXPECT_THAT(names, ElementsAre("a.b", "a.7", "c"));
  names.clear();
  EXPECT_FALSE(ForEachInMaps(tree.root(), 5, visit));
  EXPECT_THAT(names, ElementsAre("a.b", "a.7"));
  names.clear();
  EXPECT_TRUE(ForEachInMaps(tree.value(one), 1, visit));
  EXPECT_THAT(names, ElementsAre(""));
}

TEST(ValuePathTest, AMapInManyMapsIsAValue) {
  ValueTree tree;
  ValueTree::Id map = tree.AddMap({});
  for (int i = 0; i < 100; ++i) map = tree.AddMap({{tree.AddText("k"), map}});
  size_t steps = 0;
  EXPECT_TRUE(ForEachInMaps(tree.root(), 1000, [&](absl::Span<const PathStep> path, Value value) {
    EXPECT_EQ(value.kind(), ValueKind::kMap);
    steps = path.size();
  }));
  EXPECT_EQ(steps, 32u);
}

// ---- Text -----------------------------------------------------------------------------------------------------------

// The text of a value and its type; what they give has the same.
std::string TextAndType(const ValueTree& tree) {
  const std::optional<std::string> text = ValueText(tree.root());
  if (!text.has_value()) return "none";
  const std::string type = ValueTextType(tree.root());
  ValueTree again;
  const std::optional<ValueTree::Id> id = AddValueOfText(*text, type, &again);
  if (!id.has_value()) return "not read: " + *text;
  const Value value = again.value(*id);
  EXPECT_EQ(value.kind(), tree.root().kind());
  EXPECT_EQ(value.bits(), tree.root().bits());
  EXPECT_EQ(ValueText(value), text);
  EXPECT_EQ(ValueTextType(value), type);
  return *text + " " + type;
}

template <typename Add>
std::string TextOf(Add add) {
  ValueTree tree;
  add(&tree);
  return TextAndType(tree);
}

TEST(ValueTextTest, AnEmptyMapComesBack) {
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddMap({}); }), "{} map");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddMap({{tree->AddInt(1), tree->AddInt(2)}}); }), "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddItems(ValueKind::kList, {tree->AddMap({})}); }), "none");
  ValueTree tree;
  EXPECT_FALSE(AddValueOfText("{1}", "map", &tree).has_value());
}

TEST(ValueTextTest, SingleValuesComeBack) {
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddNone(); }), "null none");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddBool(false); }), "false bool");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddInt(-7); }), "-7 int");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddInt(-128, 8); }), "-128 int8");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddInt(INT64_MIN, 64); }), "-9223372036854775808 int64");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddUint(UINT64_MAX, 64); }), "18446744073709551615 uint64");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddText("-123456789012345678901", ValueKind::kBigInt); }),
            "-123456789012345678901 int");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddFloat(0.1); }), "0.1 float64");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddFloat(0.1f, 32); }), "0.1 float32");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddFloat(-0.0); }), "-0.0 float64");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddFloat(std::numeric_limits<double>::infinity()); }),
            "\"inf\" float64");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddText("a \"b\"\n\\ \xc3\xa9"); }),
            "\"a \\\"b\\\"\\u000a\\\\ \xc3\xa9\" text");
}

TEST(ValueTextTest, ListsOfOneTypeComeBack) {
  const auto list = [](ValueKind kind) {
    return [kind](ValueTree* tree) { tree->AddItems(kind, {tree->AddFloat(0.5), tree->AddFloat(-1)}); };
  };
  EXPECT_EQ(TextOf(list(ValueKind::kList)), "[0.5,-1.0] list(float64)");
  EXPECT_EQ(TextOf(list(ValueKind::kTuple)), "[0.5,-1.0] tuple(float64)");
  EXPECT_EQ(TextOf(list(ValueKind::kSet)), "[0.5,-1.0] set(float64)");
  EXPECT_EQ(TextOf([](ValueTree* tree) {
              tree->AddItems(ValueKind::kList, {tree->AddText("a,\"]"), tree->AddText("")});
            }),
            R"(["a,\"]",""] list(text))");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddEmptyList(ValueKind::kUint, 16); }), "[] list(uint16)");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddItems(ValueKind::kTuple, {}); }), "[] tuple(none)");
}

TEST(ValueTextTest, OthersHaveNoText) {
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddText("ab", ValueKind::kBytes); }), "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddText("\xff"); }), "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddComplex({1, 2}); }), "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddMap({{tree->AddNone(), tree->AddNone()}}); }), "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) {
              tree->AddItems(ValueKind::kList, {tree->AddInt(1), tree->AddFloat(1)});
            }),
            "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) {
              const ValueTree::Id inner = tree->AddItems(ValueKind::kList, {tree->AddInt(1)});
              tree->AddItems(ValueKind::kList, {inner});
            }),
            "none");
  EXPECT_EQ(TextOf([](ValueTree* tree) { tree->AddText(std::string(2 << 20, 'x')); }), "none");
}

TEST(ValueTextTest, OtherTextIsNoValueOfTheType) {
  struct Case {
    const char* text;
    const char* type;
  };
  for (const Case& row : std::vector<Case>{
           {"128", "int8"},       {"-129", "int8"},     {"256", "uint8"},       {"-1", "uint8"},
           {"1.5", "int"},        {" 1", "int"},        {"+1", "int"},          {"1 ", "int"},
           {"", "int"},           {"-", "int"},         {"1e400x", "float64"},  {"nan", "float64"},
           {"0x10", "int"},       {"yes", "bool"},      {"a", "text"},          {"\"a", "text"},
           {"\"a\"b", "text"},    {"\"\\q\"", "text"},  {"", "none"},           {"1", "int7"},
           {"1", "int08"},        {"1", "float8"},      {"1", "real"},          {"1", "list(int)"},
           {"[1,]", "list(int)"}, {"[1", "list(int)"},  {"[1,a]", "list(int)"}, {"[[1]]", "list(list(int))"},
           {"[1]", "list"},       {"[1]x", "list(int)"}}) {
    ValueTree tree;
    EXPECT_EQ(AddValueOfText(row.text, row.type, &tree), std::nullopt) << row.text << " as " << row.type;
  }
}

}  // namespace
}  // namespace tensorcask
