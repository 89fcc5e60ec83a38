#include "tensorcask/serialize/archive/archive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/internal/file_hints.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

// ArchiveFormat::Open or ArchiveFormat::OpenDamaged.
using OpenFn = absl::StatusOr<std::unique_ptr<ArchiveReader>> (ArchiveFormat::*)(const std::string&,
                                                                                 const ArchiveReaderOptions&) const;

// The names of the formats whose archives are files.
std::string Names(absl::Span<const ArchiveFormat* const> formats, absl::string_view separator) {
  std::vector<absl::string_view> names;
  for (const ArchiveFormat* const format : formats) {
    if (format->scheme().empty()) names.push_back(format->name());
  }
  return absl::StrJoin(names, separator);
}

bool HasExtension(absl::string_view path, const ArchiveFormat& format) {
  const std::vector<absl::string_view> extensions = format.extensions();
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](absl::string_view extension) { return absl::EndsWithIgnoreCase(path, extension); });
}

// The format whose scheme `path` begins with; null if the path is that of a file.
const ArchiveFormat* FormatOfAddress(absl::string_view path, ArchiveFormats formats) {
  for (const ArchiveFormat* const format : formats) {
    if (!format->scheme().empty() && absl::StartsWith(path, format->scheme())) return format;
  }
  return nullptr;
}

absl::string_view Basename(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

// ".npz" of "dir/x.npz"; "" of "x", ".x", "x.5" and "step-1.5e3 final".
absl::string_view Extension(absl::string_view path) {
  const absl::string_view name = Basename(path);
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos || dot == 0 || dot + 1 == name.size()) return "";
  const absl::string_view extension = name.substr(dot);
  if (!absl::ascii_isalpha(static_cast<unsigned char>(extension[1]))) return "";
  for (const char c : extension.substr(1)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') return "";
  }
  return extension;
}

// "x.ckpt", "x.ckpt-100": the names that TensorFlow's programs give to checkpoints.
bool LooksLikePrefix(absl::string_view path) {
  const absl::string_view extension = Extension(path);
  return extension.empty() || extension == ".ckpt" || absl::StartsWith(extension, ".ckpt-");
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenFile(const std::string& path, ArchiveFormats formats,
                                                        const ArchiveReaderOptions& options, OpenFn open);

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenFolder(const std::string& path, ArchiveFormats formats,
                                                          const ArchiveReaderOptions& options, OpenFn open) {
  constexpr size_t kMaxListed = 8;
  CASK_ASSIGN_OR_RETURN(std::vector<std::string> found, FindArchives(path, formats, options.read.file_system));
  if (found.size() == 1) return OpenFile(found[0], formats, options, open);
  if (found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a folder without a file of a known format (", Names(formats, ", "), ")"));
  }
  const size_t count = found.size();
  found.resize(std::min(count, kMaxListed));
  return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder with ", count, count == 1 ? " file" : " files",
                                                 "; name one: ", absl::StrJoin(found, ", "),
                                                 count > kMaxListed ? ", ..." : ""));
}

// Requires: probe.file is not null.
absl::Status NotRecognized(const ArchiveProbe& probe, bool has_neighbours, ArchiveFormats formats) {
  const std::string& path = probe.path;
  if (const std::string hint = archive::FileHint(probe); !hint.empty()) {
    return absl::DataLossError(absl::StrCat(path, ": ", hint));
  }
  std::vector<const ArchiveFormat*> unsigned_formats;
  bool has_prefixes = false;
  for (const ArchiveFormat* const format : formats) {
    if (!format->traits().has_signature) unsigned_formats.push_back(format);
    has_prefixes = has_prefixes || (has_neighbours && format->traits().is_prefix);
  }
  std::string message = absl::StrCat(path, ": no format recognizes this file");
  if (has_prefixes) absl::StrAppend(&message, "; not a checkpoint (no ", path, ".index beside it)");
  if (!unsigned_formats.empty()) {
    absl::StrAppend(&message, "; if it is a message, give its format: ", Names(unsigned_formats, " or "),
                    " (option --format of the tool)");
  }
  if (const ContentHint hint = LookAtContent(probe.head, probe.file->size_bytes()); hint.is_text) {
    absl::StrAppend(&message, "; this looks like ", hint.what);
  }
  return absl::DataLossError(message);
}

