#include "tensorcask/serialize/safetensors/internal/index_rewrite.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"

namespace tensorcask::safetensors {
namespace {

// The position behind the string that begins at `at`.
size_t StringEnd(absl::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// The position behind the object or array that begins at `at`.
size_t NestEnd(absl::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = StringEnd(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

}  // namespace

absl::StatusOr<std::string> ReplaceWeightMap(absl::string_view text, const std::map<std::string, std::string>& files) {
  // In the outermost object: keys are the strings behind '{' and ','.
  bool wants_key = true;
  bool found = false;
  size_t at = std::min(text.find('{'), text.size()) + 1;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      const size_t end = StringEnd(text, at);
      found = wants_key && text.substr(at, end - at) == "\"weight_map\"";
      wants_key = false;
      at = end;
    } else if (c == '{' || c == '[') {
      const size_t end = NestEnd(text, at);
      if (found) {
        std::string map;
        absl::string_view separator = "{\n    ";
        for (const auto& [name, file] : files) {
          absl::StrAppend(&map, separator);
          AppendJsonString(name, &map);
          absl::StrAppend(&map, ": ");
          AppendJsonString(file, &map);
          separator = ",\n    ";
        }
        return absl::StrCat(text.substr(0, at), files.empty() ? "{" : map, files.empty() ? "}" : "\n  }",
                            text.substr(end));
      }
      at = end;
    } else {
      if (c == ',') wants_key = true;
      ++at;
    }
  }
  return absl::UnimplementedError("the key weight_map of the index is written with escapes");
}

}  // namespace tensorcask::safetensors
