#include "tensorcask/serialize/checkpoint/parts.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/internal/target_check.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/checkpoint/write/remove_temporaries.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/device.h"

namespace tensorcask::checkpoint {
namespace {

constexpr size_t kIndexBlockBytes = size_t{16} << 10;  // as CheckpointWriterOptions::index_block_bytes

// The records of a part: a varint of these bits, then for each record, sorted by key, the bytes that its key shares
// with the key before, the bytes of the rest, the bytes of the value (varints), the rest and the value.
constexpr uint64_t kRequiresReaderV2 = 1;
constexpr uint64_t kHasDeltas = 2;

std::string EncodeRecords(const std::vector<const IndexItem*>& sorted) {
  uint64_t bits = 0;
  size_t bytes = kMaxVarintBytes;
  for (const IndexItem* const item : sorted) {
    if (item->requires_reader_v2) bits |= kRequiresReaderV2;
    if (item->is_delta) bits |= kHasDeltas;
    bytes += item->key.size() + item->value.size() + 6;
  }
  std::string out;
  out.reserve(bytes);
  AppendVarint(bits, &out);
  absl::string_view last;
  for (const IndexItem* const item : sorted) {
    const absl::string_view key = item->key;
    const size_t most = std::min(key.size(), last.size());
    const auto shared = static_cast<size_t>(
        std::mismatch(key.begin(), key.begin() + static_cast<ptrdiff_t>(most), last.begin()).first - key.begin());
    AppendVarint(shared, &out);
    AppendVarint(key.size() - shared, &out);
    AppendVarint(item->value.size(), &out);
    out.append(key.data() + shared, key.size() - shared);
    out += item->value;
    last = key;
  }
  return out;
}

// Visits the records of a part.
class RecordCursor {
 public:
  explicit RecordCursor(absl::string_view records) : rest_(records) { is_whole_ = ParseVarint(&rest_, &bits_); }

  uint64_t bits() const { return bits_; }
  // False after the last record, and where the records are cut short or not sorted (then is_whole() is false).
  bool Next() {
    if (!is_whole_ || rest_.empty()) return false;
    uint64_t shared = 0;
    uint64_t suffix = 0;
    uint64_t value = 0;
    is_whole_ = ParseVarint(&rest_, &shared) && ParseVarint(&rest_, &suffix) && ParseVarint(&rest_, &value) &&
                shared <= key_.size() && suffix <= rest_.size() && value <= rest_.size() - suffix;
    if (!is_whole_) return false;
    last_ = key_;
    key_.resize(shared);
    key_.append(rest_.data(), suffix);
    value_ = rest_.substr(suffix, value);
    rest_.remove_prefix(suffix + value);
    is_whole_ = key_ > last_;
    return is_whole_;
  }
  bool is_whole() const { return is_whole_; }
  absl::string_view key() const { return key_; }
  absl::string_view value() const { return value_; }

 private:
  absl::string_view rest_;
  uint64_t bits_ = 0;
  std::string key_;
  std::string last_;
  absl::string_view value_;
  bool is_whole_ = true;
};

bool IsWholeSlice(const TensorSlice& slice, const TensorShape& shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!slice.IsFullAt(axis) && slice.extent(axis).length != shape.dim(axis)) return false;
  }
  return true;
}

TensorMetadata WithDevice(TensorMetadata metadata, const TensorView& tensor) {
  if (metadata.device == Device()) metadata.device = tensor.device();
  return metadata;
}

PayloadLevel LevelFor(absl::string_view name, const CheckpointWriterOptions& options) {
  for (const LevelRule& rule : options.level_rules) {
    if (MatchesGlob(rule.glob, name)) return rule.level;
  }
  return options.payload.level;
}

}  // namespace

absl::Status CheckOtherCheckpoint(const std::string& target, const std::string& source,
                                  const CheckpointWriterOptions& options) {
  CASK_RETURN_IF_ERROR(CheckNewPrefix(target));
  CASK_RETURN_IF_ERROR(MakeFolderFor(IndexPath(target), options.sync, options.file_system));
  return CheckTarget(target, {source}, "the checkpoint that is read", options.overwrite, options.file_system);
}

absl::Status CheckNumDataFiles(const std::string& prefix, int num_data_files) {
  if (num_data_files >= 1 && num_data_files <= kMaxShards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(prefix, ": ", num_data_files, " data files; wanted 1 to ", kMaxShards));
}

