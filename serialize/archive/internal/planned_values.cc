#include "tensorcask/serialize/archive/internal/planned_values.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/internal/value_table.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/serialize/values/value_text.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

// What a tree may take beyond its own size. A flat map whose values nothing shares takes no more than its own size.
constexpr uint64_t kMaxVisited = uint64_t{1} << 22;
constexpr uint64_t kMaxListed = 65536;
constexpr uint64_t kMaxPathBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxCost = uint64_t{1} << 22;  // the limit for making texts
constexpr uint64_t kValueBytes = 16;              // of the tree, fewer than each value takes

size_t PathBytes(absl::Span<const PathStep> path) {
  size_t bytes = 0;
  for (const PathStep& step : path) bytes += step.text.size() + 1;
  return bytes;
}

// Takes what the text of `value` costs from *budget. Values may be shared, so a small file could have many of a large
// one. False: too much.
bool Spend(Value value, uint64_t* budget) {
  const auto spend = [budget](uint64_t cost) {
    const bool fits = cost <= *budget;
    *budget -= std::min(cost, *budget);
    return fits;
  };
  const auto cost_of = [](Value one) {
    return uint64_t{1} + (one.kind() == ValueKind::kText ? one.text().size() / kValueBytes : 0);
  };
  if (value.size() == 0 || value.kind() == ValueKind::kMap) return spend(cost_of(value));
  if (!spend(value.size())) return false;
  for (size_t i = 0; i < value.size(); ++i) {
    if (!spend(cost_of(value.item(i)) - 1)) return false;
  }
  return true;
}

// True if `text`, of the metadata, is this value.
bool IsTextOf(absl::string_view text, Value value) {
  if (value.kind() == ValueKind::kText && value.text() == text) return true;
  const std::optional<std::string> own = ValueText(value);
  ValueTree tree;
  const std::optional<ValueTree::Id> read =
      own.has_value() ? AddValueOfText(text, ValueTextType(value), &tree) : std::nullopt;
  return read.has_value() && ValueText(tree.value(*read)) == own;
}

class Lister {
 public:
  Lister(const ArchiveReader& source, const ArchiveFormat& target, ValueTree tree)
      : source_(source), target_(target), tree_(std::make_shared<const ValueTree>(std::move(tree))) {}

  SourceValues List() {
    if (!tree_->empty()) {
      Walk([this](absl::Span<const PathStep> path, Value value) { Add(path, value); });
      if (num_shared_ > 0) Walk([this](absl::Span<const PathStep> path, Value value) { MakeExact(path, value); });
    }
    AddTyped();
    return std::move(result_);
  }

 private:
  template <typename Visit>
  void Walk(Visit visit) {
    visited_ = 0;
    uint64_t budget = kMaxCost + 2 * bytes_;  // a name is read twice
    const bool keeps_values = target_.traits().values;
    const auto enters = [&](absl::Span<const PathStep> path, Value value) {
      if (value.kind() == ValueKind::kMap) return path.empty() || value.size() > 0;
      if (budget < PathBytes(path) || !Spend(value, &budget)) return false;
      if (!keeps_values) return !ValueText(value).has_value();
      budget -= std::min<uint64_t>(budget, PathBytes(path));
      return !target_.HoldsValue(JoinedName(path), value);
    };
    result_.are_many = !ForEachValue(tree_->root(), kMaxVisited + bytes_ / kValueBytes, enters, visit);
  }

  void Add(absl::Span<const PathStep> path, Value value) {
    result_.among_tensors = result_.among_tensors || value.kind() == ValueKind::kTensor;
    if (value.kind() == ValueKind::kTensor || IsPlainText(path, value)) return;
    const size_t bytes = PathBytes(path);
    const bool is_cheap = Spend(value, &budget_);
    if (!is_cheap || result_.values.size() >= kMaxListed + bytes_ / kValueBytes || bytes > name_bytes_left_) {
      budget_ = 0;
      name_bytes_left_ = 0;
      ++result_.num_more;
      return;
    }
    name_bytes_left_ -= bytes;
    SourceValue listed{JoinedName(path), tree_, value.id(), false};
    const auto text = source_.file_metadata().find(listed.name);
    const bool has_text = text != source_.file_metadata().end();
    listed.is_metadata = has_text && path.size() == 1 && IsTextOf(text->second, value);
    const auto [first, is_new] = numbers_.emplace(listed.name, result_.values.size());
    const bool is_shared = !is_new || (has_text && !listed.is_metadata);
    if (is_shared) num_shared_ += first->second == kShared ? 0 : 1;
    if (is_shared) first->second = kShared;
    result_.values.push_back(std::move(listed));
  }

