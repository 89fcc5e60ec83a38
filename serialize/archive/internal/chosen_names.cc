#include "tensorcask/serialize/archive/internal/chosen_names.h"

#include <algorithm>

#include "absl/strings/str_replace.h"

namespace tensorcask::archive {

std::vector<std::string> NamesFirst(std::vector<std::string> globs, const std::vector<ArchiveEntry>& entries) {
  for (std::string& glob : globs) {
    if (glob.find_first_of("[\\") == std::string::npos || glob.find_first_of("*?") != std::string::npos) continue;
    const auto found =
        std::lower_bound(entries.begin(), entries.end(), glob,
                         [](const ArchiveEntry& entry, const std::string& name) { return entry.name < name; });
    if (found == entries.end() || found->name != glob) continue;
    glob = absl::StrReplaceAll(glob, {{"[", "\\["}, {"\\", "\\\\"}});
  }
  return globs;
}

}  // namespace tensorcask::archive
