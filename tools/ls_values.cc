#include "tensorcask/tools/ls_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/printable_text.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/output/table.h"

namespace tensorcask::tools {
namespace {

constexpr uint64_t kMaxValues = 10'000'000;              // that are printed
constexpr size_t kShownBytes = 80;                       // of a value that is shortened
constexpr size_t kShortBytes = 32;                       // of one in a line with others
constexpr size_t kShownNameBytes = 1024;                 // of a name in a table
constexpr uint64_t kMaxNameBytes = uint64_t{256} << 20;  // of all names in a document

// JSON in ASCII (`ascii`), or with the characters that are safe to print. All others are in strings, as \u escapes.
std::string EscapedJson(absl::string_view json, bool ascii) {
  std::string out;
  for (size_t i = 0; i < json.size();) {
    uint32_t code = 0;
    const size_t size = std::max<size_t>(internal::DecodeCharacter(json.substr(i), &code), 1);
    const absl::string_view character = json.substr(i, size);
    if (size == 1 || (!ascii && internal::PrintableBytes(character) > 0)) {
      absl::StrAppend(&out, character);
    } else if (code < 0x10000) {
      absl::StrAppendFormat(&out, "\\u%04x", code);
    } else {
      absl::StrAppendFormat(&out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    }
    i += size;
  }
  return out;
}

ValueJsonOptions JsonOptions(const ArchiveReader& input) {
  ValueJsonOptions options;
  options.tensor_name = [&input](uint64_t number) {
    return number < input.entries().size() ? input.entries()[number].name : absl::StrCat(number);
  };
  return options;
}

std::string ValueTypeName(ValueKind kind, int bits) {
  switch (kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInt:
      return bits > 0 ? absl::StrCat("int", bits) : "int";
    case ValueKind::kUint:
      return bits > 0 ? absl::StrCat("uint", bits) : "uint";
    case ValueKind::kBigInt:
      return "int";
    case ValueKind::kFloat:
      return absl::StrCat("float", bits);
    case ValueKind::kComplex:
      return absl::StrCat("complex", bits);
    case ValueKind::kText:
      return "text";
    case ValueKind::kBytes:
      return "bytes";
    case ValueKind::kDType:
      return "dtype";
    case ValueKind::kDevice:
      return "device";
    case ValueKind::kTensor:
      return "tensor";
    case ValueKind::kFileArray:
      return "array";
    case ValueKind::kList:
      return "list";
    case ValueKind::kTuple:
      return "tuple";
    case ValueKind::kSet:
      return "set";
    case ValueKind::kSize:
      return "size";
    case ValueKind::kMap:
      return "map";
    case ValueKind::kObject:
      return "object";
  }
  return "";
}

std::string TypeOf(Value value) { return ValueTypeName(value.kind(), value.bits()); }

bool HasItems(Value value) { return value.kind() == ValueKind::kList || value.kind() == ValueKind::kTuple; }

// A map with entries, or a list with such a map in it: its entries or items have lines of their own.
bool IsEntered(Value value) {
  if (value.kind() == ValueKind::kMap) return value.size() > 0;
  if (!HasItems(value)) return false;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value.item(i).kind() == ValueKind::kMap && value.item(i).size() > 0) return true;
  }
  return false;
}

// Calls fn(name, value) for each value that is not entered, in the order of the file, and for one that is entered if
// its name is one of `whole`. A root that is a list or a tuple has its items by their positions; any other root is one
// value without a name.
absl::Status ForEachNamed(const ValueTree& tree, const std::vector<std::string>& whole,
                          absl::FunctionRef<absl::Status(const GrowingName&, Value)> fn) {
  const Value root = tree.root();
  if (root.num_values() > kMaxValues) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxValues, " values"));
  }
  GrowingName name(GrowingName::MaxBytesFor(tree));
  if (root.kind() != ValueKind::kMap && !HasItems(root)) return fn(name, root);
  struct Entered {
    Value value;
    size_t next = 0;
  };
  std::vector<Entered> entered = {{root}};
  while (!entered.empty()) {
    Entered& top = entered.back();
    if (top.next == top.value.size()) {
      entered.pop_back();
      if (!entered.empty()) name.Leave();
      continue;
    }
    const size_t i = top.next++;
    const Value value = top.value.kind() == ValueKind::kMap ? top.value.entry(i) : top.value.item(i);
    name.Enter(top.value, i);
    if (IsEntered(value) && std::find(whole.begin(), whole.end(), name.text()) == whole.end()) {
      entered.push_back({value});
      continue;
    }
    CASK_RETURN_IF_ERROR(fn(name, value));
    name.Leave();
  }
  return absl::OkStatus();
}

