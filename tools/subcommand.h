// A subcommand: a function that declares its options and returns what to do once they are parsed.

#ifndef TENSORCASK_TOOLS_SUBCOMMAND_H_
#define TENSORCASK_TOOLS_SUBCOMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
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
Action DeclareCat(CLI::App& app);
Action DeclareSave(CLI::App& app);
Action DeclareSend(CLI::App& app);
Action DeclareRecv(CLI::App& app);
Action DeclareServe(CLI::App& app);
Action DeclareDemo(CLI::App& app);

// The command line was wrong in a way that only the files could tell.
absl::Status Misuse(absl::string_view message);
bool IsMisuse(const absl::Status& status);

// True if `name` matches one of the shell patterns (tensor/base/glob.h).
bool MatchesAny(const std::string& name, const std::vector<std::string>& globs);

// Those that match one of `include` (all, if it is empty) and none of `exclude`, in the order in which the file stores
// them.
std::vector<TensorInfo> Select(const std::vector<TensorInfo>& tensors, const std::vector<std::string>& include,
                               const std::vector<std::string>& exclude);

// The tensor with its metadata; without those, if they cannot be read and `allow_loss` says that this is good enough.
absl::StatusOr<DecodedTensor> ReadToCopy(const Input& input, const TensorInfo& info, bool allow_loss);

// Options that several commands have: --format and --base, of those that read; --to, --level, --alignment and
// --overwrite, of those that write; --include and --exclude, of those that choose.
void AddInputOptions(CLI::App& app, InputOptions* options);
void AddBaseOption(CLI::App& app, std::string* base);
void AddOutputOptions(CLI::App& app, std::string* to, OutputOptions* options);
void AddIncludeOption(CLI::App& app, std::vector<std::string>* globs);
void AddExcludeOption(CLI::App& app, std::vector<std::string>* globs);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SUBCOMMAND_H_
