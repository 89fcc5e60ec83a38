#include "tensorcask/tools/formats.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/archive/formats/served_format.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/formats/graph_format.h"
#include "tensorcask/tools/formats/tensorproto_text_format.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/siblings/remote_tools.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {

AllFormats FormatsWith(const FormatOptions& options) {
  std::vector<std::unique_ptr<const ArchiveFormat>> own;
  own.push_back(std::make_unique<TensorProtoTextArchiveFormat>());
  own.push_back(std::make_unique<GraphArchiveFormat>());
  own.push_back(std::make_unique<ServedArchiveFormat>());
  if (GetRemoteTools() != nullptr) {
    for (auto& format : GetRemoteTools()->formats()) own.push_back(std::move(format));
  }
  return AllFormats(options, std::move(own));
}

ArchiveFormats Formats() {
  static const auto* const formats = new AllFormats(FormatsWith({}));
  return formats->list();
}

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const ArchiveFormat* const format : Formats()) {
    if (format->scheme().empty()) names.emplace_back(format->name());
  }
  return names;
}

std::vector<std::string> TargetFormatNames() {
  std::vector<std::string> names;
  for (const ArchiveFormat* const format : Formats()) {
    if (format->scheme().empty() && format->traits().is_written) names.emplace_back(format->name());
  }
  return names;
}

absl::StatusOr<std::shared_ptr<const BaseLookup>> OpenBase(const std::string& path) {
  if (path.empty()) return nullptr;
  CheckpointReaderOptions options;
  options.read.file_system = ToolFiles();
  CASK_ASSIGN_OR_RETURN(CheckpointReader base, CheckpointReader::Open(path, options));
  return std::make_shared<const CheckpointReader>(std::move(base));
}

absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path, const std::string& base) {
  CheckpointReaderOptions options;
  options.read.file_system = ToolFiles();
  CASK_ASSIGN_OR_RETURN(options.base, OpenBase(base));
  return CheckpointReader::Open(path, options);
}