PartWriter::PartWriter(std::string prefix, int part, int num_data_files, const CheckpointWriterOptions& options)
    : prefix_(std::move(prefix)),
      path_(DataPath(prefix_, part, num_data_files)),
      part_(part),
      options_(options),
      publish_({options.file_system, options.sync, options.overwrite}),
      payloads_(options.payload, /*num_threads=*/1) {}

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(const std::string& prefix, int part, int num_data_files,
                                                               const CheckpointWriterOptions& options) {
  std::unique_ptr<PartWriter> writer(new PartWriter(prefix, part, num_data_files, options));
  if (options.overwrite) writer->publish_.KeepPermissionsOf(IndexPath(prefix));
  CASK_ASSIGN_OR_RETURN(writer->data_, writer->publish_.Add(writer->path_));
  return writer;
}

absl::Status PartWriter::Add(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                             const TensorView& elements, const TensorMetadata& metadata) {
  const bool is_whole = IsWholeSlice(slice, full_shape);
  TensorJob job;
  job.item = &items_.emplace_back(is_whole ? std::string(name) : EncodeSliceKey(name, slice));
  job.shard = part_;
  job.level = LevelFor(name, options_);
  if (is_whole) {
    const TensorMetadata stored = WithDevice(metadata, elements);
    if (!stored.IsDefault()) job.metadata = std::make_unique<const TensorMetadata>(stored);
  }
  job.tensor = elements;
  const absl::Status status = WriteTensor(job, options_.alignment, &payloads_, data_);
  return status.ok() ? status : Annotate(status, absl::StrCat(prefix_, ": tensor ", Quoted(name)));
}

absl::Status PartWriter::AddSliced(absl::string_view name, DType dtype, const TensorShape& full_shape,
                                   absl::Span<const TensorSlice> slices, const TensorMetadata& metadata) {
  CheckpointEntry entry;
  entry.dtype = dtype;
  entry.shape = full_shape;
  entry.slices.assign(slices.begin(), slices.end());
  internal::ExtensionContent extension;
  extension.metadata = &metadata;
  if (DTypeNumber(dtype) >= kFirstOwnDTypeNumber) extension.dtype_number = DTypeNumber(dtype);
  items_.emplace_back(std::string(name)).value = EncodeEntry(entry, extension);
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartWriter::Finish() {
  std::vector<const IndexItem*> sorted;
  sorted.reserve(items_.size());
  for (const IndexItem& item : items_) sorted.push_back(&item);
  std::sort(sorted.begin(), sorted.end(), [](const IndexItem* a, const IndexItem* b) { return a->key < b->key; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->key == sorted[i - 1]->key) {
      return absl::AlreadyExistsError(absl::StrCat(path_, ": key ", Quoted(sorted[i]->key), " was added twice"));
    }
  }
  data_->ReleaseReserved();
  CASK_RETURN_IF_ERROR(data_->Flush(options_.sync));
  return EncodeRecords(sorted);
}

absl::Status PartWriter::Publish() {
  if (data_ != nullptr) id_ = DescribeFile(data_->path(), options_.file_system).value_or(FileInfo()).id;
  data_ = nullptr;
  const absl::Status status = publish_.Commit();
  published_ = status.ok();
  return status;
}

bool PartWriter::IsDataFileOurs() const {
  if (!id_.is_known()) return !options_.overwrite;
  ReadOptions read;
  read.file_system = options_.file_system;
  // A network file system describes a path as it was a moment ago, but opens the file that is there now.
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path_, read);
  return file.ok() && id_.Is(DescribeOpenFile(**file).value_or(FileInfo()).id);
}

void PartWriter::Remove() {
  publish_.Abandon();
  // With `overwrite` Commit leaves the file if only the last sync failed. No old index needs a file of this name, but
  // that of another save may, which began at the same time and chose the same names.
  const bool may_be_there = published_ || publish_.switch_may_exist();
  if (may_be_there && IsDataFileOurs()) RemoveFile(path_, options_.file_system).IgnoreError();
  published_ = false;
}

JointIndex::JointIndex(std::string prefix, int num_parts, const CheckpointWriterOptions& options)
    : prefix_(std::move(prefix)),
      num_parts_(num_parts),
      options_(options),
      publish_({options.file_system, options.sync, options.overwrite}) {}

absl::StatusOr<std::unique_ptr<JointIndex>> JointIndex::Begin(const std::string& prefix, int num_parts,
                                                              const CheckpointWriterOptions& options) {
  FileSystem* const files = options.file_system;
  CASK_RETURN_IF_ERROR(CheckNewPrefix(prefix));
  CASK_RETURN_IF_ERROR(CheckNoDevice(prefix, files));
  CASK_RETURN_IF_ERROR(MakeFolderFor(IndexPath(prefix), options.sync, files));
  CASK_RETURN_IF_ERROR(CheckNotBase(prefix, options.payload.base.get(), options.overwrite, files));
  RemoveTemporariesOf(prefix, /*always=*/options.overwrite, files);
  std::unique_ptr<JointIndex> joint(new JointIndex(prefix, num_parts, options));
  joint->num_data_files_ = num_parts;
  if (options.overwrite) {
    CASK_ASSIGN_OR_RETURN(joint->old_, OldCheckpoint::Open(prefix, files));
    CASK_ASSIGN_OR_RETURN(joint->num_data_files_, joint->old_->ChooseNumShards(num_parts));
  }
  CASK_RETURN_IF_ERROR(CheckNumDataFiles(prefix, joint->num_data_files_));
  // All data files that no process writes come before the index, which is the switch.
  for (int shard = num_parts; shard < joint->num_data_files_; ++shard) {
    CASK_RETURN_IF_ERROR(joint->publish_.Add(DataPath(prefix, shard, joint->num_data_files_)).status());
  }
  CASK_ASSIGN_OR_RETURN(joint->index_, joint->publish_.Add(IndexPath(prefix)));
  return joint;
}

