// tensorcask verify PATH...: every checksum and rule of structure; a line for each thing that is wrong.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Prints what is wrong with one file. True if nothing is, and all was checked that this version can check.
absl::StatusOr<bool> VerifyOne(const std::string& path, const InputOptions& options, Console& console) {
  CheckpointCensus census;
  int64_t damages = 0;
  int64_t unreadable = 0;  // the base is missing or another
  if (options.format.empty() ? LooksLikeRecords(path) : options.format != kCheckpoint) {
    InputOptions all_of_it = options;
    all_of_it.refuse_unreadable_metadata = true;
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(path, all_of_it));  // decodes every tensor
    census.whole = static_cast<int64_t>(input->tensors().size());
  } else {
    CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenCheckpoint(path, options.base));
    CASK_ASSIGN_OR_RETURN(census, reader.VerifyAll([&](const CheckpointDamage& damage) {
      const bool is_damaged = !absl::IsFailedPrecondition(damage.status);
      ++(is_damaged ? damages : unreadable);
      console.out << (is_damaged ? "damaged: " : "not readable: ") << EscapeControls(damage.status.message()) << '\n';
    }));
  }
  for (const std::string& note : census.notes) console.out << "note: " << EscapeControls(note) << '\n';
  console.out << Printable(path) << ": " << census.whole << (census.whole == 1 ? " tensor whole" : " tensors whole");
  if (damages > 0) console.out << ", " << damages << " damaged";
  if (unreadable > 0) console.out << ", " << unreadable << " not readable";
  if (census.without_base > 0) {
    console.out << ", " << census.without_base << (census.without_base == 1 ? " delta" : " deltas")
                << " not checked without the base (--base PATH)";
  }
  if (census.not_checked > 0) console.out << ", " << census.not_checked << " of a kind that cannot be checked yet";
  console.out << '\n';
  return damages == 0 && unreadable == 0 && census.without_base == 0;
}

absl::StatusOr<ExitCode> Verify(const Flags& flags, Console& console) {
  ExitCode code = kDone;
  for (const std::string& path : flags.paths) {
    const absl::StatusOr<bool> whole = VerifyOne(path, flags.input, console);
    if (!whole.ok()) {  // the other files are verified all the same
      console.err << "tensorcask verify: " << EscapeControls(whole.status().message()) << '\n';
    }
    if (!whole.ok() || !*whole) code = kFound;
  }
  return code;
}

}  // namespace

Action DeclareVerify(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PATH", flags->paths, "Checkpoint prefixes or .index files, or other files")->required();
  AddInputOptions(app, &flags->input);
  app.footer(
      "Reads every byte of the tensors that it calls whole. Prints each damaged tensor with its file and offset, then "
      "a\n"
      "line for each PATH. Exit 1 if anything is damaged, or if a delta could not be checked because --base is missing "
      "or\n"
      "is another checkpoint.\n"
      "Entries of a kind that this version only lists (variants of other machines, forms of later versions) are "
      "counted\n"
      "separately. Of a tensor that is stored in chunks each damaged chunk is named; its other chunks can still be "
      "read.\n"
      "Bytes behind the last tensor of a data file are mentioned in a note: they harm nothing.\n\n"
      "Example:\n"
      "  tensorcask verify model.ckpt-100 model.ckpt-200");
  return [flags](Console& console) { return Verify(*flags, console); };
}

}  // namespace tensorcask::tools
