#include "tensorcask/serialize/archive/internal/target_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

constexpr uint64_t kMaxValues = uint64_t{1} << 22;    // written out: shared ones at each place
constexpr uint64_t kMaxRepeated = uint64_t{1} << 19;  // of these, more than the source has: about 64 MiB

bool IsContainer(ValueKind kind) {
  return kind == ValueKind::kList || kind == ValueKind::kTuple || kind == ValueKind::kSet || kind == ValueKind::kSize ||
         kind == ValueKind::kMap;
}

bool HasTensors(const ValueTree& tree) {
  for (ValueTree::Id id = 0; id <= tree.root().id(); ++id) {
    if (tree.value(id).kind() == ValueKind::kTensor) return true;
  }
  return false;
}

class Chooser {
 public:
  Chooser(const ArchiveReader& source, const ArchiveFormat& target, const std::vector<ConversionItem>& items,
          const ConvertOptions& options)
      : source_(source),
        target_(target),
        include_(NamesFirst(options.include, source.entries())),
        exclude_(NamesFirst(options.exclude, source.entries())) {
    for (const ConversionItem& item : items) items_.emplace(item.from->name, &item);
    placed_.reserve(items.size());
  }

  absl::StatusOr<TargetValues> Choose(const ValueTree& tree) {
    std::optional<ValueTree::Id> root = Enter(tree.root(), /*is_key=*/false);
    while (!open_.empty()) {
      Open& last = open_.back();
      if (last.next < last.value.num_children()) {
        const size_t i = last.next++;
        const bool is_key = last.is_key || (last.value.kind() == ValueKind::kMap && i % 2 == 0);
        SetStep(last.value, i);
        const size_t depth = open_.size();
        const std::optional<ValueTree::Id> child = Enter(last.value.child(i), is_key);
        if (open_.size() == depth) open_.back().children.push_back(child);
        continue;
      }
      const std::optional<ValueTree::Id> made = Leave(last);
      open_.pop_back();
      path_.pop_back();
      (open_.empty() ? root : open_.back().children.emplace_back()) = made;
    }
    if (!root.has_value()) return std::move(result_);
    const Value made = values_->tree.value(*root);
    for (const auto& [name, item] : items_) {
      if (placed_.contains(name)) continue;
      if (made.kind() != ValueKind::kMap) return std::move(result_);
      for (size_t i = 0; i < made.size(); ++i) {
        if (made.key(i).kind() != ValueKind::kText || made.key(i).text() != item->name()) continue;
        return absl::AlreadyExistsError(absl::StrCat(source_.path(), ": tensor ", Quoted(name), " would be called ",
                                                     Quoted(item->name()), ", as a value beside the tensors is"));
      }
    }
    result_.values = std::move(values_);
    return std::move(result_);
  }

 private:
  struct Open {
    Value value;
    bool is_key;  // true for a key of a map, or a value in one: kept as it is
    size_t next = 0;
    std::vector<std::optional<ValueTree::Id>> children;  // the children in the target; nullopt: left out
  };

  // The last step of the path, for the child `i` of the value that is open.
  void SetStep(Value parent, size_t i) {
    path_.back() = parent.kind() == ValueKind::kMap ? StepTo(parent.key(i / 2))
                                                    : PathStep{PathStep::Kind::kPosition, "", static_cast<int64_t>(i)};
  }
  // The value in the target; nullopt if it is left out, or was opened.
  std::optional<ValueTree::Id> Enter(Value value, bool is_key) {
    if (value.kind() == ValueKind::kTensor) return is_key ? std::nullopt : Place();
    const absl::Status held = target_.CheckValue(value);
    if (!held.ok()) {
      if (is_key || IsChosen()) result_.refused.emplace_back(JoinedName(path_), held);
      return std::nullopt;
    }
    if (IsContainer(value.kind()) && value.num_children() > 0) {
      open_.push_back({value, is_key, 0, {}});
      path_.emplace_back();
      return std::nullopt;
    }
    if (!is_key && !IsChosen()) return std::nullopt;
    return Copy(value);
  }

  // The value here.
  bool IsChosen() const {
    if (include_.empty() && exclude_.empty()) return true;
    const std::string name = JoinedName(path_);
    return (include_.empty() || MatchesAny(include_, name)) && !MatchesAny(exclude_, name);
  }