// The name ends before the first "=" behind which there is a file. If there is none, it ends before the first "=",
// unless there is a '/' in front of it: "runs/lr=0.1/w.npy".
NamedPath SplitOperand(const std::string& operand) {
  const auto names_input = [](const std::string& path) {
    return path == "-" || absl::StartsWith(path, ServedArchiveFormat::kScheme) || IsRemote(path) || IsOfStore(path) ||
           access(path.c_str(), F_OK) == 0 || access((path + ".index").c_str(), F_OK) == 0;
  };
  const size_t first = operand.find('=');
  if (first == std::string::npos || first == 0 || names_input(operand)) return {"", operand};
  for (size_t split = first; split != std::string::npos; split = operand.find('=', split + 1)) {
    if (names_input(operand.substr(split + 1))) return {operand.substr(0, split), operand.substr(split + 1)};
  }
  if (operand.find('/') < first) return {"", operand};
  return {operand.substr(0, first), operand.substr(first + 1)};
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenInput(const std::string& path, const InputOptions& options) {
  if (path.empty()) return Misuse("PATH is empty; wanted the name of a file");
  ArchiveReaderOptions read;
  read.format = options.format;
  read.limits = options.limits;
  CASK_ASSIGN_OR_RETURN(read.base, OpenBase(options.base));
  read.unreadable_metadata = options.unreadable_metadata;
  read.lenient = options.lenient;
  read.verify_checksums = !options.ignore_checksums;
  read.read.file_system = options.files;
  read.listing = options.listing;
  if (path != "-") return OpenArchive(path, FormatsWith(options.of_formats).list(), read);
  if (!options.format.empty() && options.format != RecordsArchiveFormat().name()) {
    return Misuse(absl::StrCat("-: only records are read from stdin; for the format ", options.format, " name a file"));
  }
  if (isatty(STDIN_FILENO) == 1) return Misuse("stdin is a terminal: pipe `tensorcask cat PATH` into this");
  return ReadRecordStream(MakeDescriptorStream(STDIN_FILENO, "stdin", [] { return !Interrupted(); }), read,
                          options.limit);
}

absl::Status CheckDestination(const std::string& path) {
  if (path == "-") return Misuse("-: wanted a file to write; `tensorcask cat PATH` writes records to stdout");
  if (absl::StartsWith(path, ServedArchiveFormat::kScheme)) {
    return Misuse(absl::StrCat(path, ": wanted a file to write; `tensorcask send` sends tensors through a socket"));
  }
  if (IsRemote(path)) return Misuse(absl::StrCat(path, ": wanted a file to write; a server is only read"));
  const std::string name = path.substr(path.rfind('/') + 1);
  const bool names_folder = name.empty() ? !path.empty() : name == "." || name == "..";
  // A folder of a store is a name that ends in a slash.
  const bool is_folder =
      !IsOfStore(path) && DescribeFile(path, ToolFiles()).value_or(FileInfo()).type == FileInfo::Type::kFolder;
  if (!names_folder && !is_folder) return absl::OkStatus();
  return Misuse(absl::StrCat(path, ": is a folder; wanted the name of a file to write, such as ", path,
                             name.empty() ? "" : "/", "model"));
}

absl::StatusOr<const ArchiveFormat*> TargetFormat(const std::string& path, const std::string& to,
                                                  ArchiveFormats formats) {
  CASK_RETURN_IF_ERROR(CheckDestination(path));
  if (!to.empty()) return FindFormat(to, formats);
  absl::StatusOr<const ArchiveFormat*> format = FormatForName(path, formats);
  if (format.ok()) return format;
  return Misuse(absl::StrCat(path, ": ", format.status().message(), "; name the format with --to"));
}

absl::StatusOr<ArchiveWriterOptions> WriterOptions(const std::string& path, const ArchiveFormat& format,
                                                   const OutputOptions& options) {
  CASK_RETURN_IF_ERROR(CheckDestination(path));
  // A delta names its base by the name of the tensor, which a bare message need not have.
  const ArchiveTraits traits = format.traits();
  if (!traits.levels && options.level != PayloadLevel::kStored) {
    return Misuse(absl::StrCat("--level compresses tensors, which ", format.name_with_article(), " file cannot hold"));
  }
  if (!traits.deltas && !options.base.empty() && options.level != PayloadLevel::kStored) {
    return Misuse(absl::StrCat("--base with --level makes deltas, which ", format.name_with_article(),
                               " file cannot hold: write a checkpoint or records, or leave out --level or --base"));
  }
  for (const FormatOption* const option : options.given) {
    const std::string wrong = NotForFormat(*option, absl::StrCat("--", option->name), format);
    if (!wrong.empty()) return Misuse(wrong);
  }
  ArchiveWriterOptions write;
  write.file_system = ToolFiles();
  write.overwrite = options.overwrite;
  write.alignment = options.alignment;
  write.level = options.level;
  write.num_shards = options.num_shards;
  write.num_threads = options.num_threads;
  write.store_opaquely = options.store_opaquely;
  write.file_metadata = options.file_metadata;
  if (traits.deltas) {
    CASK_ASSIGN_OR_RETURN(write.base, OpenBase(options.base));
  }
  return write;
}

absl::Status NameOverwrite(const absl::Status& status) {
  if (!absl::IsAlreadyExists(status) || !absl::EndsWith(status.message(), "exists already")) return status;
  return absl::AlreadyExistsError(absl::StrCat(status.message(), "; --overwrite replaces it"));
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateOutput(const std::string& path, const ArchiveFormat& format,
                                                            const OutputOptions& options) {
  CASK_ASSIGN_OR_RETURN(const ArchiveWriterOptions write, WriterOptions(path, format, options));
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> writer = format.Create(path, write);
  if (!writer.ok()) return NameOverwrite(writer.status());
  return writer;
}

}  // namespace tensorcask::tools
