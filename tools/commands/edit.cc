// tensorcask edit PATH: changes names and metadata, and removes tensors (serialize/archive/edit.h).

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/edit.h"
#include "tensorcask/serialize/archive/formats/served_format.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/formats.h"
#include "tensorcask/tools/metadata_options.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/rename.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

struct EditFlags {
  std::string path;
  std::vector<std::string> renames;
  std::vector<std::string> set;     // KEY=VALUE
  std::vector<std::string> unset;   // keys
  std::vector<std::string> remove;  // globs
  std::string output;
  bool dry_run = false;
  bool lenient = false;
};

absl::StatusOr<ArchiveEdits> ParseEdits(const EditFlags& flags) {
  if (flags.renames.empty() && flags.set.empty() && flags.unset.empty() && flags.remove.empty()) {
    return Misuse("nothing to change: give --rename, --set, --unset or --remove");
  }
  if (flags.path == "-" || absl::StartsWith(flags.path, ServedArchiveFormat::kScheme)) {
    return Misuse(absl::StrCat(flags.path, " is a stream; edit changes files. Convert it to a file first"));
  }
  InputOptions read;
  read.lenient = flags.lenient;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> archive, OpenInput(flags.path, read));
  ArchiveEdits edits;
  CASK_ASSIGN_OR_RETURN(edits.rename, ParseRenames(flags.renames, {archive.get()}));
  for (const std::string& glob : flags.remove) {
    const absl::Status matched = CheckMatched({glob}, {archive.get()});
    if (!matched.ok()) return Misuse(absl::StrCat("--remove ", matched.message()));
  }
  if (!flags.remove.empty()) {
    edits.remove = [globs = archive::NamesFirst(flags.remove, archive->entries())](absl::string_view name) {
      return MatchesAny(globs, std::string(name));
    };
  }
  CASK_ASSIGN_OR_RETURN(edits.set_metadata, ParseSets(flags.set));
  edits.unset_metadata.insert(flags.unset.begin(), flags.unset.end());
  return edits;
}

// A rename over a symbolic link would replace the link by a file, and leave what it leads to as it was.
absl::Status CheckNoLinks(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    struct stat info;
    if (lstat(file.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) continue;
    char target[PATH_MAX];
    const ssize_t size = readlink(file.c_str(), target, sizeof(target));
    return absl::FailedPreconditionError(absl::StrCat(
        file, ": is a symbolic link to ", absl::string_view(target, size > 0 ? static_cast<size_t>(size) : 0),
        ", which other names may lead to; edit that file, or write a new one with --output"));
  }
  return absl::OkStatus();
}

void PrintChanges(const ArchiveEditReport& report, const ArchiveEdits& edits, Console& console) {
  for (const auto& [from, to] : report.renamed) console.out << Printable(from) << " -> " << Printable(to) << '\n';
  for (const std::string& name : report.removed) console.out << "removed " << Printable(name) << '\n';
  for (const auto& [key, value] : edits.set_metadata) {
    console.out << "metadata " << Printable(key) << " = " << Printable(value) << '\n';
  }
  for (const std::string& key : edits.unset_metadata) console.out << "metadata " << Printable(key) << " unset\n";
  for (const std::string& note : report.result.notes) console.out << "note: " << EscapeControls(note) << '\n';
}

// "2 tensors renamed, 1 entry of metadata set".
std::string Counts(const ArchiveEditReport& report, const ArchiveEdits& edits) {
  std::vector<std::string> parts;
  const size_t num_metadata = edits.set_metadata.size() + edits.unset_metadata.size();
  if (!report.renamed.empty()) parts.push_back(absl::StrCat(TensorCount(report.renamed.size()), " renamed"));
  if (!report.removed.empty()) parts.push_back(absl::StrCat(TensorCount(report.removed.size()), " removed"));
  if (num_metadata > 0) {
    parts.push_back(absl::StrCat(num_metadata, num_metadata == 1 ? " entry" : " entries", " of metadata changed"));
  }
  return absl::StrJoin(parts, ", ");
}

