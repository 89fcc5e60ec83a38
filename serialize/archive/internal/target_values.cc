#include "tensorcask/serialize/archive/internal/target_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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
constexpr size_t kMostNameBytes = 256;                // of a value that is refused

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
          const ConvertOptions& options, const ValueTree& tree)
      : source_(source),
        target_(target),
        chosen_(NamesFirst(options.include, source.entries()), NamesFirst(options.exclude, source.entries()),
                NameChooser::MaxBytesFor(tree)),
        name_(GrowingName::MaxBytesFor(tree)) {
    for (const ConversionItem& item : items) items_.emplace(item.from->name, &item);
    for (const ArchiveEntry& entry : source.entries()) {
      if (!entry.alias_of.empty()) has_aliases_.insert(entry.alias_of);
    }
    placed_.reserve(items.size());
  }

  absl::StatusOr<TargetValues> Choose(const ValueTree& tree) {
    CASK_ASSIGN_OR_RETURN(std::optional<ValueTree::Id> root, Enter(tree.root(), /*is_key=*/false));
    while (!open_.empty()) {
      Open& last = open_.back();
      if (last.next < last.value.num_children()) {
        const size_t i = last.next++;
        const bool is_map = last.value.kind() == ValueKind::kMap;
        const bool is_key = last.is_key || (is_map && i % 2 == 0);
        if (is_map && i % 2 == 1 && !last.children.back().has_value()) {
          last.children.emplace_back();  // it has no key
          continue;
        }
        if (!last.is_key) name_.Enter(last.value, is_map ? i / 2 : i);
        const size_t depth = open_.size();
        CASK_ASSIGN_OR_RETURN(const std::optional<ValueTree::Id> child, Enter(last.value.child(i), is_key));
        if (open_.size() > depth) continue;
        open_.back().children.push_back(child);
        LeaveName();
        continue;
      }
      const std::optional<ValueTree::Id> made = Leave(last);
      open_.pop_back();
      if (!open_.empty()) LeaveName();
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

  // Leaves the name of a child of the value that is open now. What is in a key has the name of the key.
  void LeaveName() {
    if (!open_.back().is_key) name_.Leave();
  }

  // The value in the target; nullopt if it is left out, or was opened. Errors: those of NameChooser.
  absl::StatusOr<std::optional<ValueTree::Id>> Enter(Value value, bool is_key) {
    if (value.kind() == ValueKind::kTensor) {
      return is_key ? std::optional<ValueTree::Id>() : Place(value.tensor());
    }
    const absl::Status held = target_.CheckValue(value);
    if (held.ok() && IsContainer(value.kind()) && value.num_children() > 0) {
      open_.push_back({value, is_key, 0, {}});
      return std::optional<ValueTree::Id>();
    }
    CASK_ASSIGN_OR_RETURN(const bool is_chosen, is_key ? true : chosen_.IsChosen(name_.text(), name_.is_cut()));
    if (!is_chosen) return std::optional<ValueTree::Id>();
    if (held.ok()) return std::optional<ValueTree::Id>(Copy(value));
    result_.refused.emplace_back(name_.text().substr(0, kMostNameBytes), held);
    return std::optional<ValueTree::Id>();
  }

  // The tensor here, if it is copied and keeps its name.
  std::optional<ValueTree::Id> Place(uint64_t tensor) {
    const ConversionItem* const item = ItemOf(source_.entries()[static_cast<size_t>(tensor)]);
    if (item == nullptr || item->new_name.has_value()) return std::nullopt;
    const auto [number, is_new] = placed_.emplace(item->from->name, values_->names.size());
    if (is_new) values_->names.push_back(item->name());
    return values_->tree.AddTensor(number->second);
  }

  // The item of the tensor `entry` here; null if it is not copied. The names of one tensor have one number, that of one
  // of them.
  const ConversionItem* ItemOf(const ArchiveEntry& entry) const {
    const bool may_have_names =
        !entry.alias_of.empty() || has_aliases_.contains(entry.name) || entry.shape.num_elements() == 0;
    if (may_have_names && source_.has_names()) {
      for (const std::string& name : {std::string(name_.text()), ExactName(Path())}) {
        const ArchiveEntry* const here = EntryNamed(name);
        if (here != nullptr && AreOne(entry, *here)) return ItemNamed(name);
      }
    }
    return ItemNamed(entry.name);
  }
  const ConversionItem* ItemNamed(absl::string_view name) const {
    const auto found = items_.find(name);
    return found == items_.end() ? nullptr : found->second;
  }

  const ArchiveEntry* EntryNamed(const std::string& name) const {
    const std::vector<ArchiveEntry>& entries = source_.entries();
    const auto found =
        std::lower_bound(entries.begin(), entries.end(), name,
                         [](const ArchiveEntry& entry, const std::string& wanted) { return entry.name < wanted; });
    return found == entries.end() || found->name != name ? nullptr : &*found;
  }

  static bool AreOne(const ArchiveEntry& a, const ArchiveEntry& b) {
    const std::string& of_a = a.alias_of.empty() ? a.name : a.alias_of;
    const std::string& of_b = b.alias_of.empty() ? b.name : b.alias_of;
    return of_a == of_b || (a.dtype == b.dtype && a.shape == b.shape && a.shape.num_elements() == 0);
  }

  // The steps to the value here.
  std::vector<PathStep> Path() const {
    std::vector<PathStep> path;
    for (const Open& open : open_) {
      const size_t i = open.next - 1;
      path.push_back(open.value.kind() == ValueKind::kMap
                         ? StepTo(open.value.key(i / 2))
                         : PathStep{PathStep::Kind::kPosition, "", static_cast<int64_t>(i)});
    }
    return path;
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
  NameChooser chosen_;
  absl::flat_hash_map<absl::string_view, const ConversionItem*> items_;  // by the name in the source
  absl::flat_hash_set<absl::string_view> has_aliases_;                   // names in the source
  absl::flat_hash_map<absl::string_view, uint64_t> placed_;              // numbers in the tree of the target
  absl::flat_hash_map<ValueTree::Id, ValueTree::Id> texts_;              // in the source, and in the target
  std::shared_ptr<ArchiveValues> values_ = std::make_shared<ArchiveValues>();
  TargetValues result_;
  std::vector<Open> open_;
  GrowingName name_;  // of the value here
};

}  // namespace

absl::StatusOr<TargetValues> ValuesForTarget(const ArchiveReader& source, const ArchiveFormat& target,
                                             const std::vector<ConversionItem>& items, const ConvertOptions& options) {
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, source.Values());
  if (tree.empty() || !HasTensors(tree)) return TargetValues();
  const uint64_t most = std::min(kMaxValues, kMaxRepeated + tree.root().id());
  if (tree.root().num_values() > most) return TargetValues();
  return Chooser(source, target, items, options, tree).Choose(tree);
}

}  // namespace tensorcask::archive
