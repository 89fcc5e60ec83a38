#include "tensorcask/serialize/archive/internal/file_hints.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/stale_temporaries.h"

namespace tensorcask::archive {
namespace {

// "m" for "m.data-00000-of-00001".
std::optional<std::string> PrefixOfDataFile(const std::string& path) {
  constexpr absl::string_view kPattern = ".data-00000-of-00000";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const size_t split = path.size() - kPattern.size();
  const bool matches = std::equal(kPattern.begin(), kPattern.end(), path.begin() + static_cast<std::ptrdiff_t>(split),
                                  [](char p, char c) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
  if (!matches) return std::nullopt;
  return path.substr(0, split);
}

}  // namespace

std::string UnfinishedHint(const std::string& path) {
  const std::optional<absl::string_view> final_name = FinalNameOfTemporary(path);
  if (!final_name.has_value()) return "";
  return absl::StrCat("this is the temporary file of a save to ", *final_name,
                      " that is not finished or was killed (tensorcask clean tells which)");
}

std::string FileHint(const ArchiveProbe& probe) {
  if (const std::optional<std::string> prefix = PrefixOfDataFile(probe.path); prefix.has_value()) {
    const std::string index = absl::StrCat(*prefix, ".index");
    return IsThere(index, probe.file_system)
               ? absl::StrCat("this is a data file of a checkpoint: name the checkpoint, ", *prefix)
               : absl::StrCat("this is a data file of a checkpoint, whose index, ", index, ", is missing");
  }
  if (std::string hint = UnfinishedHint(probe.path); !hint.empty()) return hint;
  const ContentHint hint = LookAtContent(probe.head, probe.file->size_bytes());
  return hint.what.empty() || hint.is_text ? "" : absl::StrCat("this is ", hint.what);
}

}  // namespace tensorcask::archive
