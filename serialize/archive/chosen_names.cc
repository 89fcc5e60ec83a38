#include "tensorcask/serialize/archive/chosen_names.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::archive {
namespace {

bool MayBeName(const std::string& glob) {
  return glob.find_first_of("[\\") != std::string::npos && glob.find_first_of("*?") == std::string::npos;
}

// The pattern that matches nothing but this name.
std::string ForNameAlone(const std::string& name) { return absl::StrReplaceAll(name, {{"[", "\\["}, {"\\", "\\\\"}}); }

// The bytes of the name that a comparison with the pattern looks at, at most.
uint64_t BytesCompared(absl::string_view glob, absl::string_view name) {
  constexpr uint64_t kMostOfCharacter = 4;
  const absl::string_view start = glob.substr(0, glob.find_first_of("*?[\\"));
  if (!absl::StartsWith(name, start)) return start.size();
  const bool is_short = glob.find('*') == absl::string_view::npos;
  return is_short ? std::min<uint64_t>(name.size(), kMostOfCharacter * glob.size()) : name.size();
}

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

NameChooser::NameChooser(std::vector<std::string> include, std::vector<std::string> exclude, uint64_t max_bytes)
    : include_(std::move(include)), exclude_(std::move(exclude)), bytes_left_(max_bytes) {}

uint64_t NameChooser::MaxBytesFor(const ValueTree& tree) {
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  constexpr uint64_t kTimes = 8;
  return kLeast + kTimes * tree.memory_bytes();
}

absl::StatusOr<bool> NameChooser::IsChosen(absl::string_view name, bool is_cut) {
  if (include_.empty() && exclude_.empty()) return true;
  if (is_cut) bytes_left_ = 0;
  CASK_ASSIGN_OR_RETURN(const bool is_included, include_.empty() ? true : MatchesAny(include_, name));
  if (!is_included) return false;
  CASK_ASSIGN_OR_RETURN(const bool is_excluded, MatchesAny(exclude_, name));
  return !is_excluded;
}

absl::StatusOr<bool> NameChooser::MatchesAny(const std::vector<std::string>& globs, absl::string_view name) {
  for (const std::string& glob : globs) {
    const uint64_t bytes = BytesCompared(glob, name) + 1;
    if (bytes > bytes_left_) {
      bytes_left_ = 0;
      return absl::ResourceExhaustedError("the names of the values are too long to compare all of them with patterns");
    }
    bytes_left_ -= bytes;
    if (MatchesGlob(glob, name)) return true;
  }
  return false;
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