// All of a value, with the elements of an array that is in the file.
absl::StatusOr<std::string> WholeJson(const ArchiveReader& input, Value value) {
  if (value.kind() != ValueKind::kFileArray) return ValueToJson(value, JsonOptions(input));
  CASK_ASSIGN_OR_RETURN(const ValueTree array, input.ReadFileArray(value.file_array()));
  return ValueToJson(array.root());
}

// A value in a few words.
std::string InFewWords(const ArchiveReader& input, Value value) {
  if (value.kind() == ValueKind::kText) return Quoted(value.text(), kShownBytes);
  if (value.kind() == ValueKind::kFileArray) {
    const FileArray& array = value.file_array();
    return absl::StrCat(array.count, " elements of ", ValueTypeName(array.kind, array.bits));
  }
  ValueJsonOptions options = JsonOptions(input);
  options.max_bytes = 2 * kShownBytes;
  const absl::StatusOr<std::string> json = ValueToJson(value, options);
  if (json.ok() && json->size() <= kShownBytes) return EscapedJson(*json, /*ascii=*/false);
  if (value.size() > 0) return absl::StrCat(value.size(), value.size() == 1 ? " element" : " elements");
  return absl::StrCat(value.num_values(), " values");
}

// A name as the table shows it.
std::string ShownName(const GrowingName& name) {
  const bool is_long = name.is_cut() || name.text().size() > kShownNameBytes;
  return absl::StrCat(Printable(name.text().substr(0, kShownNameBytes)), is_long ? "..." : "");
}

// The names and values that the user wants, of those in some trees. Without patterns all but tensors.
class Chosen {
 public:
  Chosen(std::vector<const ValueTree*> trees, const std::vector<std::string>& globs)
      : trees_(std::move(trees)), globs_(globs) {}

  absl::Status ForEachIn(const ValueTree& tree, absl::FunctionRef<absl::Status(const GrowingName&, Value)> fn) const {
    archive::NameChooser chooser(globs_, {}, archive::NameChooser::MaxBytesFor(tree));
    return ForEachNamed(tree, globs_, [&](const GrowingName& name, Value value) -> absl::Status {
      if (globs_.empty()) return value.kind() == ValueKind::kTensor ? absl::OkStatus() : fn(name, value);
      CASK_ASSIGN_OR_RETURN(const bool is_wanted, chooser.IsChosen(name.text(), name.is_cut()));
      return is_wanted ? fn(name, value) : absl::OkStatus();
    });
  }
  absl::Status ForEach(absl::FunctionRef<absl::Status(const GrowingName&, Value)> fn) const {
    for (const ValueTree* const tree : trees_) CASK_RETURN_IF_ERROR(ForEachIn(*tree, fn));
    return absl::OkStatus();
  }

