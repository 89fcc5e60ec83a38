#include "tensorcask/serialize/archive/formats/checkpoint_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/archive/formats/internal/slice_order.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/edit_index.h"
#include "tensorcask/serialize/checkpoint/index_walk.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {
namespace {

// True for the magic number at the end of a table: of an index, and of a V1 checkpoint.
bool EndsAsTable(const ByteSource& file) {
  constexpr size_t kMagicBytes = 8;
  constexpr absl::string_view kMagic("\x57\xfb\x80\x8b\x24\x75\x47\xdb", kMagicBytes);
  if (file.size_bytes() < kMagicBytes) return false;
  char magic[kMagicBytes];
  return file.ReadAt(file.size_bytes() - kMagicBytes, absl::MakeSpan(magic)).ok() &&
         absl::string_view(magic, kMagicBytes) == kMagic;
}

// The names that V1 checkpoints have: "model", "model.ckpt", "model.ckpt-100", "step-1.5", "model.ckpt-00000-of-00002".
bool HasNameOfV1(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos) return true;
  const absl::string_view extension = name.substr(dot + 1);
  return extension == "ckpt" || absl::StartsWith(extension, "ckpt-") ||
         (!extension.empty() && absl::ascii_isdigit(static_cast<unsigned char>(extension[0])));
}

bool IsV1(const std::string& path, FileSystem* file_system) {
  ReadOptions read;
  read.file_system = file_system;
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, read);
  return file.ok() && EndsAsTable(**file);
}

// Where the checkpoint may be that the state file of `folder` calls the latest. A folder that was copied or moved still
// names its old place, so a checkpoint of the same name in this folder comes before that of an absolute path.
std::vector<std::string> LatestPaths(const std::string& folder, const std::string& latest) {
  const std::string here = absl::StrCat(folder, "/", latest.substr(latest.rfind('/') + 1));
  if (absl::StartsWith(latest, "/")) return {here, latest};
  return {absl::StrCat(folder, "/", latest), here};
}

// Why the tensor is only listed, as far as the index tells.
absl::Status StatusByIndex(const CheckpointEntry& entry) {
  if (entry.form == EntryForm::kUnknown) {
    return absl::UnimplementedError("has a dtype that this version does not know");
  }
  if (entry.slices.empty()) return absl::OkStatus();
  int64_t stored = 0;  // the pieces do not overlap, or reading reports it
  for (const TensorSlice& slice : entry.slices) {
    const absl::StatusOr<TensorShape> shape = slice.Apply(entry.shape);
    if (shape.ok()) stored += std::min(shape->num_elements(), entry.shape.num_elements() - stored);
  }
  if (stored == entry.shape.num_elements()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("is incomplete: the checkpoint has ", stored, " of its ",
                                                    entry.shape.num_elements(),
                                                    " elements, in parts that can be read one by one"));
}

// A delta reads its whole base for each slice, and the pieces of a sliced tensor have checksums of their own, which a
// slice need not cover. A V1 checkpoint has no checksum of a tensor, and finds a slice by reading the tensor. All of
// them are read whole.
bool ReadsInBlocks(const CheckpointEntry& entry, bool is_version_one) {
  if (is_version_one || ElementSize(entry.dtype) == 0 || !entry.strides.empty()) return false;
  return entry.form == EntryForm::kPlain || entry.form == EntryForm::kExtensionOnly ||
         (entry.payload != nullptr && !entry.payload->is_delta);
}

ArchiveEntry ToArchiveEntry(const CheckpointEntry& from, bool is_version_one) {
  ArchiveEntry entry;
  entry.name = from.name;
  entry.dtype = from.dtype;
  entry.shape = from.shape;
  entry.read_status = StatusByIndex(from);
  entry.encoding = std::string(EntryFormName(from.form));
  if (from.payload != nullptr) {
    absl::StrAppend(&entry.encoding, " ", PayloadLevelName(static_cast<PayloadLevel>(from.payload->level)),
                    from.payload->is_delta ? " delta" : "");
    entry.decoded_bytes = from.payload->decoded_bytes();
  }
  entry.reads_in_blocks = ReadsInBlocks(from, is_version_one);
  entry.pieces = static_cast<int>(from.slices.size());
  entry.strides = from.strides;
  entry.has_metadata = from.has_metadata;
  entry.stored_bytes = from.stored_bytes;
  entry.shard = from.shard;
  entry.offset = from.offset;
  return entry;
}

