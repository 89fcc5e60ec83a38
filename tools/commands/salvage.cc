// tensorcask salvage SRC DST: what is whole of a damaged file, and a list of what is not.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/formats/served_format.h"
#include "tensorcask/serialize/archive/salvage_archive.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tools/output/json_text.h"
#include "tensorcask/tools/read_progress.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct SalvageFlags {
  std::string source;
  std::string destination;
  bool json = false;
  bool overwrite = false;
  bool lenient = false;
  std::string base;
  std::string to;
};

Json LostJson(const ArchiveDamage& lost) {
  Json json = lost.tensor.empty() ? Json{{"name", nullptr}} : JsonName(lost.tensor);
  SetJsonText("file", lost.file, &json);
  json["offset"] = lost.offset;
  json["message"] = JsonText(InToolWords(lost.status.message()));
  return json;
}

// Each tensor is read to verify it, and again to copy it. 0, unknown, if there is no list of tensors.
uint64_t BytesToRead(const std::string& path, const ArchiveReaderOptions& read) {
  const absl::StatusOr<std::unique_ptr<ArchiveReader>> source = OpenArchive(path, Formats(), read);
  if (!source.ok()) return 0;
  uint64_t bytes = 0;
  for (const ArchiveEntry& entry : (*source)->entries()) {
    if (entry.alias_of.empty()) bytes = CheckedAdd(bytes, entry.stored_bytes).value_or(UINT64_MAX);
  }
  return CheckedMul<uint64_t>(bytes, 2).value_or(UINT64_MAX);
}

absl::StatusOr<ExitCode> Salvage(const SalvageFlags& flags, Console& console) {
  ArchiveReaderOptions read;
  read.lenient = flags.lenient;
  CASK_ASSIGN_OR_RETURN(read.base, OpenBase(flags.base));
  ArchiveWriterOptions write;
  write.file_system = ToolFiles();
  write.overwrite = flags.overwrite;
  if (absl::StartsWith(flags.source, ServedArchiveFormat::kScheme)) {
    return Misuse(absl::StrCat(flags.source, ": salvage reads damaged files; run it where they are"));
  }
  CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const target, TargetFormat(flags.destination, flags.to, Formats()));
  std::string destination = flags.destination;
  if (target->traits().is_prefix) destination = std::string(absl::StripSuffix(destination, ".index"));
  CatchInterrupts();
  absl::StatusOr<ArchiveSalvage> report = absl::UnknownError("");
  {
    ReadProgress progress(console, absl::StrCat("salvaging ", Printable(flags.source)));
    read.read.file_system = &progress;
    progress.SetTotal(BytesToRead(flags.source, read));
    report = SalvageArchive(flags.source, destination, *target, Formats(), read, write, [] { return !Interrupted(); });
  }
  if (Interrupted()) return InterruptedExitCode();
  if (absl::IsAlreadyExists(report.status())) return AppendToMessage(report.status(), "; --overwrite replaces it");
  CASK_RETURN_IF_ERROR(report.status());
  PrintNotes("salvage", report->notes, console);
  if (flags.json) {
    Json document;
    SetJsonText("source", flags.source, &document);
    SetJsonText("destination", destination, &document);
    document["saved"] = report->saved;
    document["unverified"] = Json::array();
    document["lost"] = Json::array();
    for (const std::string& name : report->unverified) document["unverified"].push_back(JsonName(name));
    for (const ArchiveDamage& lost : report->lost) document["lost"].push_back(LostJson(lost));
    document["removed"] = Json::array();
    for (const std::string& path : report->removed) document["removed"].push_back(JsonText(path));
    console.out << document.dump(/*indent=*/2, /*indent_char=*/' ', /*ensure_ascii=*/true,
                                 Json::error_handler_t::replace)
                << '\n';
  } else {
    for (const ArchiveDamage& lost : report->lost) {
      console.out << "lost: " << EscapeControls(lost.status.message()) << '\n';
    }
    for (const std::string& name : report->unverified) {
      console.out << "unverified: " << Printable(name)
                  << ": saved from a damaged part of the index; its bytes have the right checksum\n";
    }
    PrintRemoved(report->removed, console);
    console.out << Printable(destination) << ": " << report->saved
                << (report->saved == 1 ? " tensor saved" : " tensors saved");
    if (report->saved == 0 && !report->lost.empty()) console.out << ", and so nothing is written";
    console.out << '\n';
  }
  return report->lost.empty() ? kDone : kFound;
}

}  // namespace

Action DeclareSalvage(CLI::App& app) {
  auto flags = std::make_shared<SalvageFlags>();
  app.add_option("SRC", flags->source,
                 "The damaged file: a checkpoint's prefix or .index, another file, or a folder with one of them")
      ->required();
  app.add_option("DST", flags->destination,
                 "What to write: its extension names the format; without one it is a checkpoint")
      ->required();
  app.add_flag("--json", flags->json, "One JSON document");
  app.add_option("--to", flags->to, "The format of DST, if its name does not show it")
      ->check(CLI::IsMember(TargetFormatNames()))
      ->type_name("FORMAT");
  app.add_flag("--overwrite", flags->overwrite, "Replace DST");
  AddLenientOption(app, &flags->lenient);
  AddBaseOption(app, &flags->base);
  app.footer(
      "Verifies each tensor, saves those that are whole with their metadata, and prints a line for each that is "
      "lost and for each damaged part of the index. Exit 0 if everything was saved, 1 if something was lost.\n\n"
      "Of records, those are saved whose length and bytes are whole; of an npz file, the whole members, also if the "
      "file is cut, so that its directory is missing; of a "
      "safetensors model, the whole tensors of the files that are there. Of a checkpoint whose index is "
      "damaged, the rest of the index is searched for undamaged entries if DST is a checkpoint, too; without an "
      "index file nothing can be saved.\n\n"
      "Examples:\n"
      "  tensorcask salvage model.ckpt-100 rescued.ckpt\n"
      "  tensorcask salvage cut.tfrecord rescued.tfrecord");
  return [flags](Console& console) { return Salvage(*flags, console); };
}

}  // namespace tensorcask::tools