  // Errors: Misuse, naming a pattern that matches nothing.
  absl::Status Check() const {
    constexpr size_t kMaxBytesOfOne = 256;  // of a name that is compared for a similar one
    constexpr size_t kMaxBytes = size_t{1} << 20;
    for (const std::string& glob : globs_) {
      bool is_found = false;
      std::vector<std::string> names;
      size_t bytes = 0;
      for (const ValueTree* const tree : trees_) {
        archive::NameChooser chooser({glob}, {}, archive::NameChooser::MaxBytesFor(*tree));
        CASK_RETURN_IF_ERROR(ForEachNamed(*tree, {glob}, [&](const GrowingName& name, Value) -> absl::Status {
          if (is_found) return absl::OkStatus();
          CASK_ASSIGN_OR_RETURN(is_found, chooser.IsChosen(name.text(), name.is_cut()));
          if (is_found || name.text().size() > kMaxBytesOfOne || bytes + name.text().size() > kMaxBytes) {
            return absl::OkStatus();
          }
          bytes += name.text().size() + 1;
          names.emplace_back(name.text());
          return absl::OkStatus();
        }));
      }
      if (is_found) continue;
      const std::vector<absl::string_view> views(names.begin(), names.end());
      return Misuse(absl::StrCat(Quoted(glob), " matches no value", archive::HintForPattern(glob, views)));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<const ValueTree*> trees_;
  const std::vector<std::string>& globs_;
};

// The chosen values of one tree, as a JSON object.
absl::Status PrintChosen(const ArchiveReader& input, const ValueTree& tree, const Chosen& chosen, Console& console) {
  const char* separator = "\n    ";
  uint64_t name_bytes = 0;
  console.out << '{';
  CASK_RETURN_IF_ERROR(chosen.ForEachIn(tree, [&](const GrowingName& name, Value value) -> absl::Status {
    name_bytes += name.text().size();
    if (name_bytes > kMaxNameBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the names of the values take more than ", kMaxNameBytes, " bytes"));
    }
    CASK_ASSIGN_OR_RETURN(const std::string text, WholeJson(input, value));
    console.out << separator << EscapedJson(JsonQuoted(name.text()), true) << ": " << EscapedJson(text, true);
    separator = ",\n    ";
    return absl::OkStatus();
  }));
  console.out << (separator[0] == ',' ? "\n  }" : "}");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExitCode> PrintValues(const ArchiveReader& input, const std::string& path,
                                     const std::vector<std::string>& globs, bool json, Console& console) {
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, input.Values());
  const ValueTree metadata = input.MetadataBesideValues();
  std::vector<const ValueTree*> trees = {&tree};
  if (!metadata.empty()) trees.push_back(&metadata);
  const Chosen chosen(trees, globs);
  CASK_RETURN_IF_ERROR(chosen.Check());
  if (json) {
    std::vector<std::string> parts;
    for (const ValueTree* const part : trees) {
      CASK_ASSIGN_OR_RETURN(parts.emplace_back(), globs.empty() ? ValueToJson(part->root(), JsonOptions(input)) : "");
    }
    console.out << "{\n  \"path\": " << EscapedJson(JsonQuoted(path), true) << ",\n  \"format\": \"" << input.format()
                << "\"";
    for (size_t i = 0; i < trees.size(); ++i) {
      console.out << ",\n  " << (i == 0 ? "\"values\": " : "\"metadata\": ");
      if (globs.empty()) {
        console.out << EscapedJson(parts[i], true);
      } else {
        CASK_RETURN_IF_ERROR(PrintChosen(input, *trees[i], chosen, console));
      }
    }
    console.out << "\n}\n";
    return kDone;
  }
  Table table({}, OutputWidth());
  for (const bool is_measured : {false, true}) {
    CASK_RETURN_IF_ERROR(chosen.ForEach([&](const GrowingName& name, Value value) -> absl::Status {
      TableRow row = {ShownName(name), TypeOf(value), ""};
      if (is_measured && !globs.empty()) {
        CASK_ASSIGN_OR_RETURN(const std::string text, WholeJson(input, value));
        row[2] = EscapedJson(text, /*ascii=*/false);
      } else if (is_measured) {
        row[2] = InFewWords(input, value);
      }
      if (is_measured) {
        table.Print(std::move(row), console.out);
      } else {
        table.Measure(row);
      }
      return absl::OkStatus();
    }));
  }
  return kDone;
}

std::string ValuesInALine(const ArchiveReader& input) {
  constexpr size_t kShownValues = 4;
  constexpr size_t kMostCounted = 10'000;
  constexpr size_t kMostVisited = 1'000'000;  // with tensors and empty maps, which are not counted
  const absl::StatusOr<ValueTree> tree = input.Values();
  if (!tree.ok()) return "";
  const ValueTree metadata = input.MetadataBesideValues();
  // Those nearest to the root, by the number of steps to them.
  std::vector<std::pair<size_t, std::string>> nearest;
  size_t count = 0;
  size_t visited = 0;
  bool are_more = false;
  const auto add = [&](const GrowingName& name, Value value) -> absl::Status {
    const bool is_empty_map = value.kind() == ValueKind::kMap;
    const bool is_counted = value.kind() != ValueKind::kTensor && !is_empty_map;
    are_more = ++visited > kMostVisited || (is_counted && count == kMostCounted);
    if (are_more) return absl::ResourceExhaustedError("enough");
    if (!is_counted) return absl::OkStatus();
    ++count;
    const bool is_short = value.kind() != ValueKind::kFileArray && value.size() == 0;
    const bool is_near = nearest.size() < kShownValues || name.depth() < nearest.back().first;
    if (!is_short || !is_near || name.is_cut() || name.text().size() > kShownBytes) return absl::OkStatus();
    const std::string text = InFewWords(input, value);
    if (text.size() > kShortBytes) return absl::OkStatus();
    if (nearest.size() == kShownValues) nearest.pop_back();
    nearest.emplace_back(name.depth(), name.depth() == 0 ? text : absl::StrCat(Printable(name.text()), "=", text));
    std::stable_sort(nearest.begin(), nearest.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    return absl::OkStatus();
  };
  for (const ValueTree* const part : {&*tree, &metadata}) {
    if (!part->empty() && !are_more && !ForEachNamed(*part, {}, add).ok() && !are_more) return "";
  }
  if (count == 0) return "";
  std::vector<std::string> shown;
  for (auto& [depth, text] : nearest) shown.push_back(std::move(text));
  const size_t left = count - shown.size();
  if (left > 0 || are_more) {
    shown.push_back(absl::StrCat(are_more ? "more than " : "", left, shown.empty() ? "" : " more"));
  }
  return absl::StrCat("values: ", absl::StrJoin(shown, ", "), " (ls --values)\n");
}

}  // namespace tensorcask::tools