// A V1 checkpoint is one file, which has the index and the elements.
bool IsVersionOne(const CheckpointReader& reader) {
  return reader.num_shards() == 1 && reader.DataPath(0) == reader.prefix();
}

// Which data files are missing, or are no files.
class MissingFiles {
 public:
  MissingFiles(const CheckpointReader& reader, FileSystem* files) : reader_(reader), file_system_(files) {}

  // DataLoss if the data file is one of them.
  const absl::Status& Check(int shard) {
    const auto [found, is_new] = files_.try_emplace(shard);
    if (!is_new) return found->second;
    const std::string path = reader_.DataPath(shard);
    const absl::StatusOr<FileInfo> file = DescribeFile(path, file_system_);
    const bool exists = file.ok();
    if (!exists || file->type != FileInfo::Type::kRegular) {
      found->second = MarkDamagedPart(absl::DataLossError(
          absl::StrCat(path, exists ? ": is not a regular file" : ": is missing", "; the index names ",
                       reader_.num_shards(), reader_.num_shards() == 1 ? " data file" : " data files")));
    }
    return found->second;
  }

 private:
  const CheckpointReader& reader_;
  FileSystem* const file_system_;
  std::map<int, absl::Status> files_;  // by shard
};

uint64_t IndexBytes(const std::string& path, const ReadOptions& read) {
  for (const std::string& name : {path, absl::StrCat(path, ".index")}) {
    const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(name, read);
    if (file.ok()) return (*file)->size_bytes();
  }
  return 0;
}

// The list of all tensors. A name is in the list, in the index of the reader and in the writer of what is copied.
// Errors: ResourceExhausted before the list takes more than `listing` allows.
absl::StatusOr<std::vector<ArchiveEntry>> ListEntries(const std::string& path, const CheckpointReader& reader,
                                                      const ReadOptions& read, ListingBudget* listing) {
  constexpr uint64_t kNameCopies = 4;
  listing->AddIndex(IndexBytes(path, read));
  std::vector<ArchiveEntry> entries;
  MissingFiles files(reader, read.file_system);
  const bool is_version_one = IsVersionOne(reader);
  absl::Status within;
  const absl::Status listed = reader.ForEachEntry([&](const CheckpointEntry& entry) {
    const auto rank = static_cast<uint64_t>(entry.shape.rank());
    within = listing->Charge(sizeof(ArchiveEntry) + kNameCopies * entry.name.size() + rank * sizeof(int64_t));
    if (!within.ok()) return within;
    entries.push_back(ToArchiveEntry(entry, is_version_one));
    // The pieces of a sliced tensor may lie in any file: reading them tells. That of V1 is open.
    if (entry.slices.empty() && !is_version_one) entries.back().read_status.Update(files.Check(entry.shard));
    return absl::OkStatus();
  });
  if (!within.ok()) return Annotate(within, reader.prefix());
  CASK_RETURN_IF_ERROR(listed);
  return entries;
}

