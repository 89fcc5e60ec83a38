#include "tensorcask/serialize/archive/chosen_names.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::archive {
namespace {

bool MayBeName(const std::string& glob) {
  return glob.find_first_of("[\\") != std::string::npos && glob.find_first_of("*?") == std::string::npos;
}

// The pattern that matches nothing but this name.
std::string ForNameAlone(const std::string& name) { return absl::StrReplaceAll(name, {{"[", "\\["}, {"\\", "\\\\"}}); }

}  // namespace

std::vector<std::string> NamesFirst(std::vector<std::string> globs, const std::vector<ArchiveEntry>& entries) {
  for (std::string& glob : globs) {
    if (!MayBeName(glob)) continue;
    const auto found =
        std::lower_bound(entries.begin(), entries.end(), glob,
                         [](const ArchiveEntry& entry, const std::string& name) { return entry.name < name; });
    if (found == entries.end() || found->name != glob) continue;
    glob = ForNameAlone(glob);
  }
  return globs;
}

StreamedGlob::StreamedGlob(std::string glob) : glob_(std::move(glob)), may_be_name_(MayBeName(glob_)) {}

absl::StatusOr<bool> StreamedGlob::Matches(const std::string& name) {
  if (may_be_name_ && name == glob_) {
    is_name_ = true;
    if (!matched_.has_value()) return true;
    return absl::InvalidArgumentError(absl::StrCat(glob_, " is the name of a tensor, but has matched ",
                                                   Quoted(*matched_), " before, and a stream cannot be read again; ",
                                                   ForNameAlone(glob_), " matches this name alone"));
  }
  if (is_name_ || !MatchesGlob(glob_, name)) return false;
  if (!matched_.has_value()) matched_ = name;
  return true;
}

}  // namespace tensorcask::archive