// Opens a file that `format` recognized. A damaged file may be one that its writer has not finished.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenAs(const ArchiveFormat& format, const std::string& path,
                                                      const ArchiveReaderOptions& options, OpenFn open) {
  absl::StatusOr<std::unique_ptr<ArchiveReader>> archive = (format.*open)(path, options);
  if (!absl::IsDataLoss(archive.status())) return archive;
  const std::string hint = archive::UnfinishedHint(path);
  return hint.empty() ? std::move(archive) : absl::DataLossError(absl::StrCat(archive.status().message(), "; ", hint));
}

// `status`, NotFound for `path`, with the folder that is missing and the words of a store. A store that is asked
// whether there is a file answers no with no reason. One that is asked for the file says, for example, that there is no
// such bucket.
absl::Status ExplainMissing(const absl::Status& status, const std::string& path, FileSystem* files) {
  const absl::Status explained = NameMissingFolder(status, path, files);
  if (!absl::IsNotFound(status) || SchemeOf(path).empty()) return explained;
  const IoResult opened = files->OpenToRead(path);
  if (opened >= 0) files->Close(opened);  // it is there by now
  const std::string words = opened < 0 ? files->LastDetail() : "";
  return words.empty() ? explained : AppendToMessage(explained, absl::StrCat("; ", words));
}

// The error for a path at which there is nothing, neither a file nor a checkpoint that begins with it.
absl::Status NothingAt(const std::string& path, FileSystem* files) {
  const absl::Status status = absl::NotFoundError(
      absl::StrCat(path, ": no such file or folder, and no checkpoint of this name (there is no ", path, ".index)"));
  return ExplainMissing(status, path, files);
}

}  // namespace

absl::StatusOr<const ArchiveFormat*> FindFormat(absl::string_view name, ArchiveFormats formats) {
  for (const ArchiveFormat* const format : formats) {
    if (format->scheme().empty() && format->name() == name) return format;
  }
  return absl::InvalidArgumentError(absl::StrCat("format ", Quoted(name), " is not one of ", Names(formats, ", ")));
}

absl::StatusOr<const ArchiveFormat*> FormatForName(absl::string_view path, ArchiveFormats formats) {
  if (const ArchiveFormat* const format = FormatOfAddress(path, formats); format != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a server at ", format->scheme(), " is only read; wanted a file"));
  }
  const ArchiveFormat* prefix = nullptr;
  std::vector<absl::string_view> known;
  for (const ArchiveFormat* const format : formats) {
    if (format->traits().is_prefix) prefix = format;
    if (HasExtension(path, *format)) {
      if (format->traits().is_written) return format;
      return absl::InvalidArgumentError(absl::StrCat("files of the format ", format->name(), " are read, not written"));
    }
    if (!format->traits().is_written) continue;
    const std::vector<absl::string_view> extensions = format->extensions();
    known.insert(known.end(), extensions.begin(), extensions.end());
  }
  if (prefix != nullptr && LooksLikePrefix(path)) return prefix;
  return absl::InvalidArgumentError(absl::StrCat("no known format has the extension ", Quoted(Extension(path)),
                                                 "; known: ", absl::StrJoin(known, " "),
                                                 prefix == nullptr ? ""
                                                                   : "; a name without an extension, or .ckpt, is "
                                                                     "a checkpoint"));
}

