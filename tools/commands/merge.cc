// tensorcask merge SRC... DST: one checkpoint of several (serialize/checkpoint/merge.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

struct MergeFlags {
  std::vector<std::string> paths;  // the last one is DST
  bool overwrite = false;
  bool allow_missing = false;
  bool remove_sources = false;
};

absl::StatusOr<ExitCode> Merge(const MergeFlags& flags, Console& console) {
  if (flags.paths.size() < 2) return Misuse("DST is required: tensorcask merge SRC... DST");
  const std::vector<std::string> sources(flags.paths.begin(), flags.paths.end() - 1);
  const std::string target(absl::StripSuffix(flags.paths.back(), ".index"));
  CheckpointMergeOptions options;
  options.file_system = ToolFiles();
  options.overwrite = flags.overwrite;
  options.allow_missing = flags.allow_missing;
  options.remove_sources = flags.remove_sources;
  const absl::StatusOr<CheckpointMergeReport> report = MergeCheckpoints(sources, target, options);
  const absl::Status& merged = report.status();
  if (absl::IsAlreadyExists(merged) && !flags.overwrite && absl::StrContains(merged.message(), "exists already")) {
    return AppendToMessage(merged, "; --overwrite replaces it");
  }
  ReadOptions look;
  look.file_system = ToolFiles();
  for (const std::string& source : sources) {
    if (!absl::IsNotFound(merged) || !OpenFileSource(source, look).ok()) continue;
    return AppendToMessage(
        merged, absl::StrCat("; ", source, " is no prefix of a checkpoint; convert joins files of other formats"));
  }
  CASK_RETURN_IF_ERROR(merged);
  PrintNotes("merge", report->notes, console);
  PrintRemoved(report->removed, console);
  CheckpointReaderOptions read;
  read.read.file_system = ToolFiles();
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(target, read));
  int64_t tensors = 0;
  CASK_RETURN_IF_ERROR(reader.ForEachEntry([&](const CheckpointEntry&) {
    ++tensors;
    return absl::OkStatus();
  }));
  console.out << Printable(target) << ": " << tensors << (tensors == 1 ? " tensor in " : " tensors in ")
              << reader.num_shards() << (reader.num_shards() == 1 ? " data file" : " data files") << '\n';
  return kDone;
}

}  // namespace

Action DeclareMerge(CLI::App& app) {
  auto flags = std::make_shared<MergeFlags>();
  app.add_option("SRC", flags->paths, "Prefixes of checkpoints, and last the prefix of the new one")
      ->required()
      ->option_text("SRC... DST");
  app.add_flag("--overwrite", flags->overwrite, "Replace DST");
  app.add_flag("--allow-missing", flags->allow_missing, "Skip a SRC that does not exist");
  app.add_flag("--remove-sources", flags->remove_sources, "Remove each SRC when DST is whole");
  app.footer(
      "Data files get a second name (a hard link; a copy where the file system has no links), and the indexes become\n"
      "one. No elements are read: verify finds damage in DST as it does in SRC. Pieces of one tensor in several\n"
      "SRC become one tensor. A tensor that is whole in two SRC is an error. Only checkpoints of TensorFlow's form;\n"
      "convert joins files of other formats.\n\n"
      "Example:\n"
      "  tensorcask merge worker-0 worker-1 step-300");
  return [flags](Console& console) { return Merge(*flags, console); };
}

}  // namespace tensorcask::tools
