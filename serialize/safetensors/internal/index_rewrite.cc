#include "tensorcask/serialize/safetensors/internal/index_rewrite.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"
#include "tensorcask/tensor/base/json_string.h"

namespace tensorcask::safetensors {
namespace {

// The position after the string that begins at `at`.
size_t StringEnd(absl::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// The position after the object or array that begins at `at`.
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

// Where the value of the key `quoted` begins in the object that begins at `at`: after the colon and the whitespace.
// npos if the object has no such key, written in this way.
size_t FindValue(absl::string_view text, size_t at, absl::string_view quoted) {
  bool wants_key = true;
  for (++at; at < text.size() && text[at] != '}';) {
    const char c = text[at];
    if (c == '"') {
      const size_t end = StringEnd(text, at);
      const bool found = wants_key && text.substr(at, end - at) == quoted;
      wants_key = false;
      at = end;
      if (found) return text.find_first_not_of(" \t\r\n:", at);
    } else if (c == '{' || c == '[') {
      at = NestEnd(text, at);
    } else {
      if (c == ',') wants_key = true;
      ++at;
    }
  }
  return absl::string_view::npos;
}

// `text` with another number at `at`.
std::string WithNumber(absl::string_view text, size_t at, uint64_t number) {
  const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
  return absl::StrCat(text.substr(0, at), number, text.substr(end));
}

absl::Status WithEscapes(absl::string_view key) {
  return absl::UnimplementedError(absl::StrCat("the key ", key, " of the index is written with escapes"));
}

}  // namespace

absl::StatusOr<std::string> ReplaceWeightMap(absl::string_view text, const std::map<std::string, std::string>& files) {
  const size_t at = FindValue(text, text.find('{'), "\"weight_map\"");
  if (at == absl::string_view::npos) return WithEscapes("weight_map");
  std::string map;
  absl::string_view separator = "{\n    ";
  for (const auto& [name, file] : files) {
    absl::StrAppend(&map, separator);
    internal::AppendJsonString(name, internal::JsonEscapes::kShort, &map);
    absl::StrAppend(&map, ": ");
    internal::AppendJsonString(file, internal::JsonEscapes::kShort, &map);
    separator = ",\n    ";
  }
  return absl::StrCat(text.substr(0, at), files.empty() ? "{" : map, files.empty() ? "}" : "\n  }",
                      text.substr(NestEnd(text, at)));
}

absl::StatusOr<std::string> ReplaceTotalSize(absl::string_view text, uint64_t total_size) {
  const size_t metadata = FindValue(text, text.find('{'), "\"metadata\"");
  if (metadata == absl::string_view::npos) return WithEscapes("metadata");
  const size_t at = FindValue(text, metadata, "\"total_size\"");
  if (at == absl::string_view::npos) return WithEscapes("total_size");
  return WithNumber(text, at, total_size);
}

std::string ReduceTotalParameters(absl::string_view text, uint64_t removed) {
  const size_t metadata = FindValue(text, text.find('{'), "\"metadata\"");
  if (metadata == absl::string_view::npos) return std::string(text);
  const size_t at = FindValue(text, metadata, "\"total_parameters\"");
  if (at == absl::string_view::npos) return std::string(text);
  const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
  uint64_t total = 0;
  // A fraction or a text is somebody else's number.
  const bool is_whole = end < text.size() && absl::StrContains(" \t\r\n,}", text[end]);
  if (!is_whole || !absl::SimpleAtoi(text.substr(at, end - at), &total)) return std::string(text);
  return WithNumber(text, at, total - std::min(total, removed));
}

}  // namespace tensorcask::safetensors