  // True for a text of the metadata that goes along as it is: nothing says of which type it is. A file may have many.
  bool IsPlainText(absl::Span<const PathStep> path, Value value) const {
    if (target_.traits().values || path.size() != 1 || value.kind() != ValueKind::kText) return false;
    const auto text = source_.file_metadata().find(JoinedName(path));
    return text != source_.file_metadata().end() && text->second == value.text() && table_.count(text->first) == 0;
  }

  // Visits the values in the same order.
  void MakeExact(absl::Span<const PathStep> path, Value value) {
    if (value.kind() == ValueKind::kTensor || IsPlainText(path, value) || visited_ == result_.values.size()) return;
    SourceValue& listed = result_.values[visited_++];
    if (!listed.is_metadata && numbers_.at(listed.name) == kShared) listed.name = ExactName(path);
  }

  // What the metadata has beside Values(), as it has values of a file that the tensors came from.
  void AddTyped() {
    if (table_.empty()) return;
    const auto typed = std::make_shared<const ValueTree>(TreeOfMetadata(source_.file_metadata()));
    absl::flat_hash_map<std::string, SourceValue*> listed;
    for (SourceValue& value : result_.values) {
      if (value.is_metadata) listed.emplace(value.name, &value);
    }
    const Value root = typed->root();
    for (size_t i = 0; i < root.size(); ++i) {
      const std::string name(root.key(i).text());
      const auto line = table_.find(name);
      if (line != table_.end() && !listed.contains(name)) {
        result_.values.push_back({name, typed, root.entry(i).id(), true});
      }
    }
  }

  static constexpr size_t kShared = SIZE_MAX;  // marks a name that several values have

  const ArchiveReader& source_;
  const ArchiveFormat& target_;
  const std::shared_ptr<const ValueTree> tree_;
  const ValueTable table_ = ReadValueTable(source_);
  const uint64_t bytes_ = tree_->memory_bytes();
  SourceValues result_;
  absl::flat_hash_map<std::string, size_t> numbers_;  // by name
  size_t num_shared_ = 0;
  uint64_t name_bytes_left_ = kMaxPathBytes + bytes_;
  uint64_t budget_ = kMaxCost + bytes_ / kValueBytes;
  size_t visited_ = 0;
};

}  // namespace

absl::StatusOr<SourceValues> ValuesOf(const ArchiveReader& source, const ArchiveFormat& target) {
  CASK_ASSIGN_OR_RETURN(ValueTree tree, source.Values());
  return Lister(source, target, std::move(tree)).List();
}

absl::StatusOr<std::set<std::string>> ValueNames(const ArchiveReader& source) {
  std::set<std::string> names;
  for (const auto& [name, text] : source.file_metadata()) names.insert(name);
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, source.Values());
  const Value root = tree.root();
  for (size_t i = 0; root.kind() == ValueKind::kMap && i < root.size(); ++i) {
    if (root.key(i).kind() == ValueKind::kText) names.emplace(root.key(i).text());
  }
  return names;
}

std::string ValuesNotCopied(absl::string_view path, uint64_t count, bool are_many,
                            const std::vector<std::string>& names) {
  constexpr size_t kMaxNamed = 4;
  const auto quote = [](std::string* out, const std::string& name) { absl::StrAppend(out, Quoted(name)); };
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMaxNamed));
  return absl::StrCat(path, ": ", are_many ? "more than " : "", count,
                      count == 1 ? " value beside the tensors is" : " values beside the tensors are", " not copied",
                      names.empty() ? "" : ": ", absl::StrJoin(names.begin(), end, ", ", quote),
                      !names.empty() && count > std::min(names.size(), kMaxNamed) ? ", ..." : "");
}

absl::StatusOr<std::string> NoteNotCopied(const ArchiveReader& source, const ArchiveFormat& target) {
  CASK_ASSIGN_OR_RETURN(const SourceValues of_source, ValuesOf(source, target));
  const ValueTable table = ReadValueTable(source);
  std::vector<std::string> names;
  for (const SourceValue& value : of_source.values) {
    const auto line = table.find(value.name);
    const bool was_value = line != table.end() && line->second.is_value;
    if (!value.is_metadata || was_value) names.push_back(value.name);
  }
  const uint64_t count = names.size() + of_source.num_more;
  if (count == 0 && !of_source.are_many) return std::string();
  return ValuesNotCopied(source.path(), count, of_source.are_many, names);
}

}  // namespace tensorcask::archive