class CheckpointArchiveReader final : public archive::ForwardingReader<CheckpointReader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options, bool keep_entries) {
    CheckpointReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.base = options.base;
    if (!options.verify_checksums) read.verify = Verify::kNever;
    CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open(path, read));
    if (options.read.source != nullptr && !IsVersionOne(reader)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": is the index of a checkpoint, whose tensors are in other files; open the checkpoint by its path"));
    }
    std::vector<ArchiveEntry> entries;
    if (keep_entries) {
      const std::shared_ptr<ListingBudget> listing = options.listing_or_new();
      CASK_ASSIGN_OR_RETURN(entries, ListEntries(path, reader, read.read, listing.get()));
    }
    return std::unique_ptr<ArchiveReader>(
        new CheckpointArchiveReader(path, std::move(reader), options, keep_entries, std::move(entries)));
  }

  absl::string_view format() const override { return "checkpoint"; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  absl::Status ForEachEntry(absl::FunctionRef<absl::Status(const ArchiveEntry&)> fn) const override {
    const bool is_version_one = IsVersionOne(reader_);
    return reader_.ForEachEntry(
        [&](const CheckpointEntry& entry) { return fn(ToArchiveEntry(entry, is_version_one)); });
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    return reader_.ReadWithMetadata(name);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override { return reader_.Metadata(name); }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    std::set<std::string> damaged;
    CASK_ASSIGN_OR_RETURN(const CheckpointCounts found, reader_.VerifyAll([&](const CheckpointDamage& damage) {
      if (absl::IsFailedPrecondition(damage.status)) {
        ++counts.not_readable;
      } else if (absl::IsResourceExhausted(damage.status)) {
        ++counts.past_limit;
      } else if (damage.tensor.empty()) {
        ++counts.damaged_elsewhere;
      } else {
        damaged.insert(damage.tensor);
      }
      report({damage.tensor, damage.file, damage.offset, damage.status});
    }));
    counts.damaged = static_cast<int64_t>(damaged.size());
    counts.whole = found.whole;
    counts.not_checked = found.not_checked;
    // Their parts are whole.
    const absl::Status listed = reader_.ForEachEntry([&](const CheckpointEntry& entry) {
      counts.incomplete += absl::IsFailedPrecondition(StatusByIndex(entry)) && damaged.count(entry.name) == 0;
      return absl::OkStatus();
    });
    if (!listed.ok()) counts.incomplete = 0;  // damage of the index, which is reported above
    counts.whole -= counts.incomplete;
    counts.without_base = found.without_base;
    counts.notes = found.notes;
    return counts;
  }

  absl::StatusOr<std::vector<std::string>> OptimizerSlots() const override {
    return tensorcask::OptimizerSlots(reader_);
  }

  std::vector<std::string> files() const override {
    std::vector<std::string> files;
    if (!IsVersionOne(reader_)) files.push_back(absl::StrCat(reader_.prefix(), ".index"));
    for (int shard = 0; shard < reader_.num_shards(); ++shard) files.push_back(reader_.DataPath(shard));
    const std::string base = BasePrefix();
    if (!base.empty()) files.push_back(absl::StrCat(base, ".index"));
    return files;
  }
  int num_shards() const override { return reader_.num_shards(); }
  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& entry) const override {
    return reader_.FileToPlan(entry.shard.value_or(0));
  }
  ReadPlan::Step StepOf(const ArchiveEntry* entry) const override {
    const bool is_sliced = entry != nullptr && entry->pieces > 0;
    return is_sliced ? reader_.PiecesToPlan(entry->name) : ArchiveReader::StepOf(entry);
  }
  void OpenFilesOf(absl::Span<const ArchiveEntry* const> entries) const override {
    std::vector<int> shards;
    for (const ArchiveEntry* entry : entries) {
      if (entry != nullptr && entry->shard.has_value() && entry->pieces == 0) shards.push_back(*entry->shard);
    }
    reader_.OpenTogether(shards);
  }
  bool IsReadInPlace(const ArchiveEntry& entry) const override {
    return entry.pieces == 0 && reader_.IsReadInPlace(entry.name);
  }

 private:
  absl::StatusOr<Target> TargetOf(absl::string_view name) const override {
    if (has_entries_) CASK_RETURN_IF_ERROR(Find(name).status());  // its error names similar tensors
    return Target{&reader_, name};
  }

  // Chunks of encoded tensors have checksums of their own: they are read in slices.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    if (entry.decoded_bytes.has_value()) return nullptr;
    return reader_.OpenStream(entry.name);
  }

  CheckpointArchiveReader(std::string path, CheckpointReader reader, const ArchiveReaderOptions& options,
                          bool keep_entries, std::vector<ArchiveEntry> entries)
      : path_(std::move(path)),
        reader_(std::move(reader)),
        has_entries_(keep_entries),
        base_(options.base),
        file_system_(options.read.file_system),
        entries_(std::move(entries)) {}

  // Of the base that deltas are read with; "" if there is none in a file.
  std::string BasePrefix() const {
    if (base_ == nullptr) return checkpoint::BasePrefixOf(reader_.prefix(), file_system_).value_or("");
    const std::optional<BaseLookup::Location> location = base_->base_location();
    return location.has_value() ? location->prefix : "";
  }

  const std::string path_;
  const CheckpointReader reader_;
  const bool has_entries_;
  const std::shared_ptr<const BaseLookup> base_;  // null: the one that the index names
  FileSystem* const file_system_;
  const std::vector<ArchiveEntry> entries_;
};