absl::Status JointIndex::WriteIndex(absl::Span<const std::string> parts, uint64_t num_records) {
  const auto broken = [&](size_t part, absl::string_view what) {
    return absl::InternalError(absl::StrCat(prefix_, ": the records of rank ", part, " ", what));
  };
  std::vector<RecordCursor> cursors;
  cursors.reserve(parts.size());
  uint64_t bits = 0;
  for (const std::string& part : parts) {
    cursors.emplace_back(part);
    bits |= cursors.back().bits();
  }
  const auto after = [&](size_t a, size_t b) { return cursors[a].key() > cursors[b].key(); };
  std::vector<size_t> heap;
  const auto push = [&](size_t part) -> absl::Status {
    if (cursors[part].Next()) {
      heap.push_back(part);
      std::push_heap(heap.begin(), heap.end(), after);
    }
    return cursors[part].is_whole() ? absl::OkStatus() : broken(part, "are cut short or not sorted");
  };
  for (size_t part = 0; part < cursors.size(); ++part) CASK_RETURN_IF_ERROR(push(part));

  TableOptions table_options;
  table_options.block_bytes = options_.index_block_bytes != 0 ? options_.index_block_bytes : kIndexBlockBytes;
  TableWriter table(index_, table_options);
  const std::string base =
      (bits & kHasDeltas) != 0 ? BaseBeside(index_->path(), options_.payload.base.get(), options_.file_system) : "";
  CASK_RETURN_IF_ERROR(table.Add("", EncodeHeader(num_data_files_, (bits & kRequiresReaderV2) != 0, base)));
  std::string last;
  uint64_t written = 0;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const size_t part = heap.back();
    heap.pop_back();
    const RecordCursor& cursor = cursors[part];
    if (cursor.key() == last) return broken(part, absl::StrCat("have key ", Quoted(last), ", as those of another"));
    CASK_RETURN_IF_ERROR(table.Add(cursor.key(), cursor.value()));
    last.assign(cursor.key().data(), cursor.key().size());
    ++written;
    CASK_RETURN_IF_ERROR(push(part));
  }
  if (written != num_records) {
    return absl::InternalError(
        absl::StrCat(prefix_, ": the processes have ", written, " records; ", num_records, " are planned"));
  }
  CASK_RETURN_IF_ERROR(table.Finish());
  CASK_RETURN_IF_ERROR(index_->Flush(options_.sync));
  if (!old_.has_value()) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(old_->CheckUnchanged());
  CASK_ASSIGN_OR_RETURN(replaced_, old_->Replaced(num_data_files_));
  return absl::OkStatus();
}

absl::Status JointIndex::CheckPartIsThere(int part) const {
  const std::string path = DataPath(prefix_, part, num_data_files_);
  CASK_ASSIGN_OR_RETURN(const bool exists, HasFileAt(path, options_.file_system));
  if (exists) return absl::OkStatus();
  // A network file system may still answer that there was no such name a moment ago, but it reads a folder anew.
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(FolderOf(path), options_.file_system));
  if (std::binary_search(names.begin(), names.end(), path.substr(path.rfind('/') + 1))) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   ": another process wrote this data file, and the one that writes the index does not find it; "
                   "all processes need the same folder"));
}

absl::Status JointIndex::Publish() {
  index_ = nullptr;
  // In an object store, several at the same time.
  std::vector<absl::Status> found(static_cast<size_t>(num_parts_));
  CASK_RETURN_IF_ERROR(ParallelFor(options_.file_system->read_shape().in_flight, found.size(),
                                   [&](size_t part) { found[part] = CheckPartIsThere(static_cast<int>(part)); }));
  for (const absl::Status& status : found) CASK_RETURN_IF_ERROR(status);
  if (old_.has_value()) {
    CASK_RETURN_IF_ERROR(old_->CheckUnchanged());
    for (const std::string& path : replaced_.removed) publish_.RemoveAfterwards(path);
  }
  return publish_.Commit();
}

}  // namespace tensorcask::checkpoint
