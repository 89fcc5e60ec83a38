// tensorcask verify PATH...: every checksum and rule of structure; a line for each thing that is wrong.

#include <memory>
#include <string>
#include <vector>

#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/record_stream.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct Flags {
  std::vector<std::string> paths;
  InputOptions input;
};

// Returns the number of damages, which are printed.
absl::StatusOr<int64_t> VerifyOne(const std::string& path, const InputOptions& options, Console& console) {
  CheckpointCensus census;
  int64_t damages = 0;
  if (options.format.empty() ? LooksLikeRecords(path) : options.format != kCheckpoint) {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(path, options));  // decodes it all
    census.whole = static_cast<int64_t>(input->tensors().size());
  } else {
    CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(path, options.base));
    CASK_ASSIGN_OR_RETURN(census, reader.VerifyAll([&](const CheckpointDamage& damage) {
      ++damages;
      console.out << "damaged: " << EscapeControls(damage.status.message()) << '\n';
    }));
  }
  console.out << Printable(path) << ": " << census.whole << (census.whole == 1 ? " tensor whole" : " tensors whole");
  if (damages > 0) console.out << ", " << damages << " damaged";
  if (census.not_checked > 0) console.out << ", " << census.not_checked << " of a kind that cannot be checked yet";
  console.out << '\n';
  return damages;
}

absl::StatusOr<ExitCode> Verify(const Flags& flags, Console& console) {
  ExitCode code = kDone;
  for (const std::string& path : flags.paths) {
    const absl::StatusOr<int64_t> damages = VerifyOne(path, flags.input, console);
    if (!damages.ok()) {  // the other files are looked at all the same
      console.err << "tensorcask verify: " << EscapeControls(damages.status().message()) << '\n';
    }
    if (!damages.ok() || *damages > 0) code = kFound;
  }
  return code;
}

}  // namespace

Action DeclareVerify(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PATH", flags->paths, "Checkpoint prefixes or .index files, or other files")->required();
  AddInputOptions(app, &flags->input);
  app.footer(
      "Prints each damaged tensor with its file and offset, then a line a PATH. Exit 1 if anything is damaged.\n"
      "Entries of a kind that this version only lists (variants of other machines, forms of later versions) are "
      "counted\n"
      "apart. Of a tensor that is stored in chunks each damaged chunk is named; its other chunks can still be read.\n\n"
      "Example:\n"
      "  tensorcask verify model.ckpt-100 model.ckpt-200");
  return [flags](Console& console) { return Verify(*flags, console); };
}

}  // namespace tensorcask::tools
