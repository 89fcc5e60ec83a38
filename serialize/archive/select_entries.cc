#include "tensorcask/serialize/archive/convert_archives.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

bool MatchesAny(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return MatchesGlob(glob, name); });
}

std::vector<const ArchiveEntry*> SelectEntries(const std::vector<ArchiveEntry>& entries,
                                               const std::vector<std::string>& include,
                                               const std::vector<std::string>& exclude) {
  const std::vector<std::string> included = archive::NamesFirst(include, entries);
  const std::vector<std::string> excluded = archive::NamesFirst(exclude, entries);
  std::vector<const ArchiveEntry*> selected;
  for (const ArchiveEntry& entry : entries) {
    if (!included.empty() && !MatchesAny(included, entry.name)) continue;
    if (!MatchesAny(excluded, entry.name)) selected.push_back(&entry);
  }
  std::stable_sort(selected.begin(), selected.end(), [](const ArchiveEntry* a, const ArchiveEntry* b) {
    // A tensor without bytes is at the offset of the next one: it was stored first.
    const bool a_has_bytes = a->stored_bytes > 0;
    const bool b_has_bytes = b->stored_bytes > 0;
    return std::tie(a->shard, a->offset, a_has_bytes) < std::tie(b->shard, b->offset, b_has_bytes);
  });
  return selected;
}

absl::StatusOr<std::vector<const ArchiveEntry*>> SelectEntries(const ArchiveReader& source,
                                                               const std::vector<std::string>& include,
                                                               const std::vector<std::string>& exclude,
                                                               bool exclude_slots) {
  std::vector<const ArchiveEntry*> selected = SelectEntries(source.entries(), include, exclude);
  if (!exclude_slots) return selected;
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> slots, source.OptimizerSlots());
  const auto is_slot = [&](const ArchiveEntry* entry) {
    return std::binary_search(slots.begin(), slots.end(), entry->name);
  };
  selected.erase(std::remove_if(selected.begin(), selected.end(), is_slot), selected.end());
  return selected;
}

}  // namespace tensorcask
