// A subcommand: a function that declares its options and returns what to do once they are parsed.

#ifndef TENSORCASK_TOOLS_SUBCOMMAND_H_
#define TENSORCASK_TOOLS_SUBCOMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tools/console.h"
#include "tensorcask/tools/formats.h"

namespace tensorcask::tools {

// Runs a parsed command. An error is printed by main, which then exits 1; misuse found late is InvalidArgument with the
// payload of Misuse(), and exits 2.
using Action = std::function<absl::StatusOr<ExitCode>(Console&)>;

// Each fills `app` (description, options, an example in the footer) and is listed in tensorcask.cc.
Action DeclareLs(CLI::App& app);
Action DeclareShow(CLI::App& app);
Action DeclareVerify(CLI::App& app);
Action DeclareSalvage(CLI::App& app);
Action DeclareConvert(CLI::App& app);
Action DeclareDemo(CLI::App& app);

// The command line was wrong in a way that only the files could tell.
absl::Status Misuse(absl::string_view message);
bool IsMisuse(const absl::Status& status);

// True if `name` matches one of the shell patterns (* ? [abc]; * also matches '/').
bool MatchesAny(const std::string& name, const std::vector<std::string>& globs);

// --format, shared by the commands that read.
void AddFormatOption(CLI::App& app, std::string* format);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SUBCOMMAND_H_
