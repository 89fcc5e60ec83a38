#include "tensorcask/serialize/archive/internal/planned_values.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

bool HasTextKeys(Value root) { return root.kind() == ValueKind::kMap; }

// The names of the values that neither `target` holds nor the metadata has; of very many values not all.
absl::StatusOr<std::vector<std::string>> ValuesLeftBehind(const ArchiveReader& source, const ArchiveFormat& target) {
  constexpr size_t kMaxWalked = 100'000;
  constexpr size_t kMaxDepth = 32;
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, source.Values());
  std::vector<std::string> names;
  std::vector<std::pair<Value, std::vector<PathStep>>> open = {{tree.root(), {}}};
  for (size_t walked = 0; !open.empty() && walked < kMaxWalked; ++walked) {
    auto [value, path] = std::move(open.back());
    open.pop_back();
    const std::string name = JoinedName(path);
    if (path.size() == 1 && path[0].kind == PathStep::Kind::kKey && target.HoldsValue(name, value)) continue;
    if (value.kind() != ValueKind::kMap || path.size() >= kMaxDepth) {
      if (value.kind() != ValueKind::kTensor && source.file_metadata().count(name) == 0) names.push_back(name);
      continue;
    }
    for (size_t i = value.size(); i-- > 0 && open.size() < kMaxWalked;) {
      open.emplace_back(value.entry(i), path).second.push_back(StepTo(value.key(i)));
    }
  }
  return names;
}

}  // namespace

absl::StatusOr<std::set<std::string>> ValueNames(const ArchiveReader& source) {
  std::set<std::string> names;
  for (const auto& [name, text] : source.file_metadata()) names.insert(name);
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, source.Values());
  const Value root = tree.root();
  for (size_t i = 0; HasTextKeys(root) && i < root.size(); ++i) {
    if (root.key(i).kind() == ValueKind::kText) names.emplace(root.key(i).text());
  }
  return names;
}

absl::StatusOr<std::vector<FileValue>> HeldValues(const ArchiveReader& source, const ArchiveFormat& target,
                                                  const std::set<std::string>& unset) {
  std::vector<FileValue> values;
  CASK_ASSIGN_OR_RETURN(ValueTree made, source.Values());
  const auto tree = std::make_shared<const ValueTree>(std::move(made));
  const Value root = tree->root();
  for (size_t i = 0; HasTextKeys(root) && i < root.size(); ++i) {
    if (root.key(i).kind() != ValueKind::kText) continue;
    const std::string name(root.key(i).text());
    const Value value = root.entry(i);
    if (unset.count(name) != 0 || !target.HoldsValue(name, value)) continue;
    if (value.kind() == ValueKind::kFileArray) {
      CASK_ASSIGN_OR_RETURN(ValueTree array, source.ReadFileArray(value.file_array()));
      const ValueTree::Id id = array.root().id();
      values.push_back({name, std::make_shared<const ValueTree>(std::move(array)), id});
    } else {
      values.push_back({name, tree, value.id()});
    }
  }
  return values;
}

absl::StatusOr<std::string> NoteNotCopied(const ArchiveReader& source, const ArchiveFormat& target) {
  constexpr size_t kMaxNamed = 4;
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ValuesLeftBehind(source, target));
  if (names.empty()) return std::string();
  std::vector<std::string> quoted;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) quoted.push_back(Quoted(names[i]));
  return absl::StrCat(source.path(), ": ", names.size(),
                      names.size() == 1 ? " value beside the tensors is" : " values beside the tensors are",
                      " not copied: ", absl::StrJoin(quoted, ", "), names.size() > kMaxNamed ? ", ..." : "");
}

}  // namespace tensorcask::archive
