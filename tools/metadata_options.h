// The options --set and --unset, for commands that change the metadata of a file.

#ifndef TENSORCASK_TOOLS_METADATA_OPTIONS_H_
#define TENSORCASK_TOOLS_METADATA_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace tensorcask::tools {

void AddMetadataOptions(CLI::App& app, std::vector<std::string>* set, std::vector<std::string>* unset);

// What --set says, by key. Errors: Misuse for a text that is not KEY=VALUE.
absl::StatusOr<std::map<std::string, std::string>> ParseSets(const std::vector<std::string>& texts);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_METADATA_OPTIONS_H_
