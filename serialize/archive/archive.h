// One door to all formats: opens an archive by its content, and creates one in a format of the caller's choice.
//
//   const CheckpointArchiveFormat checkpoint;
//   const NpzArchiveFormat npz;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive("model.npz", {&checkpoint, &npz}));
//   CASK_RETURN_IF_ERROR(ConvertArchives({archive.get()}, "model.ckpt", checkpoint).status());   // convert_archives.h

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

// Opens the file at `path` in the format that its content shows. Formats without a signature (a bare message) are
// recognized by the extension if no other format recognizes the content. A folder is opened if it holds one archive. A
// path that begins with the scheme of a format ("unix:", served_format.h) is opened by that format.
// Errors: NotFound; InvalidArgument if several formats fit the file, if a folder holds no archive or several, or if
// options.format is unknown (the message says which path or format to give instead); DataLoss for a file that no format
// recognizes (the message says what the file is if that is known: a data file of a checkpoint, a compressed file, ...);
// those of ArchiveFormat::Open.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenArchive(const std::string& path, ArchiveFormats formats,
                                                           const ArchiveReaderOptions& options = {});

// Opens an archive from a byte source: a part of a larger file, memory (MakeMemorySource), or a class of the caller.
// The archive keeps the source, and several threads may read from it at once. source->name() replaces the path: errors
// begin with it, its extension tells the format of a bare message, and the tensor of an npy file is named after it. The
// name must be a valid path (CheckPath of io/file_system.h), but no file of this name is opened.
//
//   OpenArchive(MakeMemorySource("m.safetensors", bytes), formats);   // `bytes` outlive the archive
//
// Errors: also NotFound where a format has elements in other files (shards, parts, external data), and
// FailedPrecondition for the index of a checkpoint. An archive with a tensor in another file may open and list it.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenArchive(std::shared_ptr<const ByteSource> source,
                                                           ArchiveFormats formats,
                                                           const ArchiveReaderOptions& options = {});

// For a salvage: opens a file whose list of tensors may be damaged, with the tensors that can be found without the list
// (ArchiveFormat::OpenDamaged). Errors: those of OpenArchive.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenDamagedArchive(const std::string& path, ArchiveFormats formats,
                                                                  const ArchiveReaderOptions& options = {});

// Creates an archive of this format; it appears at `path` when the writer finishes. Errors: those of
// ArchiveFormat::Create.
absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateArchive(const std::string& path, const ArchiveFormat& format,
                                                             const ArchiveWriterOptions& options = {});

// The archives in a folder, sorted: paths that OpenArchive takes.
// Errors: from errno, naming the folder.
absl::StatusOr<std::vector<std::string>> FindArchives(const std::string& folder, ArchiveFormats formats,
                                                      FileSystem* file_system = FileSystem::Posix());

// The format with this name (ArchiveFormat::name). Errors: InvalidArgument, listing all names.
absl::StatusOr<const ArchiveFormat*> FindFormat(absl::string_view name, ArchiveFormats formats);

// The format for a file to write, by the extension of its name. A name without an extension is the prefix of a
// checkpoint, if a format of prefixes is among `formats`; ".5" and other extensions without a letter do not count.
// Errors: InvalidArgument, listing the known extensions, and for a format that is only read.
absl::StatusOr<const ArchiveFormat*> FormatForName(absl::string_view path, ArchiveFormats formats);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_H_