absl::StatusOr<std::vector<std::string>> FindArchives(const std::string& folder, ArchiveFormats formats,
                                                      FileSystem* file_system) {
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder, file_system, "list"));
  const std::string without_slash(absl::StripSuffix(folder, "/"));
  std::vector<std::string> found;
  for (const ArchiveFormat* const format : formats) {
    for (std::string& path : format->FindIn(without_slash, names, file_system)) found.push_back(std::move(path));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

namespace {

// Opens the file at `path`, or the bytes of options.read.source.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenFile(const std::string& path, ArchiveFormats formats,
                                                        const ArchiveReaderOptions& options, OpenFn open) {
  if (!options.format.empty()) {
    CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const format, FindFormat(options.format, formats));
    return (format->*open)(path, options);
  }
  FileSystem* const files = options.read.file_system;
  const bool is_source = options.read.source != nullptr;
  const absl::StatusOr<FileInfo> there = is_source ? FileInfo() : DescribeFile(path, files, "open");
  const auto is_there_as = [&](FileInfo::Type type) { return there.ok() && there->type == type; };
  ArchiveProbe probe = {path, nullptr, "", files};
  std::string head;
  if (is_there_as(FileInfo::Type::kRegular)) {
    CASK_ASSIGN_OR_RETURN(probe.file, OpenFileSource(path, options.read));
    head.resize(std::min<uint64_t>(kContentHeadBytes, probe.file->size_bytes()));
    CASK_RETURN_IF_ERROR(probe.file->ReadAt(0, absl::MakeSpan(head.data(), head.size())));
    probe.head = head;
  }
  std::vector<const ArchiveFormat*> recognized;
  const ArchiveFormat* prefix = nullptr;
  for (const ArchiveFormat* const format : formats) {
    if (format->Recognizes(probe)) recognized.push_back(format);
    if (format->traits().is_prefix) prefix = format;
  }
  if (recognized.size() > 1) {  // the extension decides, if it names one of them
    for (const ArchiveFormat* const format : recognized) {
      if (HasExtension(path, *format)) return OpenAs(*format, path, options, open);
    }
    return absl::InvalidArgumentError(absl::StrCat(path, ": could be ", Names(recognized, " or "),
                                                   "; name the format: --format ", recognized[0]->name()));
  }
  if (recognized.size() == 1) return OpenAs(*recognized[0], path, options, open);
  if (is_there_as(FileInfo::Type::kFolder)) return OpenFolder(path, formats, options, open);
  for (const ArchiveFormat* const format : formats) {
    if (HasExtension(path, *format) && (probe.file != nullptr || !format->traits().is_prefix)) {
      return (format->*open)(path, options);
    }
  }
  if (probe.file != nullptr) return NotRecognized(probe, !is_source, formats);
  if (there.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is a pipe, a socket or a device; wanted a regular file"));
  }
  if (prefix != nullptr && LooksLikePrefix(path)) {
    if (absl::IsNotFound(there.status())) return NothingAt(path, files);
    return (prefix->*open)(path, options);  // its error names the index
  }
  return ExplainMissing(there.status(), path, files);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenArchive(const std::string& path, ArchiveFormats formats,
                                                           const ArchiveReaderOptions& options) {
  if (const ArchiveFormat* const format = FormatOfAddress(path, formats); format != nullptr) {
    return format->Open(path, options);
  }
  return OpenFile(path, formats, options, &ArchiveFormat::Open);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenDamagedArchive(const std::string& path, ArchiveFormats formats,
                                                                  const ArchiveReaderOptions& options) {
  return OpenFile(path, formats, options, &ArchiveFormat::OpenDamaged);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenArchive(std::shared_ptr<const ByteSource> source,
                                                           ArchiveFormats formats,
                                                           const ArchiveReaderOptions& options) {
  static MemoryFileSystem* const no_files = new MemoryFileSystem;
  const std::string path = source->name();
  ArchiveReaderOptions of_source = options;
  of_source.read.file_system = no_files;
  of_source.read.source = std::move(source);
  return OpenFile(path, formats, of_source, &ArchiveFormat::Open);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateArchive(const std::string& path, const ArchiveFormat& format,
                                                             const ArchiveWriterOptions& options) {
  return format.Create(path, options);
}

}  // namespace tensorcask
