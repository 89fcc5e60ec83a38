#include "tensorcask/serialize/archive/internal/planned_values.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

bool HasTextKeys(Value root) { return root.kind() == ValueKind::kMap; }

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
  constexpr uint64_t kMaxNamed = 4;
  constexpr uint64_t kMaxValues = uint64_t{1} << 22;
  CASK_ASSIGN_OR_RETURN(const ValueTree tree, source.Values());
  if (tree.empty()) return std::string();
  uint64_t count = 0;
  std::vector<std::string> quoted;
  const bool is_all = ForEachInMaps(tree.root(), kMaxValues, [&](absl::Span<const PathStep> path, Value value) {
    if (value.kind() == ValueKind::kTensor) return;
    const std::string name = JoinedName(path);
    if (source.file_metadata().count(name) != 0) return;
    if (path.size() == 1 && path[0].kind == PathStep::Kind::kKey && target.HoldsValue(name, value)) return;
    if (count++ < kMaxNamed) quoted.push_back(Quoted(name));
  });
  if (!is_all) {
    return absl::StrCat(source.path(), ": has more than ", kMaxValues,
                        " values and tensors; values behind these are not copied");
  }
  if (count == 0) return std::string();
  return absl::StrCat(source.path(), ": ", count,
                      count == 1 ? " value beside the tensors is" : " values beside the tensors are",
                      " not copied: ", absl::StrJoin(quoted, ", "), count > kMaxNamed ? ", ..." : "");
}

}  // namespace tensorcask::archive
