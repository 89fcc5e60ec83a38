// Rules of --rename: FROM=TO for one tensor, s/REGEX/TEXT/ for all whose names match.

#ifndef TENSORCASK_TOOLS_RENAME_H_
#define TENSORCASK_TOOLS_RENAME_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask::tools {

// The function that gives a name its new name; null without rules. A rule FROM=TO comes before all others; the others
// apply one after the other. Errors: Misuse (console.h) for bad syntax, and for a rule that renames no tensor of
// `sources`.
absl::StatusOr<std::function<std::string(absl::string_view)>> ParseRenames(
    const std::vector<std::string>& rules, const std::vector<const ArchiveReader*>& sources);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_RENAME_H_
