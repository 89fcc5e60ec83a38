// What the commands open and create: all formats of the library, the text form of a message, graphs of
// TensorFlow, and "unix:SOCKET".
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> input, OpenInput("model.ckpt", {}));
//   for (const ArchiveEntry& entry : input->entries()) ...

#ifndef TENSORCASK_TOOLS_FORMATS_H_
#define TENSORCASK_TOOLS_FORMATS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {

// The formats of the library, with options of single ones, and those of the tool alone.
AllFormats FormatsWith(const FormatOptions& options);
ArchiveFormats Formats();                      // without options
std::vector<std::string> FormatNames();        // of Formats(): what --format takes
std::vector<std::string> TargetFormatNames();  // what --to takes: those that can be written

struct InputOptions {
  std::string format;             // one of FormatNames(); "": recognize it
  std::string base;               // the path of the base checkpoint of deltas; "": none
  bool lenient = false;           // accept known, harmless breaches of a format's rules
  bool ignore_checksums = false;  // ArchiveReaderOptions::verify_checksums is false
  // As ArchiveReaderOptions::unreadable_metadata.
  UnreadableMetadata unreadable_metadata = UnreadableMetadata::kSkip;
  FormatOptions of_formats;  // those for reading
  DecodeLimits limits;
  FileSystem* files = ToolFiles();  // must outlive the reader
  // As ArchiveReaderOptions::listing: a command that opens several inputs gives them one.
  std::shared_ptr<ListingBudget> listing = nullptr;
  uint64_t limit = UINT64_MAX;  // of the bytes of all records on standard input
};

// An operand NAME=PATH, and any other one with an empty name. What names a file, with "=" in it, is a path.
struct NamedPath {
  std::string name;
  std::string path;
};
NamedPath SplitOperand(const std::string& operand);

// "unix:SOCKET" and "grpc://HOST:PORT" name the tensors of a `tensorcask serve`, "-" a record stream on stdin.
// Errors: as OpenArchive; for a checkpoint also those of its base.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenInput(const std::string& path, const InputOptions& options);
absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path, const std::string& base);
// Returns null for "".
absl::StatusOr<std::shared_ptr<const BaseLookup>> OpenBase(const std::string& path);

struct OutputOptions {
  int num_shards = 1;
  uint64_t alignment = 64;
  bool overwrite = false;
  PayloadLevel level = PayloadLevel::kStored;
  int num_threads = 1;                     // of a checkpoint; the bytes do not depend on it
  bool store_opaquely = false;             // as ArchiveWriterOptions::store_opaquely
  std::string base;                        // the path of the checkpoint that encoded tensors become deltas of; "": none
  FormatOptions of_formats;                // those for writing
  std::vector<const FormatOption*> given;  // those of them that the user has given
  FileMetadata file_metadata;
};

// Errors: Misuse (console.h) for paths at which no file can be written: folders, "-", "unix:SOCKET".
absl::Status CheckDestination(const std::string& path);

// The format to write, one of `formats`: `to`, or that of the extension of `path`. Errors: Misuse; those of
// CheckDestination.
absl::StatusOr<const ArchiveFormat*> TargetFormat(const std::string& path, const std::string& to,
                                                  ArchiveFormats formats);

// Errors: Misuse for a base, a level or an option of single formats (OutputOptions::given) in a format that lacks it;
// those of CheckDestination.
absl::StatusOr<ArchiveWriterOptions> WriterOptions(const std::string& path, const ArchiveFormat& format,
                                                   const OutputOptions& options);

// `status`; if it says that a file exists already, with "--overwrite replaces it".
absl::Status NameOverwrite(const absl::Status& status);

// Errors: as WriterOptions; those of the format.
absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateOutput(const std::string& path, const ArchiveFormat& format,
                                                            const OutputOptions& options);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_H_
