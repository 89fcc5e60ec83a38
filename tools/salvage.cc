// tensorcask salvage SRC DST: what is whole of a damaged checkpoint, and a list of what is not.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tools/json_text.h"
#include "tensorcask/tools/read_progress.h"
#include "tensorcask/tools/served_input.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string source;
  std::string destination;
  bool json = false;
  bool overwrite = false;
  std::string base;
};

Json ToJson(const CheckpointDamage& lost) {
  Json json = lost.tensor.empty() ? Json{{"name", nullptr}} : JsonName(lost.tensor);
  SetJsonText("file", lost.file, &json);
  json["offset"] = lost.offset;
  json["message"] = JsonText(InToolWords(lost.status.message()));
  return json;
}

// The bytes in the data files of a checkpoint.
uint64_t DataBytes(const std::string& path) {
  const std::string prefix(absl::StripSuffix(path, ".index"));
  const std::string folder = FolderOf(prefix);
  const std::string start = absl::StrCat(prefix.substr(prefix.rfind('/') + 1), ".data-");
  std::vector<std::string> names;
  uint64_t bytes = 0;
  if (FileSystem::Posix()->List(folder, &names) < 0) return 0;
  for (const std::string& name : names) {
    FileInfo file;
    if (!absl::StartsWith(name, start)) continue;
    if (FileSystem::Posix()->Describe(absl::StrCat(folder, "/", name), &file) == 0) bytes += file.size_bytes;
  }
  return bytes;
}

// The name of the format of `path` if it is a file of another format than a checkpoint; "" if it is not or cannot be
// told.
std::string OtherFormat(const std::string& path) {
  FileInfo info;
  const bool is_file = FileSystem::Posix()->Describe(path, &info) == 0 && info.type == FileInfo::Type::kRegular;
  if (!is_file || absl::EndsWith(path, ".index")) return "";
  if (FileSystem::Posix()->Describe(absl::StrCat(path, ".index"), &info) == 0) return "";
  std::string format;
  if (const absl::StatusOr<std::unique_ptr<ArchiveReader>> input = OpenInput(path, {}); input.ok()) {
    format = std::string((*input)->format());
  } else if (const absl::StatusOr<const ArchiveFormat*> named = TargetFormat(path, ""); named.ok()) {
    format = std::string((*named)->name());  // damaged, and so only its name is left
  }
  return format == "checkpoint" ? "" : format;
}

absl::StatusOr<ExitCode> Salvage(const Flags& flags, Console& console) {
  CheckpointReaderOptions read;
  CASK_ASSIGN_OR_RETURN(read.base, OpenBase(flags.base));
  CheckpointWriterOptions write;
  write.overwrite = flags.overwrite;
  const std::string destination(absl::StripSuffix(flags.destination, ".index"));
  CASK_RETURN_IF_ERROR(CheckDestination(flags.destination));
  CatchInterrupts();
  if (absl::StartsWith(flags.source, kServedPrefix)) {
    return Misuse(absl::StrCat(flags.source, ": salvage reads the files of a checkpoint; run it where they are"));
  }
  if (const std::string format = OtherFormat(flags.source); !format.empty()) {
    return Misuse(
        absl::StrCat(flags.source, ": is of the format ", format,
                     "; salvage saves the tensors of a checkpoint. `tensorcask verify` names the damage of this file",
                     format == "records" ? "" : ", and `tensorcask convert --exclude NAME` copies the other tensors"));
  }
  absl::StatusOr<SalvageReport> report = absl::UnknownError("");
  {
    ReadProgress progress(console, absl::StrCat("salvaging ", Printable(flags.source)));
    progress.SetTotal(DataBytes(flags.source));
    read.read.file_system = &progress;
    report = SalvageCheckpoint(flags.source, destination, read, write, [] { return !Interrupted(); });
  }
  if (Interrupted()) return InterruptedExitCode();
  if (absl::IsAlreadyExists(report.status())) return AppendToMessage(report.status(), "; --overwrite replaces it");
  CASK_RETURN_IF_ERROR(report.status());
  if (flags.json) {
    Json document;
    SetJsonText("source", flags.source, &document);
    SetJsonText("destination", destination, &document);
    document["saved"] = report->saved;
    document["unverified"] = Json::array();
    document["lost"] = Json::array();
    for (const std::string& name : report->unverified) document["unverified"].push_back(JsonName(name));
    for (const CheckpointDamage& lost : report->lost) document["lost"].push_back(ToJson(lost));
    console.out << document.dump(/*indent=*/2, /*indent_char=*/' ', /*ensure_ascii=*/true,
                                 Json::error_handler_t::replace)
                << '\n';
  } else {
    for (const CheckpointDamage& lost : report->lost) {
      console.out << "lost: " << EscapeControls(lost.status.message()) << '\n';
    }
    for (const std::string& name : report->unverified) {
      console.out << "unverified: " << Printable(name)
                  << ": saved from a damaged part of the index; its bytes have the right checksum\n";
    }
    console.out << Printable(destination) << ": " << report->saved
                << (report->saved == 1 ? " tensor saved" : " tensors saved");
    if (report->saved == 0 && !report->lost.empty()) console.out << ", and so nothing is written";
    console.out << '\n';
  }
  return report->lost.empty() ? kDone : kFound;
}

}  // namespace

Action DeclareSalvage(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("SRC", flags->source, "The damaged checkpoint: its prefix or .index")->required();
  app.add_option("DST", flags->destination, "The prefix of the checkpoint to write")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  app.add_flag("--overwrite", flags->overwrite, "Replace DST");
  AddBaseOption(app, &flags->base);
  app.footer(
      "Saves each tensor whose entry and bytes have the right checksums, with its metadata, and prints a line for "
      "each that is lost, and for each damaged part of the index. Exit 0 if everything was saved, 1 if something "
      "was lost. If the end of the index is missing, the rest is searched for undamaged entries. Without an index "
      "file nothing can be saved.\n\n"
      "Example:\n"
      "  tensorcask salvage model.ckpt-100 rescued.ckpt");
  return [flags](Console& console) { return Salvage(*flags, console); };
}

}  // namespace tensorcask::tools
