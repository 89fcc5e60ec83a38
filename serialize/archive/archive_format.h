// One format of files with tensors: how to recognize it, open it and create it.
//
// A program makes the formats that it wants to link, and passes them to OpenArchive (archive.h). Each is a small object
// that holds the options of this format alone, if it has any; nothing registers itself.
//
//   const SafetensorsArchiveFormat safetensors;
//   const NpzArchiveFormat npz;
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenArchive(path, {&safetensors, &npz}));
//
// A new format derives from ArchiveFormat, in a target of its own.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Options of all formats. The constructor of a format takes the options that only this format has:
// OnnxArchiveFormat(OnnxFormatOptions).
struct ArchiveReaderOptions {
  std::string format;  // ArchiveFormat::name; "": recognize the format
  ReadOptions read;    // `source` is set by OpenArchive
  DecodeLimits limits;
  // Resolves deltas; null if none is available.
  std::shared_ptr<const BaseLookup> base = nullptr;
  // With kSkip, a tensor whose metadata cannot be read is listed, and Read returns its elements.
  UnreadableMetadata unreadable_metadata = UnreadableMetadata::kSkip;
  // Accepts known, harmless deviations from the rules of a format.
  bool lenient = false;
  // False: elements are read although their checksum does not match, as when another program changed them in place.
  // VerifyAll compares all checksums in any case.
  bool verify_checksums = true;
  // The budget for the memory of the list of tensors. Several archives may share one. null: this archive gets its own.
  std::shared_ptr<ListingBudget> listing = nullptr;

  std::shared_ptr<ListingBudget> listing_or_new() const;
};

// The values that a new file gets beside its tensors, as ArchiveReader::Values returns them. Tensor number i of the
// tree is the tensor named names[i]. Tensors that are not in the tree become entries of its root, which is a map.
struct ArchiveValues {
  ValueTree tree;
  std::vector<std::string> names;
};

// A format ignores the options that it does not support (ArchiveFormat::traits); the constructor of a format takes
// those of this format alone.
struct ArchiveWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool overwrite = false;  // replace a file of this name
  bool sync = true;        // durable when Finish returns
  uint64_t alignment = 64;
  PayloadLevel level = PayloadLevel::kStored;
  std::shared_ptr<const BaseLookup> base = nullptr;  // encoded tensors become deltas to this; null: no deltas
  int num_shards = 1;
  int num_threads = 1;  // the bytes of the file do not depend on it
  // Stores the elements of dtypes that the format holds only opaquely (ArchiveFormat::StoresAsRawBytes). false: they
  // are an error.
  bool store_opaquely = false;
  // The path of the archive of this format that the tensors come from; "": there is none, or it is not a file. A format
  // whose files have more than tensors takes the rest from that archive (ArchiveTraits::needs_base). ConvertArchives
  // sets it.
  std::string source_path;
  FileMetadata file_metadata;
  // The values beside the tensors that the format keeps with their types (ArchiveFormat::HoldsValue), in this order. An
  // entry of file_metadata with the name of a value replaces it, and gets its type where the format has types.
  std::vector<FileValue> values;
  // The values of the file with the tensors among them, if the format is nested (ArchiveTraits::nested). null: the file
  // has only tensors, by name.
  std::shared_ptr<const ArchiveValues> nested = nullptr;
};

// The place of a new file.
struct NewFile {
  std::string path;  // "" if it is not known
  FileSystem* file_system = FileSystem::Posix();
};

// The metadata that is planned for a new file, for ArchiveFormat::CheckMetadata.
struct MetadataForFile {
  FileMetadata of_sources;        // that of the files which the tensors come from
  FileMetadata set;               // entries that the caller adds or replaces
  std::set<std::string> unset;    // keys of the sources that the caller leaves out
  std::vector<FileValue> values;  // as ArchiveWriterOptions::values
  NewFile file;
  const ArchiveReader* source = nullptr;  // the archive at ArchiveWriterOptions::source_path; null: none
};

// A metadata entry that a new file cannot get, or that it gets although the caller leaves it out.
struct MetadataNotHeld {
  std::string key;
  absl::Status why;  // a sentence without the key. OK: it only describes the file that it is in, so nothing is lost
};

// What a format can hold.
struct ArchiveTraits {
  bool many_tensors = true;           // false: exactly one, and its name is that of the file
  bool empty_names = true;            // a tensor may have the name ""
  bool strides = false;               // tensors that are not row-major
  bool strides_only_permute = false;  // ... whose strides say only in what order the elements are stored, as in npy
  bool metadata = false;              // TensorMetadata of each tensor
  bool one_name = false;              // ... except a name that differs from that of the tensor
  bool file_metadata = false;         // FileMetadata
  bool values = false;                // values of other kinds than text: HoldsValue
  bool nested = false;                // ArchiveValues; CheckValue tells which
  bool levels = false;                // ArchiveWriterOptions::level: it compresses
  bool deltas = false;
  bool strings = false;
  bool padded_strings = false;  // ... but not all of them: CheckStrings
  bool aliases = false;         // ArchiveEntry::alias_of
  bool has_signature = true;    // false: only the extension or the user can tell the format
  bool is_written = true;       // false: Create fails
  bool is_edited = false;       // Edit is implemented
  bool needs_base = false;      // a new file of several tensors takes the rest from another one: source_path
  bool is_prefix = false;       // a path is the common beginning of the names of several files
};

