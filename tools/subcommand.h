// Subcommands. Each is a function that declares its options and returns the action to run after parsing.

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

// Runs a parsed command. main prints an error and exits with 1, or with 2 for an error of Misuse() (console.h).
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

// True if `name` matches one of the shell patterns (tensor/base/glob.h).
bool MatchesAny(const std::string& name, const std::vector<std::string>& globs);

// The tensors that match one of `include` (all tensors if it is empty) and none of `exclude`, in the order of the file.
std::vector<TensorInfo> Select(const std::vector<TensorInfo>& tensors, const std::vector<std::string>& include,
                               const std::vector<std::string>& exclude);

// The tensor with its metadata. With `allow_loss`, metadata that cannot be read is left out instead of being an error.
absl::StatusOr<DecodedTensor> ReadToCopy(const Input& input, const TensorInfo& info, bool allow_loss);

// Options that several commands share: --format and --base for commands that read; --to, --level, --alignment and
// --overwrite for commands that write; --include and --exclude for commands that choose tensors.
void AddInputOptions(CLI::App& app, InputOptions* options);
void AddBaseOption(CLI::App& app, std::string* base);
void AddOutputOptions(CLI::App& app, std::string* to, OutputOptions* options);
void AddIncludeOption(CLI::App& app, std::vector<std::string>* globs);
void AddExcludeOption(CLI::App& app, std::vector<std::string>* globs);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SUBCOMMAND_H_