class CheckpointArchiveWriter final : public ArchiveWriter {
 public:
  CheckpointArchiveWriter(std::string prefix, const ArchiveWriterOptions& options, CheckpointWriter writer)
      : prefix_(std::move(prefix)),
        file_system_(options.file_system),
        num_shards_(options.num_shards),
        is_stored_(options.level == PayloadLevel::kStored),
        writer_(std::move(writer)) {}

  absl::Status Declare(const ArchiveEntry& entry) override {
    CASK_ANNOTATE_IF_ERROR(CheckpointWriter::CheckName(entry.name), prefix_);
    if (DTypeNumber(entry.dtype) < kFirstOwnDTypeNumber) return absl::OkStatus();
    if (num_own_++ == 0) own_ = absl::StrCat(Quoted(entry.name), " is ", DTypeName(entry.dtype));
    return absl::OkStatus();
  }
  absl::StatusOr<ReplacedFiles> Start() override {
    CASK_ASSIGN_OR_RETURN(ReplacedFiles replaced, writer_.Replaced());
    if (num_own_ > 0) {
      replaced.notes.push_back(
          absl::StrCat(prefix_, ": TensorFlow refuses this checkpoint, also its other tensors: ", own_,
                       ", which it lacks", num_own_ > 1 ? absl::StrCat(" (one of ", num_own_, " such tensors)") : ""));
    }
    return replaced;
  }

  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return writer_.Add(entry.name, tensor.view, Options(entry, tensor.metadata));
  }
  // Encoding looks at samples of the whole tensor before it writes.
  bool writes_in_blocks(const ArchiveEntry& entry) const override {
    return is_stored_ && IsFixedSize(entry.dtype) && entry.strides.empty();
  }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    if (!writes_in_blocks(entry)) return ArchiveWriter::AddSlice(entry, metadata, slice, elements);
    CASK_ASSIGN_OR_RETURN(const archive::SliceOrder::Step step, order_.Next(entry, slice, elements));
    if (step.is_first) {
      CASK_RETURN_IF_ERROR(writer_.BeginTensor(entry.name, entry.dtype, entry.shape, Options(entry, metadata)));
      if (entry.shape.num_elements() == 0) return absl::OkStatus();
    }
    return writer_.AddBlock(elements);
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(order_.CheckComplete());
    CASK_RETURN_IF_ERROR(writer_.Finish());
    set_removed_files(writer_.removed_files());
    CheckpointReaderOptions read;
    read.read.file_system = file_system_;
    CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix_, read));
    uint64_t bytes = BytesOfFile(absl::StrCat(prefix_, ".index"), file_system_);
    for (int shard = 0; shard < reader.num_shards(); ++shard)
      bytes += BytesOfFile(reader.DataPath(shard), file_system_);
    return bytes;
  }

  CheckpointAddOptions Options(const ArchiveEntry& entry, const TensorMetadata& metadata) const {
    CheckpointAddOptions options;
    options.shard = std::min(entry.shard.value_or(0), num_shards_ - 1);
    options.metadata = metadata;
    options.layout = StoredLayout::kPreserve;
    return options;
  }

  const std::string prefix_;
  FileSystem* const file_system_;
  const int num_shards_;
  const bool is_stored_;  // no tensor is encoded
  CheckpointWriter writer_;
  archive::SliceOrder order_;
  std::string own_;      // the first tensor of a dtype that TensorFlow lacks
  int64_t num_own_ = 0;  // how many there are
};

}  // namespace