// What a salvage saved, and what not (salvage_archive.h).
struct ArchiveSalvage {
  int64_t saved = 0;  // tensors
  // Names of saved tensors whose name and shape no checksum confirms (checkpoint/salvage.h).
  std::vector<std::string> unverified;
  std::vector<ArchiveDamage> lost;  // empty: all was saved
  // As ConvertReport::removed and ConvertReport::notes (convert_archives.h).
  std::vector<std::string> removed;
  std::vector<std::string> notes;
};

// What ArchiveFormat::Recognizes looks at.
struct ArchiveProbe {
  std::string path;
  std::shared_ptr<const ByteSource> file;  // null if there is no regular file at the path
  absl::string_view head;                  // the first bytes of the file, 4096 at most
  FileSystem* file_system;                 // has the file at the path and the files beside it
};

class ArchiveFormat {
 public:
  virtual ~ArchiveFormat() = default;

  virtual absl::string_view name() const = 0;  // "safetensors": what `--format` takes and `ls --json` prints
  std::string name_with_article() const;       // for sentences: "a checkpoint", "an npz"
  // Endings of file names, with the dot, lower-case: {".safetensors"}.
  virtual std::vector<absl::string_view> extensions() const = 0;
  // The beginning of the paths of archives that are not files ("unix:"). "" (the default): archives are files.
  virtual absl::string_view scheme() const { return ""; }
  virtual ArchiveTraits traits() const = 0;
  // True if the format can store tensors of this dtype. For strings, traits().strings says it.
  virtual bool HoldsDType(DType dtype) const = 0;
  // True if the format can store the elements of this dtype, but not the name of the dtype. The default: false.
  virtual bool StoresAsRawBytes(DType dtype) const;
  // True if the format can store all of this metadata of a tensor. The default: true if traits().metadata is true or
  // the metadata is empty.
  virtual bool HoldsMetadata(const TensorMetadata& metadata) const;
  // The entries of file metadata that a new file does not get as they are, if traits().file_metadata: those of the
  // sources and of `set` that it cannot hold, and those of `unset` that stay. Reads no tensors. Errors: those of the
  // file that the new one is made of. The default: none.
  virtual absl::StatusOr<std::vector<MetadataNotHeld>> CheckMetadata(const MetadataForFile& metadata) const;
  // True if the format keeps this value of a file, or this array that is still in a file, with its type. The default:
  // false; values that are text are then FileMetadata.
  virtual bool HoldsValue(absl::string_view name, Value value) const;
  // True if the format can store elements of this encoding (ArchiveEntry::encoding) as their encoded bytes
  // (ArchiveReader::AsStored). The default: false.
  virtual bool HoldsEncoding(absl::string_view encoding) const;
  // Checks the name and the shape of a tensor whose dtype the format holds. Reads no file. Errors: InvalidArgument,
  // which does not name the tensor. The default: OK.
  virtual absl::Status CheckEntry(const ArchiveEntry& entry) const;
  // Checks that the format can store these strings, if traits().padded_strings. Errors: as CheckEntry. The default: OK.
  virtual absl::Status CheckStrings(const TensorView& strings) const;

  // Checks that the format can store this value and all that it contains, if traits().nested. Errors: as CheckEntry.
  // The default: OK.
  virtual absl::Status CheckValue(Value value) const;

  // True if the content shows this format. Reads little.
  virtual bool Recognizes(const ArchiveProbe& probe) const = 0;
  // The paths of the archives of this format in `folder`, whose files are `names`. The default: the files with one of
  // the extensions.
  virtual std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                          FileSystem* file_system) const;

  // Errors: NotFound; DataLoss if the file is not of this format or is damaged.
  virtual absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                              const ArchiveReaderOptions& options) const = 0;
  // Opens an archive whose list of tensors is damaged with the tensors that can be found without it, for a salvage
  // (salvage_archive.h). Errors: those of Open, which is the default.
  virtual absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenDamaged(const std::string& path,
                                                                     const ArchiveReaderOptions& options) const;
  // Errors: AlreadyExists unless overwriting; Unimplemented for a format that is only read (the default).
  virtual absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                                const ArchiveWriterOptions& options) const;
  // Changes names and metadata of the archive at `path` (edit.h has the promises). Errors: Unimplemented for a format
  // whose archives are not edited (the default).
  virtual absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                              const FileEditOptions& options) const;
  // Saves what is whole of the archive at `path`, which may be too damaged to open, to another one of this format, as
  // SalvageArchive says (salvage_archive.h). Errors: NotFound if there is no such archive. NotFound, the default, also
  // for formats that need no Salvage, because Open lists what is left: a copy of what can be read salvages them.
  virtual absl::StatusOr<ArchiveSalvage> Salvage(const std::string& path, const std::string& to,
                                                 const ArchiveReaderOptions& read, const ArchiveWriterOptions& write,
                                                 const std::function<bool()>& keep_going) const;
};

namespace archive {
// For ArchiveFormat::CheckMetadata: the entries of the sources and of the caller that check(key, value) refuses.
std::vector<MetadataNotHeld> MetadataRefusedBy(
    const MetadataForFile& metadata, absl::FunctionRef<absl::Status(const std::string&, const std::string&)> check);

// True for the note in the metadata of safetensors files that names the framework of the tensors ("format": "pt"),
// which says nothing about a copy of them.
bool IsFrameworkNote(absl::string_view key, absl::string_view value);
}  // namespace archive

using ArchiveFormats = absl::Span<const ArchiveFormat* const>;

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_FORMAT_H_
