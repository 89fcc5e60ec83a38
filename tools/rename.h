// The option --rename: serialize/archive/rename_rules.h, with old names that may be escaped as `ls` prints them.

#ifndef TENSORCASK_TOOLS_RENAME_H_
#define TENSORCASK_TOOLS_RENAME_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask::tools {

// Of commands that rename a tensor of `where`: "", " of A".
void AddRenameOption(CLI::App& app, absl::string_view where, std::vector<std::string>* rules);

// CompileRenames. Errors: its errors, as Misuse (console.h) where they are InvalidArgument.
absl::StatusOr<std::function<absl::StatusOr<std::string>(absl::string_view)>> ParseRenames(
    std::vector<std::string> rules, const std::vector<const ArchiveReader*>& sources);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_RENAME_H_
