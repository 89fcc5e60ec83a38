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
#include "tensorcask/serialize/archive/convert_archives.h"
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

constexpr uint64_t kMaxValues = 10'000'000;  // that are printed
constexpr size_t kShownBytes = 80;           // of a value that is shortened
constexpr size_t kShortBytes = 32;           // of one in a line with others

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

PathStep StepInto(Value parent, size_t i) {
  if (parent.kind() == ValueKind::kMap) return StepTo(parent.key(i));
  return {PathStep::Kind::kPosition, "", static_cast<int64_t>(i)};
}

// Calls fn(name, value) for each value that is not entered, in the order of the file, and for one that is entered if
// its name is one of `whole`. A root that is a list or a tuple has its items by their positions; any other root is one
// value without a name.
absl::Status ForEachNamed(Value root, const std::vector<std::string>& whole,
                          absl::FunctionRef<absl::Status(const std::string&, Value)> fn) {
  if (root.num_values() > kMaxValues) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxValues, " values"));
  }
  if (root.kind() != ValueKind::kMap && !HasItems(root)) return fn("", root);
  struct Entered {
    Value value;
    size_t next = 0;
  };
  std::vector<Entered> entered = {{root}};
  std::vector<PathStep> path;
  while (!entered.empty()) {
    Entered& top = entered.back();
    if (top.next == top.value.size()) {
      entered.pop_back();
      if (!path.empty()) path.pop_back();
      continue;
    }
    const size_t i = top.next++;
    const Value value = top.value.kind() == ValueKind::kMap ? top.value.entry(i) : top.value.item(i);
    path.push_back(StepInto(top.value, i));
    std::string name = JoinedName(path);
    if (IsEntered(value) && std::find(whole.begin(), whole.end(), name) == whole.end()) {
      entered.push_back({value});
      continue;
    }
    CASK_RETURN_IF_ERROR(fn(name, value));
    path.pop_back();
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

// The names and values that the user wants. Without patterns all but tensors.
class Chosen {
 public:
  Chosen(Value root, const std::vector<std::string>& globs) : root_(root), globs_(globs) {}

  absl::Status ForEach(absl::FunctionRef<absl::Status(const std::string&, Value)> fn) {
    return ForEachNamed(root_, globs_, [&](const std::string& name, Value value) {
      const bool is_wanted = globs_.empty() ? value.kind() != ValueKind::kTensor : MatchesAny(globs_, name);
      return is_wanted ? fn(name, value) : absl::OkStatus();
    });
  }

  // Errors: Misuse, naming a pattern that matches nothing.
  absl::Status Check() {
    constexpr size_t kMaxNames = 100000;  // that are compared for a similar one
    for (const std::string& glob : globs_) {
      bool is_found = false;
      std::vector<std::string> names;
      CASK_RETURN_IF_ERROR(ForEachNamed(root_, {glob}, [&](const std::string& name, Value /*value*/) {
        is_found = is_found || MatchesAny({glob}, name);
        if (!is_found && names.size() < kMaxNames) names.push_back(name);
        return absl::OkStatus();
      }));
      if (is_found) continue;
      const std::vector<absl::string_view> views(names.begin(), names.end());
      return Misuse(absl::StrCat(Quoted(glob), " matches no value", archive::HintForPattern(glob, views)));
    }
    return absl::OkStatus();
  }

 private:
  const Value root_;
  const std::vector<std::string>& globs_;
};

}  // namespace

absl::StatusOr<ExitCode> PrintValues(const ArchiveReader& input, const std::string& path,
                                     const std::vector<std::string>& globs, bool json, Console& console) {
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, input.Values());
  Chosen chosen(tree.root(), globs);
  CASK_RETURN_IF_ERROR(chosen.Check());
  if (json) {
    CASK_ASSIGN_OR_RETURN(const std::string all, globs.empty() ? ValueToJson(tree.root(), JsonOptions(input)) : "");
    console.out << "{\n  \"path\": " << EscapedJson(JsonQuoted(path), true) << ",\n  \"format\": \"" << input.format()
                << "\",\n  \"values\": ";
    if (globs.empty()) {
      console.out << EscapedJson(all, true);
    } else {
      const char* separator = "{\n    ";
      CASK_RETURN_IF_ERROR(chosen.ForEach([&](const std::string& name, Value value) -> absl::Status {
        CASK_ASSIGN_OR_RETURN(const std::string text, WholeJson(input, value));
        console.out << separator << EscapedJson(JsonQuoted(name), true) << ": " << EscapedJson(text, true);
        separator = ",\n    ";
        return absl::OkStatus();
      }));
      console.out << "\n  }";
    }
    console.out << "\n}\n";
    return kDone;
  }
  Table table({}, OutputWidth());
  for (const bool is_measured : {false, true}) {
    CASK_RETURN_IF_ERROR(chosen.ForEach([&](const std::string& name, Value value) -> absl::Status {
      TableRow row = {Printable(name), TypeOf(value), ""};
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
  const absl::StatusOr<ValueTree> tree = input.Values();
  if (!tree.ok() || tree->empty()) return "";
  // Those nearest to the root, by the number of steps to them.
  std::vector<std::pair<size_t, std::string>> nearest;
  size_t count = 0;
  const absl::Status all = ForEachNamed(tree->root(), {}, [&](const std::string& name, Value value) {
    const bool is_empty_map = value.kind() == ValueKind::kMap;
    if (value.kind() == ValueKind::kTensor || is_empty_map) return absl::OkStatus();
    if (++count > kMostCounted) return absl::ResourceExhaustedError("enough");
    const bool is_short = value.kind() != ValueKind::kFileArray && value.size() == 0;
    const auto steps = static_cast<size_t>(std::count(name.begin(), name.end(), '.'));
    if (!is_short || (nearest.size() == kShownValues && nearest.back().first <= steps)) return absl::OkStatus();
    const std::string text = InFewWords(input, value);
    if (text.size() > kShortBytes || name.size() > kShownBytes) return absl::OkStatus();
    if (nearest.size() == kShownValues) nearest.pop_back();
    nearest.emplace_back(steps, name.empty() ? text : absl::StrCat(Printable(name), "=", text));
    std::stable_sort(nearest.begin(), nearest.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    return absl::OkStatus();
  });
  if (count == 0) return "";
  std::vector<std::string> shown;
  for (auto& [steps, text] : nearest) shown.push_back(std::move(text));
  const size_t left = count - shown.size();
  if (left > 0) {
    const std::string number = count > kMostCounted ? absl::StrCat("more than ", kMostCounted) : absl::StrCat(left);
    shown.push_back(absl::StrCat(number, shown.empty() ? "" : " more"));
  }
  return absl::StrCat("values: ", absl::StrJoin(shown, ", "), " (ls --values)\n");
}

}  // namespace tensorcask::tools
