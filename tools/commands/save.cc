// tensorcask save DST: saves the record stream from stdin as a checkpoint or another file.

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct SaveFlags {
  std::string destination;
  std::string to;
  OutputOptions output;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool allow_loss = false;
  uint64_t limit = UINT64_MAX;  // bytes
};

struct Choice {
  std::vector<archive::StreamedGlob> include;
  std::vector<archive::StreamedGlob> exclude;
};

struct SaveCounts {
  int64_t came = 0;
  int64_t saved = 0;
  uint64_t bytes = 0;  // of the elements saved
};

// True if one of `globs` chooses the tensor. Each sees each name.
absl::StatusOr<bool> ChoosesAny(absl::string_view option, const std::string& name,
                                std::vector<archive::StreamedGlob>& globs) {
  bool any = false;
  for (archive::StreamedGlob& glob : globs) {
    const absl::StatusOr<bool> matches = glob.Matches(name);
    if (!matches.ok()) return Misuse(absl::StrCat(option, matches.status().message()));
    any = any || *matches;
  }
  return any;
}

absl::Status SaveAll(const ArchiveFormat& to, NamedRecordReader& reader, ArchiveWriter& output, Console& console,
                     Choice& choice, SaveCounts& counts) {
  const bool many = to.traits().many_tensors;
  ProgressLine progress(console);
  while (true) {
    CASK_ASSIGN_OR_RETURN(std::optional<NamedRecord> record, reader.Next());
    if (!record.has_value()) break;
    ++counts.came;
    CASK_ASSIGN_OR_RETURN(const bool is_included, ChoosesAny("--include ", record->entry.name, choice.include));
    CASK_ASSIGN_OR_RETURN(const bool is_excluded, ChoosesAny("--exclude ", record->entry.name, choice.exclude));
    if (is_excluded || !(is_included || choice.include.empty())) continue;
    if (++counts.saved > 1 && !many) break;
    CASK_RETURN_IF_ERROR(output.Add(record->entry, record->tensor));
    counts.bytes = CheckedAdd(counts.bytes, ElementBytes(record->entry)).value_or(UINT64_MAX);
    progress.ShowBytes(absl::StrCat("saving ", counts.saved), counts.bytes);
  }
  if (counts.came == 0) return absl::DataLossError("stdin: contains no record");
  if (many && counts.saved == 0) {
    return Misuse(absl::StrCat("no tensor is left to write: --include and --exclude choose none of ", counts.came));
  }
  if (many || counts.saved == 1) return absl::OkStatus();
  return Misuse(absl::StrCat(to.name(), " holds exactly one tensor, ", counts.saved == 0 ? "none" : "more",
                             " came: choose one with --include NAME"));
}

absl::StatusOr<ExitCode> Save(const SaveFlags& flags, Console& console) {
  if (isatty(STDIN_FILENO) == 1) return Misuse("stdin is a terminal: pipe `tensorcask cat PATH` into this");
  const AllFormats formats = FormatsWith(flags.output.of_formats);
  CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const to, TargetFormat(flags.destination, flags.to, formats.list()));
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> output,
                        CreateOutput(flags.destination, *to, flags.output));
  NamedRecordReader reader(MakeDescriptorStream(STDIN_FILENO, "stdin", [] { return !Interrupted(); }), nullptr,
                           flags.allow_loss ? UnreadableMetadata::kSkip : UnreadableMetadata::kRefuse, flags.limit);
  Choice choice;
  for (const std::string& glob : flags.include) choice.include.emplace_back(glob);
  for (const std::string& glob : flags.exclude) choice.exclude.emplace_back(glob);
  SaveCounts counts;
  const absl::Status status = SaveAll(*to, reader, *output, console, choice, counts);
  if (Interrupted()) return InterruptedExitCode();  // the destructor removes what was written
  CASK_RETURN_IF_ERROR(status);
  for (const archive::StreamedGlob& glob : choice.exclude) {
    if (!glob.has_matched()) NoteUnmatched("save", absl::StrCat("--exclude ", glob.glob()), console);
  }
  for (const archive::StreamedGlob& glob : choice.include) {
    if (!glob.has_matched()) NoteUnmatched("save", absl::StrCat("--include ", glob.glob()), console);
  }
  CASK_RETURN_IF_ERROR(output->Finish());
  PrintRemoved(output->removed_files(), console);
  console.out << Printable(flags.destination) << ": " << counts.saved
              << (counts.saved == 1 ? " tensor, " : " tensors, ") << HumanBytes(counts.bytes) << ", " << to->name()
              << '\n';
  return kDone;
}

}  // namespace

Action DeclareSave(CLI::App& app) {
  auto flags = std::make_shared<SaveFlags>();
  app.add_option("DST", flags->destination,
                 "What to write: its extension names the format; without one it is a checkpoint")
      ->required();
  AddOutputOptions(app, &flags->to, &flags->output);
  AddIncludeOption(app, &flags->include);
  AddExcludeOption(app, &flags->exclude);
  app.add_flag("--allow-loss", flags->allow_loss, "Leave out metadata (a device, attributes) that cannot be read");
  AddLimitOption(app, &flags->limit);
  app.footer(
      "Reads the output of `tensorcask cat`, or any stream of TensorProto records (TFRecord). A tensor without a "
      "name is named by its number, from 0. One tensor at a time is in memory; a record that claims more bytes "
      "than the machine has memory, or --limit allows, is refused before it is read. Two tensors of one name are "
      "an error, and so is a stream without records, or one that ends inside a record. DST appears complete or not "
      "at all.\n\n"
      "A GLOB without * and ? that is the name of a tensor chooses this tensor alone: x[0] then does not choose x0. "
      "If x0 comes first, save cannot know that and fails when x[0] comes; write x\\[0].\n\n"
      "Examples:\n"
      "  tensorcask save model.ckpt < model.tfrecord\n"
      "  ssh host tensorcask cat model.ckpt | tensorcask save model.ckpt");
  return [flags](Console& console) { return Save(*flags, console); };
}

}  // namespace tensorcask::tools
