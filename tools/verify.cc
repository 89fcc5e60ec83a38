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
  std::string format;
};

// Returns the number of damages, which are printed.
absl::StatusOr<int64_t> VerifyOne(const std::string& path, const std::string& format, Console& console) {
  CheckpointCensus census;
  int64_t damages = 0;
  if (format.empty() ? LooksLikeRecords(path) : format != kCheckpoint) {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(path, format));  // decodes it all
    census.whole = static_cast<int64_t>(input->tensors().size());
  } else {
    CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(path));
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
    const absl::StatusOr<int64_t> damages = VerifyOne(path, flags.format, console);
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
  AddFormatOption(app, &flags->format);
  app.footer(
      "Prints each damaged tensor with its file and offset, then a line a PATH. Exit 1 if anything is damaged.\n"
      "Entries of a kind that this version only lists (variants, compressed ones) are counted apart.\n\n"
      "Example:\n"
      "  tensorcask verify model.ckpt-100 model.ckpt-200");
  return [flags](Console& console) { return Verify(*flags, console); };
}

}  // namespace tensorcask::tools
