#include "tensorcask/tools/ls_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/serialize/archive/convert_archives.h"
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

// Calls fn(name, value) for each value that is not a map, and for empty maps, in the order of the file. A root that is
// a list or a tuple has its items by their positions; any other root is one value without a name.
absl::Status ForEachNamed(Value root, absl::FunctionRef<absl::Status(const std::string&, Value)> fn) {
  if (root.num_values() > kMaxValues) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxValues, " values"));
  }
  if (root.kind() == ValueKind::kList || root.kind() == ValueKind::kTuple) {
    for (size_t i = 0; i < root.size(); ++i) {
      const PathStep step = {PathStep::Kind::kPosition, "", static_cast<int64_t>(i)};
      CASK_RETURN_IF_ERROR(fn(JoinedName({step}), root.item(i)));
    }
    return absl::OkStatus();
  }
  if (root.kind() != ValueKind::kMap) return fn("", root);
  struct OpenMap {
    Value map;
    size_t next = 0;
  };
  std::vector<OpenMap> open = {{root}};
  std::vector<PathStep> path;
  while (!open.empty()) {
    OpenMap& top = open.back();
    if (top.next == top.map.size()) {
      open.pop_back();
      if (!path.empty()) path.pop_back();
      continue;
    }
    const size_t i = top.next++;
    const Value value = top.map.entry(i);
    path.push_back(StepTo(top.map.key(i)));
    if (value.kind() == ValueKind::kMap && value.size() > 0) {
      open.push_back({value});
      continue;
    }
    CASK_RETURN_IF_ERROR(fn(JoinedName(path), value));
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

// The names and values that the user wants.
class Chosen {
 public:
  Chosen(Value root, const std::vector<std::string>& globs) : root_(root), globs_(globs) {}

  absl::Status ForEach(absl::FunctionRef<absl::Status(const std::string&, Value)> fn) {
    return ForEachNamed(root_, [&](const std::string& name, Value value) {
      return globs_.empty() || MatchesAny(globs_, name) ? fn(name, value) : absl::OkStatus();
    });
  }

  // Errors: Misuse, naming a pattern that matches nothing.
  absl::Status Check() {
    for (const std::string& glob : globs_) {
      bool is_found = false;
      CASK_RETURN_IF_ERROR(ForEachNamed(root_, [&](const std::string& name, Value /*value*/) {
        is_found = is_found || MatchesAny({glob}, name);
        return absl::OkStatus();
      }));
      if (!is_found) return Misuse(absl::StrCat(Quoted(glob), " matches no value"));
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
    console.out << "{\n  \"path\": " << EscapedJson(JsonQuoted(path), true) << ",\n  \"format\": \"" << input.format()
                << "\",\n  \"values\": ";
    if (globs.empty()) {
      CASK_ASSIGN_OR_RETURN(const std::string text, ValueToJson(tree.root(), JsonOptions(input)));
      console.out << EscapedJson(text, true);
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

}  // namespace tensorcask::tools
