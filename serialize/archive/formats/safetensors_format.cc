#include "tensorcask/serialize/archive/formats/safetensors_format.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/archive/formats/internal/shard_name.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/safetensors/edit_files.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/serialize/safetensors/shard_files.h"
#include "tensorcask/serialize/safetensors/sharding_info.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr absl::string_view kExtension = ".safetensors";
constexpr absl::string_view kIndexExtension = ".safetensors.index.json";
constexpr absl::string_view kIndexEnding = ".index.json";  // after the name of the model

class SafetensorsArchiveReader final : public archive::ListedReader<SafetensorsReader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options) {
    SafetensorsReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.lenient = options.lenient;
    read.verify = options.verify_checksums;
    CASK_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(path, read));
    const std::shared_ptr<ListingBudget> listing = options.listing_or_new();
    listing->AddIndex(reader.header_bytes());
    std::vector<ArchiveEntry> entries;
    entries.reserve(reader.entries().size());
    for (const SafetensorsEntry& stored : reader.entries()) {
      ArchiveEntry entry;
      entry.name = stored.name;
      entry.dtype = stored.dtype;
      entry.shape = stored.shape;
      entry.encoding = absl::IsDataLoss(stored.read_status)     ? "not readable"
                       : !stored.read_status.ok()               ? "unknown"
                       : SafetensorsDTypeBits(stored.dtype) < 8 ? "packed"
                                                                : "plain";
      entry.reads_in_blocks = SafetensorsDTypeBits(stored.dtype) >= 8;
      entry.read_status = stored.read_status;
      entry.stored_bytes = stored.stored_bytes;
      entry.shard = stored.shard;
      if (!absl::IsDataLoss(stored.read_status)) entry.offset = stored.offset;
      entry.alias_of = stored.alias_of;
      CASK_RETURN_IF_ERROR(Annotate(listing->Charge(EntryMemory(entry)), path));
      entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.name < b.name; });
    SetStorageIds(&entries);
    return std::unique_ptr<ArchiveReader>(new SafetensorsArchiveReader(std::move(reader), std::move(entries)));
  }

  absl::string_view format() const override { return "safetensors"; }
  const FileMetadata& file_metadata() const override { return reader_.metadata(); }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    CASK_ASSIGN_OR_RETURN(const SafetensorsCounts found, reader_.VerifyAll([&](const SafetensorsDamage& damage) {
      ++(damage.tensor.empty() ? counts.damaged_elsewhere : counts.damaged);
      report({damage.tensor, damage.file, damage.offset, damage.status});
    }));
    counts.damaged += found.lost;
    counts.not_checked = found.not_checked;
    counts.whole = static_cast<int64_t>(entries_.size()) - counts.damaged - counts.not_checked;
    counts.notes = reader_.notes();
    for (const std::string& note : NotesOfPart()) counts.notes.push_back(absl::StrCat(path(), ": ", note));
    if (found.without_checksum > 0) {
      counts.notes.push_back(archive::NoChecksums(path(), found.without_checksum));
    }
    return counts;
  }
  std::vector<std::string> files() const override {
    std::vector<std::string> files = {reader_.path()};
    for (int shard = 0; shard < reader_.num_shards(); ++shard) {
      if (reader_.ShardPath(shard) != reader_.path()) files.push_back(reader_.ShardPath(shard));
    }
    return files;
  }
  int num_shards() const override { return reader_.num_shards(); }
  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& entry) const override {
    return reader_.ShardSource(entry.shard.value_or(0));
  }
  bool IsReadInPlace(const ArchiveEntry& entry) const override { return SafetensorsDTypeBits(entry.dtype) >= 8; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = reader_.notes();
    for (std::string& note : NotesOfPart()) notes.push_back(std::move(note));
    return notes;
  }

 private:
  // An alias has the number of the stored tensor, which is its place in the list. Requires: they are sorted.
  static void SetStorageIds(std::vector<ArchiveEntry>* entries) {
    for (size_t i = 0; i < entries->size(); ++i) {
      ArchiveEntry& entry = (*entries)[i];
      if (entry.stored_bytes == 0) continue;
      entry.storage_id = i;
      if (entry.alias_of.empty()) continue;
      const auto stored =
          std::lower_bound(entries->begin(), entries->end(), entry.alias_of,
                           [](const ArchiveEntry& a, const std::string& name) { return a.name < name; });
      if (stored != entries->end() && stored->name == entry.alias_of) {
        entry.storage_id = static_cast<uint64_t>(stored - entries->begin());
      }
    }
  }

  // That the file is one of several, which hold the tensors together.
  std::vector<std::string> NotesOfPart() const {
    if (reader_.metadata().count(std::string(safetensors::kShardingInfoKey)) == 0) return archive::NotesOfName(path());
    return {absl::StrCat("is one file of a distributed checkpoint (", safetensors::kShardingInfoKey,
                         "): its tensors may be parts of tensors, which its folder has joined")};
  }

  SafetensorsArchiveReader(SafetensorsReader reader, std::vector<ArchiveEntry> entries)
      : ListedReader(std::move(reader), std::move(entries)) {}

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    return reader_.OpenStream(entry.name);
  }
};