ArchiveTraits CheckpointArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.empty_names = false;
  traits.strides = true;
  traits.metadata = true;
  traits.levels = true;
  traits.deltas = true;
  traits.strings = true;
  traits.is_prefix = true;
  traits.is_edited = true;
  return traits;
}

absl::Status CheckpointArchiveFormat::CheckEntry(const ArchiveEntry& entry) const {
  return entry.name.empty() ? absl::OkStatus() : CheckpointWriter::CheckName(entry.name);  // traits().empty_names
}

bool CheckpointArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  if (IsThere(absl::StrCat(probe.path, ".index"), probe.file_system)) return true;
  return probe.file != nullptr && EndsAsTable(*probe.file);
}

std::vector<std::string> CheckpointArchiveFormat::FindIn(const std::string& folder, absl::Span<const std::string> names,
                                                         FileSystem* file_system) const {
  const auto has = [&](absl::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("checkpoint")) {
    const absl::StatusOr<CheckpointState> state = ReadCheckpointState(absl::StrCat(folder, "/checkpoint"), file_system);
    if (state.ok() && !state->latest.empty()) {
      for (const std::string& latest : LatestPaths(folder, state->latest)) {
        if (IsThere(absl::StrCat(latest, ".index"), file_system) || IsV1(latest, file_system)) return {latest};
      }
    }
  }
  if (has("saved_model.pb") && has("variables")) {
    const std::string variables = absl::StrCat(folder, "/variables/variables");
    if (IsThere(absl::StrCat(variables, ".index"), file_system)) return {variables};
  }
  std::vector<std::string> found;
  for (const std::string& name : names) {
    std::string path = absl::StrCat(folder, "/", absl::StripSuffix(name, ".index"));
    if (absl::EndsWith(name, ".index") || (HasNameOfV1(name) && IsV1(path, file_system)))
      found.push_back(std::move(path));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> CheckpointArchiveFormat::Open(
    const std::string& path, const ArchiveReaderOptions& options) const {
  return CheckpointArchiveReader::Open(path, options, options_.keep_entries);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> CheckpointArchiveFormat::Create(
    const std::string& path, const ArchiveWriterOptions& options) const {
  CheckpointWriterOptions write;
  write.file_system = options.file_system;
  write.num_shards = options.num_shards;
  write.alignment = options.alignment;
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  write.payload.level = options.level;
  write.payload.base = options.base;
  write.num_threads = options.num_threads;
  const std::string prefix(absl::StripSuffix(path, ".index"));
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, write));
  return std::unique_ptr<ArchiveWriter>(new CheckpointArchiveWriter(prefix, options, std::move(writer)));
}

absl::StatusOr<FileEditResult> CheckpointArchiveFormat::Edit(const std::string& path, const FileEdits& edits,
                                                             const FileEditOptions& options) const {
  return checkpoint::EditCheckpoint(path, edits, options);
}

absl::StatusOr<ArchiveSalvage> CheckpointArchiveFormat::Salvage(const std::string& path, const std::string& to,
                                                                const ArchiveReaderOptions& read,
                                                                const ArchiveWriterOptions& write,
                                                                const std::function<bool()>& keep_going) const {
  CheckpointReaderOptions from;
  from.read = read.read;
  from.limits = read.limits;
  from.base = read.base;
  CheckpointWriterOptions into;
  into.overwrite = write.overwrite;
  into.sync = write.sync;
  CASK_ASSIGN_OR_RETURN(SalvageReport report,
                        SalvageCheckpoint(path, std::string(absl::StripSuffix(to, ".index")), from, into, keep_going));
  ArchiveSalvage salvage;
  salvage.saved = report.saved;
  salvage.unverified = std::move(report.unverified);
  salvage.removed = std::move(report.removed);
  salvage.notes = std::move(report.notes);
  for (CheckpointDamage& one : report.lost) {
    salvage.lost.push_back({std::move(one.tensor), std::move(one.file), one.offset, std::move(one.status)});
  }
  return salvage;
}

}  // namespace tensorcask