// What was written, or would be.
std::string Written(const ArchiveEditReport& report, const EditFlags& flags) {
  const FileEditResult& result = report.result;
  std::string text = flags.dry_run ? "would write " : "wrote ";
  if (report.format == "checkpoint") {
    absl::StrAppend(
        &text, "an index of ", HumanBytes(result.written_bytes),
        flags.output.empty() ? "; the data files stay as they are" : "; the data files are hard links to the old ones");
    if (result.unused_bytes > 0) {
      absl::StrAppend(&text, ", ", HumanBytes(result.unused_bytes), " in them belong to no tensor now");
    }
    return text;
  }
  if (result.files.size() > 1) absl::StrAppend(&text, result.files.size(), " files, ");
  return absl::StrCat(text, HumanBytes(result.written_bytes), " of headers",
                      flags.dry_run ? ", and would copy " : ", and copied ", HumanBytes(result.copied_bytes),
                      " of elements");
}

absl::StatusOr<ArchiveEditReport> EditOrExplain(const EditFlags& flags, const ArchiveEdits& edits,
                                                const FileEditOptions& options) {
  absl::StatusOr<ArchiveEditReport> report = EditArchive(flags.path, edits, Formats(), options);
  struct stat info;
  const bool has_output = !flags.output.empty() && (lstat(flags.output.c_str(), &info) == 0 ||
                                                    lstat(absl::StrCat(flags.output, ".index").c_str(), &info) == 0);
  const bool is_taken =
      absl::IsAlreadyExists(report.status()) && absl::StrContains(report.status().message(), "exists already");
  if (!is_taken || !has_output) return report;
  return absl::AlreadyExistsError(
      absl::StrCat(report.status().message(), "; --output writes only new files: choose another name"));
}

absl::StatusOr<ExitCode> Edit(const EditFlags& flags, Console& console) {
  CatchInterrupts();
  if (!flags.output.empty()) CASK_RETURN_IF_ERROR(CheckDestination(flags.output));
  CASK_ASSIGN_OR_RETURN(const ArchiveEdits edits, ParseEdits(flags));
  FileEditOptions options;
  options.file_system = ToolFiles();
  options.output = flags.output;
  options.dry_run = true;
  options.lenient = flags.lenient;
  CASK_ASSIGN_OR_RETURN(ArchiveEditReport report, EditOrExplain(flags, edits, options));
  if (!flags.renames.empty() && report.renamed.empty()) {
    return Misuse(absl::StrCat("--rename ", absl::StrJoin(flags.renames, " --rename "), " changes no name"));
  }
  if (report.result.files.empty()) {
    console.out << Printable(report.path) << ": has these names and this metadata already; nothing is written\n";
    return kDone;
  }
  if (flags.output.empty()) {
    CASK_RETURN_IF_ERROR(CheckNoLinks(report.result.files));
    CASK_RETURN_IF_ERROR(CheckNoLinks(report.result.replaced));
  }
  if (!flags.dry_run) {
    options.dry_run = false;
    absl::StatusOr<ArchiveEditReport> done = absl::UnknownError("");
    {
      ProgressLine progress(console, report.result.copied_bytes);
      options.progress = [&](uint64_t bytes) {
        progress.ShowBytes("copying", bytes);
        return !Interrupted();
      };
      done = EditOrExplain(flags, edits, options);
    }
    if (!done.ok() && Interrupted()) return InterruptedExitCode();
    CASK_ASSIGN_OR_RETURN(report, std::move(done));
  }
  PrintChanges(report, edits, console);
  PrintRemoved(report.result.removed_files, console, flags.dry_run);
  console.out << Printable(flags.output.empty() ? report.path : flags.output) << ": " << Counts(report, edits) << "; "
              << Written(report, flags) << '\n';
  return kDone;
}

}  // namespace