class SafetensorsArchiveWriter final : public ArchiveWriter {
 public:
  SafetensorsArchiveWriter(FileSystem* file_system, SafetensorsWriter writer)
      : file_system_(file_system), writer_(std::move(writer)) {}

  absl::Status Declare(const ArchiveEntry& entry) override {
    if (!entry.alias_of.empty()) return writer_.AddAlias(entry.name, entry.alias_of);
    return writer_.Declare(entry.name, entry.dtype, entry.shape);
  }
  absl::StatusOr<ReplacedFiles> Start() override { return writer_.Start(); }
  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return writer_.Add(entry.name, tensor.view);
  }
  bool writes_in_blocks(const ArchiveEntry& entry) const override { return SafetensorsDTypeBits(entry.dtype) >= 8; }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& /*metadata*/, const TensorSlice& slice,
                        const TensorView& elements) override {
    return writer_.AddSlice(entry.name, slice, elements);
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(writer_.Finish());
    uint64_t bytes = 0;
    for (const std::string& path : writer_.files()) bytes += BytesOfFile(path, file_system_);
    set_removed_files(writer_.removed_files());
    return bytes;
  }

  FileSystem* const file_system_;
  SafetensorsWriter writer_;
};

}  // namespace

ArchiveTraits SafetensorsArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.file_metadata = true;
  traits.aliases = true;
  traits.is_edited = true;
  return traits;
}

bool SafetensorsArchiveFormat::HoldsDType(DType dtype) const { return SafetensorsDTypeBits(dtype) > 0; }

absl::StatusOr<std::vector<MetadataNotHeld>> SafetensorsArchiveFormat::CheckMetadata(
    const MetadataForFile& metadata) const {
  return archive::MetadataRefusedBy(metadata, SafetensorsWriter::CheckMetadata);
}

absl::Status SafetensorsArchiveFormat::CheckEntry(const ArchiveEntry& entry) const {
  return SafetensorsWriter::CheckTensor(entry.name, entry.dtype, entry.shape);
}

bool SafetensorsArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  if (probe.file != nullptr) {
    const bool is_text = absl::StartsWith(absl::StripLeadingAsciiWhitespace(probe.head), "{");
    return safetensors::IsIndexName(safetensors::LastName(probe.path)) ||
           (is_text && LookAtContent(probe.head, probe.file->size_bytes()).format == name()) ||
           SafetensorsReader::LooksLikeSafetensors(probe.head, probe.file->size_bytes());
  }
  // A model in several files may be named as if it were one.
  return absl::EndsWith(probe.path, ".safetensors") &&
         IsThere(absl::StrCat(probe.path, ".index.json"), probe.file_system);
}

std::vector<std::string> SafetensorsArchiveFormat::FindIn(const std::string& folder,
                                                          absl::Span<const std::string> names,
                                                          FileSystem* file_system) const {
  bool has_index = false;
  std::set<std::string> listed;  // by an index
  for (const std::string& name : names) {
    if (!safetensors::IsIndexName(name)) continue;
    has_index = true;
    listed.merge(safetensors::FilesOfModel(absl::StrCat(folder, "/", name), file_system));
  }
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const bool is_shard = listed.count(name) != 0 || (has_index && safetensors::IsShardName(name));
    const bool is_model = safetensors::IsIndexName(name) || (!is_shard && absl::EndsWithIgnoreCase(name, kExtension));
    if (is_model) found.push_back(absl::StrCat(folder, "/", name));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> SafetensorsArchiveFormat::Open(
    const std::string& path, const ArchiveReaderOptions& options) const {
  return SafetensorsArchiveReader::Open(path, options);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> SafetensorsArchiveFormat::Create(
    const std::string& path, const ArchiveWriterOptions& options) const {
  SafetensorsWriterOptions write;
  write.file_system = options.file_system;
  write.alignment = options.alignment;
  write.checksums = options_.checksums;
  write.metadata = options.file_metadata;
  // Hugging Face's transformers refuses a file that has metadata without `format`: here, values of a file without it.
  if (write.metadata.count("tensorcask.values") != 0) write.metadata.emplace("format", "pt");
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  write.max_shard_bytes = options_.max_shard_bytes;
  write.always_index = absl::EndsWithIgnoreCase(path, kIndexExtension);
  if (write.always_index && write.max_shard_bytes == 0) write.max_shard_bytes = kShardBytes;
  const std::string model = write.always_index ? path.substr(0, path.size() - kIndexEnding.size()) : path;
  CASK_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(model, std::move(write)));
  return std::unique_ptr<ArchiveWriter>(new SafetensorsArchiveWriter(options.file_system, std::move(writer)));
}

absl::StatusOr<FileEditResult> SafetensorsArchiveFormat::Edit(const std::string& path, const FileEdits& edits,
                                                              const FileEditOptions& options) const {
  return safetensors::EditSafetensors(path, edits, options);
}

}  // namespace tensorcask