  // The tensor here, if it is copied and keeps its name.
  std::optional<ValueTree::Id> Place() {
    auto found = items_.find(source_.has_names() ? JoinedName(path_) : source_.entries()[0].name);
    if (found == items_.end()) found = items_.find(ExactName(path_));
    if (found == items_.end() || found->second->new_name.has_value()) return std::nullopt;
    const auto [number, is_new] = placed_.emplace(found->first, values_->names.size());
    if (is_new) values_->names.push_back(found->second->name());
    return values_->tree.AddTensor(number->second);
  }

  std::optional<ValueTree::Id> Leave(const Open& closed) {
    ValueTree& tree = values_->tree;
    if (closed.value.kind() == ValueKind::kMap) {
      std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
      for (size_t i = 0; i + 1 < closed.children.size(); i += 2) {
        if (closed.children[i].has_value() && closed.children[i + 1].has_value()) {
          entries.emplace_back(*closed.children[i], *closed.children[i + 1]);
        }
      }
      if (entries.empty()) return std::nullopt;
      return tree.AddMap(entries);
    }
    const auto is_left_out = [](const std::optional<ValueTree::Id>& child) { return !child.has_value(); };
    const auto left_out = std::count_if(closed.children.begin(), closed.children.end(), is_left_out);
    if (left_out == static_cast<std::ptrdiff_t>(closed.children.size())) return std::nullopt;
    ValueKind kind = closed.value.kind();
    if (kind == ValueKind::kSize && left_out > 0) kind = ValueKind::kTuple;  // a Size has no None
    std::vector<ValueTree::Id> items;
    for (const std::optional<ValueTree::Id>& child : closed.children) {
      if (child.has_value()) {
        items.push_back(*child);
      } else if (kind != ValueKind::kSet) {
        items.push_back(tree.AddNone());
      }
    }
    return tree.AddItems(kind, items);
  }

  // A value without others in it.
  ValueTree::Id Copy(Value value) {
    ValueTree& tree = values_->tree;
    switch (value.kind()) {
      case ValueKind::kBool:
        return tree.AddBool(value.bool_value());
      case ValueKind::kInt:
        return tree.AddInt(value.int_value(), value.bits());
      case ValueKind::kUint:
        return tree.AddUint(value.uint_value(), value.bits());
      case ValueKind::kFloat:
        return tree.AddFloat(value.float_value(), value.bits());
      case ValueKind::kComplex:
        return tree.AddComplex(value.complex_value(), value.bits());
      case ValueKind::kBigInt:
      case ValueKind::kText:
      case ValueKind::kBytes:
      case ValueKind::kDType:
      case ValueKind::kDevice:
        return CopyText(value);
      case ValueKind::kMap:
        return tree.AddMap({});
      case ValueKind::kList:
        return tree.AddEmptyList(value.empty_item_kind(), value.bits());
      case ValueKind::kTuple:
      case ValueKind::kSet:
      case ValueKind::kSize:
        return tree.AddItems(value.kind(), {});
      case ValueKind::kFileArray:
        return tree.AddFileArray(value.file_array());
      case ValueKind::kNone:
      case ValueKind::kTensor:
      case ValueKind::kObject:
        break;
    }
    return tree.AddNone();
  }

  // A text at many places is one value, as in the source.
  ValueTree::Id CopyText(Value value) {
    const auto [copy, is_new] = texts_.try_emplace(value.id(), 0);
    if (is_new) copy->second = values_->tree.AddText(value.text(), value.kind());
    return copy->second;
  }

  const ArchiveReader& source_;
  const ArchiveFormat& target_;
  const std::vector<std::string> include_;
  const std::vector<std::string> exclude_;
  absl::flat_hash_map<absl::string_view, const ConversionItem*> items_;  // by the name in the source
  absl::flat_hash_map<absl::string_view, uint64_t> placed_;              // numbers in the tree of the target
  absl::flat_hash_map<ValueTree::Id, ValueTree::Id> texts_;              // in the source, and in the target
  std::shared_ptr<ArchiveValues> values_ = std::make_shared<ArchiveValues>();
  TargetValues result_;
  std::vector<Open> open_;
  std::vector<PathStep> path_;  // one step for each open value
};

}  // namespace

absl::StatusOr<TargetValues> ValuesForTarget(const ArchiveReader& source, const ArchiveFormat& target,
                                             const std::vector<ConversionItem>& items, const ConvertOptions& options) {
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, source.Values());
  if (tree.empty() || !HasTensors(tree)) return TargetValues();
  const uint64_t most = std::min(kMaxValues, kMaxRepeated + tree.root().id());
  if (tree.root().num_values() > most) return TargetValues();
  return Chooser(source, target, items, options).Choose(tree);
}

}  // namespace tensorcask::archive