Action DeclareEdit(CLI::App& app) {
  auto flags = std::make_shared<EditFlags>();
  app.add_option("PATH", flags->path,
                 "A safetensors file or the index of a model, a GGUF file, an ONNX model, a file of torch.save, an npz "
                 "file, or a "
                 "checkpoint")
      ->required();
  AddRenameOption(app, "", &flags->renames);
  AddMetadataOptions(app, &flags->set, &flags->unset);
  app.add_option("--remove", flags->remove, "Remove tensors; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("-o,--output", flags->output, "Write the result to this new file or checkpoint; PATH stays as it is")
      ->type_name("PATH");
  app.add_flag("--dry-run", flags->dry_run, "Only print what would change");
  AddLenientOption(app, &flags->lenient);
  app.footer(
      "Values stay the same, bit by bit. After a crash, PATH is the complete old file or the complete new one. "
      "PATH must not be a symbolic link. Hard links to it keep the old content, and a new file belongs to the "
      "user who runs edit.\n\n"
      "Checkpoint: only the index is written anew; the bytes of removed tensors stay in the data files, and a note "
      "names those that are missing. "
      "Refused: renaming a delta, because its name finds its base; renaming or removing a tensor of the object "
      "graph, because TensorFlow restores by that name (`tensorcask convert` changes the graph, too). Deltas in "
      "other checkpoints no longer find a tensor that was renamed.\n\n"
      "safetensors: a new header and the same data, which the system copies or, where it can (Btrfs, XFS), "
      "shares between the files. Checksums and tied tensors follow the names. The bytes of removed tensors are "
      "gone. Of a model in several files, files that change get new names, which its index then lists; a line names "
      "each old file that is removed, and each missing or damaged file, which stays listed. Refused: renaming or "
      "removing a tensor of such a file; "
      "removing a tensor that has other names, unless these are removed, too.\n\n"
      "GGUF: likewise, blocks stay blocks. A value that --set replaces keeps its type, a new one is text or has the "
      "type that it names (uint32:7), which the value for an array must do, too. A key tensorcask.padding may be "
      "added, so that the file system can share the data. Of a model in several files one is edited in place; with "
      "-o NAME-00001-of-00003.gguf all are written anew. Refused: editing several of them in place.\n\n"
      "ONNX: initializers get their new names in all nodes and graphs that use them; every other byte stays. --set and "
      "--unset change metadata_props. Refused: a name that another value has; removing an initializer that is used; "
      "fields of the model (onnx.ir_version).\n\n"
      "PyTorch: --set and --unset change the metadata that this program has beside the object, which PyTorch ignores; "
      "every other record stays. Other changes write a new object with the same tensors and values: a note names what "
      "it lacks, such as the _metadata of a state dict. Refused: in place, a file that would lack something (--output "
      "writes another one); a model in several files.\n\n"
      "npz: all arrays stay as they are; nothing is decompressed. Refused: removing all arrays, or some fields of "
      "one.\n\n"
      "Other formats: `tensorcask convert --rename`.\n\n"
      "Examples:\n"
      "  tensorcask edit --dry-run --rename 's/^model\\.//' model.safetensors\n"
      "  tensorcask edit --set license=MIT --unset author model.safetensors\n"
      "  tensorcask edit --rename dense/kernel=encoder/kernel --remove '*/Adam*' model.ckpt\n"
      "  tensorcask edit --set general.name=tiny --unset tokenizer.chat_template model.gguf\n"
      "  tensorcask edit --rename model.weight=weight --set author=me model.onnx\n"
      "  tensorcask edit --rename arr_0=images -o images.npz data.npz\n"
      "  tensorcask edit --remove 'optimizer.*' -o weights.safetensors model.safetensors");
  return [flags](Console& console) { return Edit(*flags, console); };
}

}  // namespace tensorcask::tools
