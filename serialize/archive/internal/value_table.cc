#include "tensorcask/serialize/archive/internal/value_table.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/values/value_text.h"

namespace tensorcask::archive {
namespace {

// A small text may be a list of many values: this is the most memory for them beside that for single values.
constexpr uint64_t kMaxTypedBytes = uint64_t{64} << 20;
constexpr uint64_t kEntryBytes = 64;  // of a key and a single value, beside their texts

// "value int epoch"; false for another line.
bool ParseLine(absl::string_view line, std::string* name, TypedText* typed) {
  typed->is_value = absl::ConsumePrefix(&line, "value ");
  if (!typed->is_value && !absl::ConsumePrefix(&line, "metadata ")) return false;
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) return false;
  typed->type = std::string(line.substr(0, space));
  return absl::CUnescape(line.substr(space + 1), name);
}

}  // namespace

ValueTable ReadValueTable(const FileMetadata& metadata) {
  ValueTable table;
  const auto lines = metadata.find(kValueTableKey);
  if (lines == metadata.end()) return table;
  for (const absl::string_view line : absl::StrSplit(lines->second, '\n')) {
    std::string name;
    TypedText typed;
    if (!ParseLine(line, &name, &typed) || name == kValueTableKey) continue;
    const auto entry = metadata.find(name);
    ValueTree tree;
    if (entry == metadata.end() || !AddValueOfText(entry->second, typed.type, &tree).has_value()) continue;
    table.emplace(std::move(name), std::move(typed));
  }
  return table;
}

ValueTable ReadValueTable(const ArchiveReader& source) {
  return source.has_types_of_metadata() ? ValueTable() : ReadValueTable(source.file_metadata());
}

bool IsValueTable(const ArchiveReader& source, absl::string_view key) {
  return key == kValueTableKey && !source.has_types_of_metadata();
}

void AddValueTable(const ValueTable& table, FileMetadata* metadata) {
  std::string lines;
  for (const auto& [name, typed] : table) {
    if (metadata->count(name) == 0) continue;
    absl::StrAppend(&lines, lines.empty() ? "" : "\n", typed.is_value ? "value " : "metadata ", typed.type, " ",
                    absl::Utf8SafeCEscape(name));
  }
  metadata->erase(kValueTableKey);
  if (!lines.empty()) metadata->emplace(kValueTableKey, std::move(lines));
}

ValueTree TreeOfMetadata(const FileMetadata& metadata) {
  const ValueTable table = ReadValueTable(metadata);
  ValueTree tree;
  std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
  uint64_t max_bytes = kMaxTypedBytes;
  for (const auto& [key, text] : metadata) {
    if (key == kValueTableKey) continue;
    max_bytes += kEntryBytes + key.size() + text.size();
    const auto typed = table.find(key);
    std::optional<ValueTree::Id> value;
    if (typed != table.end() && tree.memory_bytes() < max_bytes) {
      value = AddValueOfText(text, typed->second.type, &tree);
    }
    const ValueTree::Id id = value.has_value() ? *value : tree.AddText(text);
    entries.emplace_back(tree.AddText(key), id);
  }
  tree.AddMap(entries);
  return tree;
}

}  // namespace tensorcask::archive
