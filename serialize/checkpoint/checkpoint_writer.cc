#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/internal/old_checkpoint.h"
#include "tensorcask/serialize/checkpoint/internal/target_check.h"
#include "tensorcask/serialize/checkpoint/write/index_writer.h"
#include "tensorcask/serialize/checkpoint/write/open_tensor.h"
#include "tensorcask/serialize/checkpoint/write/remove_temporaries.h"
#include "tensorcask/serialize/checkpoint/write/shard_payloads.h"
#include "tensorcask/serialize/checkpoint/write/tensor_job.h"
#include "tensorcask/serialize/checkpoint/write/write_queue.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/wire/message/element_plan.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {
namespace {

using checkpoint::IndexItem;
using checkpoint::OldCheckpoint;
using checkpoint::ShardPayloads;
using checkpoint::TensorJob;
using checkpoint::WriteQueue;

constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
constexpr int kMaxThreads = 1024;
constexpr uint64_t kMaxWaitingBytes = uint64_t{64} << 20;  // for one of several threads

absl::Status CheckLevel(PayloadLevel level) { return PayloadOptions{level}.Validate(); }

absl::Status CheckOptions(const CheckpointWriterOptions& options) {
  if (options.num_shards < 1 || options.num_shards > checkpoint::kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards is ", options.num_shards, "; wanted 1 to ", checkpoint::kMaxShards));
  }
  if (options.alignment < 1 || options.alignment > kMaxAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment is ", options.alignment, "; wanted 1 to ", kMaxAlignment));
  }
  if (options.num_threads < 1 || options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_threads is ", options.num_threads, "; wanted 1 to ", kMaxThreads));
  }
  CASK_RETURN_IF_ERROR(options.payload.Validate());
  for (const LevelRule& rule : options.level_rules) CASK_RETURN_IF_ERROR(CheckLevel(rule.level));
  return absl::OkStatus();
}

// options.metadata, with the device of the tensor unless it names one.
TensorMetadata MetadataOf(const TensorView& tensor, const CheckpointAddOptions& options) {
  TensorMetadata metadata = options.metadata;
  if (metadata.device == Device()) metadata.device = tensor.device();
  return metadata;
}

// True if `slice` selects all of `shape`, in any notation. Requires: `slice` lies in `shape`.
bool IsWhole(const TensorSlice& slice, const TensorShape& shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!slice.IsFullAt(axis) && slice.extent(axis).length != shape.dim(axis)) return false;
  }
  return true;
}

// The files of one checkpoint and what goes into them. After an error only Abandon is called.
class Save {
 public:
  Save(std::string prefix, const CheckpointWriterOptions& options)
      : prefix_(std::move(prefix)),
        options_(options),
        publish_({options.file_system, options.sync, options.overwrite}),
        num_data_files_(options.num_shards) {}

  // Makes the temporary files and the queues. Their threads start with the first tensor, or in Finish.
  absl::Status Start();

  absl::Status Add(absl::string_view name, const TensorView& tensor, const CheckpointAddOptions& options);
  absl::Status AddSlice(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                        const TensorView& tensor, const CheckpointAddOptions& options);
  absl::Status BeginTensor(absl::string_view name, DType dtype, const TensorShape& shape,
                           const CheckpointAddOptions& options);
  absl::Status AddBlock(const TensorView& block);
  // Writes the waiting tensors and the index, then publishes.
  absl::Status Finish();
  // Removes the files of this save now.
  void Abandon();

  absl::StatusOr<ReplacedFiles> Replaced() const;
  const std::vector<std::string>& removed_files() const { return publish_.removed(); }

  bool is_in_owner_process() const { return owner_.IsThisProcess(); }

 private:
  // A tensor in pieces.
  struct Sliced {
    IndexItem* item;  // the item of the whole tensor
    TensorSliceSet pieces;
    TensorMetadata metadata;
  };

  // With the names of checkpoint and tensor before its message.
  absl::Status About(absl::string_view name, const absl::Status& status) const {
    return status.ok() ? status : Annotate(status, absl::StrCat(prefix_, ": tensor ", Quoted(name)));
  }
  absl::Status CheckTensor(absl::string_view name, DType dtype, const TensorShape& shape,
                           const CheckpointAddOptions& options) const;
  absl::Status CheckTensor(absl::string_view name, const TensorView& tensor, const CheckpointAddOptions& options) const;
  absl::Status CheckNoOpenTensor() const;
  IndexItem* AddItem(std::string key);
  absl::Status AddName(absl::string_view name, IndexItem** item);
  PayloadLevel LevelOf(absl::string_view name, const CheckpointAddOptions& options) const;
  absl::Status Enqueue(IndexItem* item, const TensorView& tensor, const CheckpointAddOptions& options,
                       StoredLayout layout, PayloadLevel level, const TensorMetadata* metadata);
  absl::Status Enqueue(TensorJob job);
  absl::Status WriteJob(const TensorJob& job, uint64_t waiting_file_bytes);
  uint64_t FileBytes(const TensorJob& job) const;
  void ReserveForWaiting(const TensorJob& job, uint64_t waiting_file_bytes);
  absl::Status FlushShards(size_t queue);
  absl::Status WriteIndex();

  const OwnerProcess owner_;
  const std::string prefix_;
  CheckpointWriterOptions options_;
  Publication publish_;
  std::vector<FileSink*> data_;         // by shard
  std::deque<ShardPayloads> payloads_;  // likewise
  FileSink* index_ = nullptr;
  std::optional<OldCheckpoint> old_;  // with options_.overwrite
  int num_data_files_;                // in the index; above options_.num_shards if the old checkpoint has as many

  // Tables of the standard library. After a failed allocation the destructor of Abseil's tables frees memory that was
  // never allocated.
  using NameHash = absl::Hash<absl::string_view>;
  std::deque<IndexItem> items_;                                     // in no order; they stay where they are
  std::unordered_set<absl::string_view, NameHash> names_;           // keys of items_, but for those of pieces
  std::unordered_map<absl::string_view, Sliced, NameHash> sliced_;  // by name
  std::optional<checkpoint::OpenTensor> open_;

  checkpoint::FirstError error_;
  std::deque<WriteQueue> queues_;  // that of shard i is i % size(). Last: its threads use all of the above
};

absl::Status Save::Start() {
  if (options_.overwrite) {
    // The old checkpoint needs its data files until the new index replaces the old one.
    CASK_ASSIGN_OR_RETURN(old_, OldCheckpoint::Open(prefix_, options_.file_system));
    CASK_ASSIGN_OR_RETURN(num_data_files_, old_->ChooseNumShards(options_.num_shards));
  }
  for (int shard = 0; shard < num_data_files_; ++shard) {
    CASK_ASSIGN_OR_RETURN(FileSink * sink, publish_.Add(checkpoint::DataPath(prefix_, shard, num_data_files_)));
    if (shard >= options_.num_shards) continue;  // stays empty
    data_.push_back(sink);
    payloads_.emplace_back(options_.payload,
                           options_.num_threads / std::min(options_.num_threads, options_.num_shards));
  }
  CASK_ASSIGN_OR_RETURN(index_, publish_.Add(checkpoint::IndexPath(prefix_)));

  const bool threads = options_.num_threads > 1;
  const uint64_t max_waiting_bytes = options_.background ? std::numeric_limits<uint64_t>::max()
                                     : threads           ? kMaxWaitingBytes
                                                         : 0;
  const auto num_queues = static_cast<size_t>(std::min(options_.num_threads, options_.num_shards));
  for (size_t i = 0; i < num_queues; ++i) {
    std::function<absl::Status()> end;
    if (threads) end = [this, i] { return FlushShards(i); };
    queues_.emplace_back(
        [this](const TensorJob& job, uint64_t waiting_file_bytes) { return WriteJob(job, waiting_file_bytes); },
        std::move(end), max_waiting_bytes, &error_);
  }
  return absl::OkStatus();
}

absl::Status Save::CheckTensor(absl::string_view name, DType dtype, const TensorShape& shape,
                               const CheckpointAddOptions& options) const {
  CASK_RETURN_IF_ERROR(CheckNoOpenTensor());
  CASK_RETURN_IF_ERROR(checkpoint::CheckTensorName(name));
  if (options.shard < 0 || options.shard >= options_.num_shards) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix_, ": tensor ", Quoted(name), " is for shard ", options.shard, " of ", options_.num_shards));
  }
  if (dtype == DType::kResource) {
    return absl::UnimplementedError(
        absl::StrCat(prefix_, ": tensor ", Quoted(name), " is ", DTypeName(dtype), ", which checkpoints cannot hold"));
  }
  CASK_RETURN_IF_ERROR(About(name, internal::CheckMetadata(dtype, shape, options.metadata)));
  return options.level.has_value() ? About(name, CheckLevel(*options.level)) : absl::OkStatus();
}

absl::Status Save::CheckTensor(absl::string_view name, const TensorView& tensor,
                               const CheckpointAddOptions& options) const {
  CASK_RETURN_IF_ERROR(CheckTensor(name, tensor.dtype(), tensor.shape(), options));
  if (!tensor.buffer() || internal::IsOnDevice(tensor)) return absl::OkStatus();
  return About(name, tensor.buffer()->CheckReadable());
}

IndexItem* Save::AddItem(std::string key) { return &items_.emplace_back(std::move(key)); }

absl::Status Save::AddName(absl::string_view name, IndexItem** item) {
  if (names_.count(name) != 0) {
    return absl::AlreadyExistsError(absl::StrCat(prefix_, ": tensor ", Quoted(name), " was added before"));
  }
  *item = AddItem(std::string(name));
  names_.insert((*item)->key);
  return absl::OkStatus();
}

absl::Status Save::Add(absl::string_view name, const TensorView& tensor, const CheckpointAddOptions& options) {
  CASK_RETURN_IF_ERROR(CheckTensor(name, tensor, options));
  IndexItem* item = nullptr;
  CASK_RETURN_IF_ERROR(AddName(name, &item));
  const TensorMetadata metadata = MetadataOf(tensor, options);
  return Enqueue(item, tensor, options, options.layout, LevelOf(name, options), &metadata);
}

absl::Status Save::AddSlice(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                            const TensorView& tensor, const CheckpointAddOptions& options) {
  CASK_RETURN_IF_ERROR(CheckTensor(name, tensor, options));
  const auto found = sliced_.find(name);
  Sliced* sliced = found != sliced_.end() ? &found->second : nullptr;
  const TensorSliceSet whole(tensor.dtype(), full_shape);
  CASK_RETURN_IF_ERROR(About(name, whole.CheckPart(slice, tensor.dtype(), tensor.shape())));
  if (IsWhole(slice, full_shape)) return Add(name, tensor, options);
  if (sliced != nullptr) CASK_RETURN_IF_ERROR(About(name, sliced->pieces.CheckTensor(tensor.dtype(), full_shape)));
  if (sliced == nullptr) {
    IndexItem* item = nullptr;
    CASK_RETURN_IF_ERROR(AddName(name, &item));
    sliced = &sliced_.emplace(item->key, Sliced{item, whole, MetadataOf(tensor, options)}).first->second;
  }
  CASK_RETURN_IF_ERROR(About(name, sliced->pieces.Register(slice, "")));
  return Enqueue(AddItem(checkpoint::EncodeSliceKey(name, slice)), tensor, options, StoredLayout::kRowMajor,
                 LevelOf(name, options), /*metadata=*/nullptr);
}

absl::Status Save::CheckNoOpenTensor() const {
  return open_.has_value() ? About(open_->name(), open_->CheckComplete()) : absl::OkStatus();
}

absl::Status Save::BeginTensor(absl::string_view name, DType dtype, const TensorShape& shape,
                               const CheckpointAddOptions& options) {
  CASK_RETURN_IF_ERROR(CheckTensor(name, dtype, shape, options));
  if (!IsFixedSize(dtype)) {
    return About(name, absl::UnimplementedError(absl::StrCat(DTypeName(dtype), " cannot be added in blocks")));
  }
  const PayloadLevel level = LevelOf(name, options);
  if (level != PayloadLevel::kStored) {
    return About(name, absl::InvalidArgumentError(absl::StrCat("level ", PayloadLevelName(level),
                                                               ": a tensor in blocks is stored, not encoded")));
  }
  IndexItem* item = nullptr;
  CASK_RETURN_IF_ERROR(AddName(name, &item));
  open_.emplace(item, dtype, shape, options.shard, options.metadata);
  if (!open_->is_complete()) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const Tensor empty, Tensor::Create(dtype, shape));
  return AddBlock(empty);
}

absl::Status Save::AddBlock(const TensorView& block) {
  if (!open_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(prefix_, ": AddBlock without a tensor: call BeginTensor first"));
  }
  absl::StatusOr<TensorJob> job = open_->NextJob(block);
  if (!job.ok()) return About(open_->name(), job.status());
  if (open_->is_complete()) open_.reset();
  return Enqueue(*std::move(job));
}

PayloadLevel Save::LevelOf(absl::string_view name, const CheckpointAddOptions& options) const {
  if (options.level.has_value()) return *options.level;
  for (const LevelRule& rule : options_.level_rules) {
    if (MatchesGlob(rule.glob, name)) return rule.level;
  }
  return options_.payload.level;
}

absl::Status Save::Enqueue(IndexItem* item, const TensorView& tensor, const CheckpointAddOptions& options,
                           StoredLayout layout, PayloadLevel level, const TensorMetadata* metadata) {
  TensorJob job;
  job.item = item;
  job.shard = options.shard;
  job.layout = layout;
  job.level = level;
  if (metadata != nullptr && !metadata->IsDefault()) job.metadata = std::make_unique<const TensorMetadata>(*metadata);
  job.tensor = tensor;
  job.unchanging = options.unchanging;
  return Enqueue(std::move(job));
}

absl::Status Save::Enqueue(TensorJob job) {
  const bool waits = (options_.num_threads > 1 || options_.background) && !job.unchanging;
  if (waits && internal::IsOnDevice(job.tensor)) {
    // A lazy clone would not see work of the stream that writes to the memory.
    absl::StatusOr<internal::HostCopy> copy = internal::BeginHostCopy(job.tensor);
    if (!copy.ok()) return About(job.item->key, copy.status());
    job.tensor = std::move(copy->view);
    job.pending = std::move(copy->pending);
  } else if (waits) {
    absl::StatusOr<TensorView> clone = job.tensor.LazyClone();
    if (!clone.ok()) return About(job.item->key, clone.status());
    job.tensor = *std::move(clone);
  }
  job.file_bytes = FileBytes(job);
  WriteQueue& queue = queues_[static_cast<size_t>(job.shard) % queues_.size()];
  // Not before there is work. A new thread is placed on an idle processor. A waiting thread is often woken on the
  // processor of the thread that wakes it, and the two then share that processor for some milliseconds.
  if (options_.num_threads > 1 && !options_.background) queue.StartThread();
  queue.Push(std::move(job));
  return error_.Get();
}

// The bytes that WriteTensor appends, padding included. 0 if they are not known before.
uint64_t Save::FileBytes(const TensorJob& job) const {
  const bool is_plain = job.layout == StoredLayout::kRowMajor && job.level == PayloadLevel::kStored;
  if (!is_plain || !IsFixedSize(job.tensor.dtype())) return 0;
  const auto bytes_of = [&](int64_t elements) {
    return static_cast<uint64_t>(elements) * ElementSize(job.tensor.dtype());
  };
  const uint64_t bytes = bytes_of(job.tensor.num_elements());
  if (job.streamed != nullptr && !job.is_last_block) return bytes;
  const uint64_t past = bytes_of((job.streamed != nullptr ? job.streamed->shape : job.tensor.shape()).num_elements()) %
                        options_.alignment;
  return past == 0 ? bytes : bytes + options_.alignment - past;
}

// Reserves disk space for this job and for those that wait. Without it the sink asks for space step by step, and at the
// end gives back what is too much. (Two threads, 64 tensors of 4 MiB, Zen 5: 0.4 ms of 21.)
void Save::ReserveForWaiting(const TensorJob& job, uint64_t waiting_file_bytes) {
  // Little waits, or it is not known for which file.
  if (waiting_file_bytes < FileSink::kLeastReservedBytes || queues_.size() != data_.size()) return;
  FileSink& file = *data_[static_cast<size_t>(job.shard)];
  if (file.position() + job.file_bytes <= file.reserved_bytes()) return;
  file.ReserveHint(file.position() + std::min(job.file_bytes + waiting_file_bytes, FileSink::kMostReservedAhead));
}

absl::Status Save::WriteJob(const TensorJob& job, uint64_t waiting_file_bytes) {
  ReserveForWaiting(job, waiting_file_bytes);
  const auto shard = static_cast<size_t>(job.shard);
  absl::Status status = checkpoint::WriteTensor(job, options_.alignment, &payloads_[shard], data_[shard]);
  if (status.ok()) return status;
  const absl::StatusOr<checkpoint::SliceKey> piece = checkpoint::DecodeSliceKey(job.item->key);
  return About(piece.ok() ? piece->name : job.item->key, status);
}

// The disk works on several files at once; Commit then finds little left to sync.
absl::Status Save::FlushShards(size_t queue) {
  for (size_t shard = queue; shard < data_.size(); shard += queues_.size()) {
    data_[shard]->ReleaseReserved();
    CASK_RETURN_IF_ERROR(data_[shard]->Flush(options_.sync));
  }
  return absl::OkStatus();
}

absl::Status Save::Finish() {
  CASK_RETURN_IF_ERROR(CheckNoOpenTensor());
  // If the last queue has no thread yet, the calling thread writes it.
  for (size_t i = 0; i + 1 < queues_.size(); ++i) queues_[i].StartThread();
  for (WriteQueue& queue : queues_) queue.Close();
  for (size_t i = queues_.size(); i-- > 0;) queues_[i].Join();
  CASK_RETURN_IF_ERROR(error_.Get());
  CASK_RETURN_IF_ERROR(WriteIndex());

  if (old_.has_value()) {
    CASK_RETURN_IF_ERROR(old_->CheckUnchanged());
    CASK_ASSIGN_OR_RETURN(const ReplacedFiles replaced, old_->Replaced(num_data_files_));
    for (const std::string& path : replaced.removed) publish_.RemoveAfterwards(path);
  }
  return publish_.Commit();
}

absl::StatusOr<ReplacedFiles> Save::Replaced() const {
  return old_.has_value() ? old_->Replaced(num_data_files_) : ReplacedFiles();
}

absl::Status Save::WriteIndex() {
  for (const auto& [name, sliced] : sliced_) {
    CheckpointEntry entry;
    entry.dtype = sliced.pieces.dtype();
    entry.shape = sliced.pieces.shape();
    for (const TensorSliceSet::Part& part : sliced.pieces.parts()) entry.slices.push_back(part.slice);
    internal::ExtensionContent extension;
    extension.metadata = &sliced.metadata;
    if (DTypeNumber(entry.dtype) >= kFirstOwnDTypeNumber) extension.dtype_number = DTypeNumber(entry.dtype);
    sliced.item->value = checkpoint::EncodeEntry(entry, extension);
  }
  size_t block_bytes = options_.index_block_bytes;
  if (block_bytes == 0 && options_.alignment != 1) block_bytes = size_t{16} << 10;  // for quick lookups
  const std::string base = checkpoint::BaseBeside(index_->path(), options_.payload.base.get(), options_.file_system);
  return checkpoint::WriteIndex(items_, num_data_files_, base, block_bytes, index_);
}

void Save::Abandon() {
  queues_.clear();
  publish_.Abandon();
  old_.reset();  // closes the old index
}

}  // namespace

class CheckpointWriter::Impl {
 public:
  Impl(const std::string& prefix, const CheckpointWriterOptions& options)
      : prefix_(prefix),
        background_(options.background),
        finished_(absl::FailedPreconditionError(absl::StrCat(prefix, ": the checkpoint is finished"))),
        interrupted_(absl::ResourceExhaustedError(
            absl::StrCat(prefix, ": an earlier call ended with an exception; the checkpoint is abandoned"))),
        save_(new Save(prefix, options), Delete) {}

  absl::Status Start() { return save_->Start(); }

  // Calls Save and keeps the status. After a failure no further call is possible.
  template <typename Call>
  absl::Status Do(Call&& call) {
    CASK_RETURN_IF_ERROR(CheckUsable());
    status_ = interrupted_;  // stays if the call throws, for example std::bad_alloc
    status_ = call(save_.get());
    if (!status_.ok()) save_->Abandon();
    return status_;
  }

  absl::StatusOr<ReplacedFiles> Replaced() const {
    CASK_RETURN_IF_ERROR(CheckUsable());
    return save_->Replaced();
  }

  absl::Status Finish() {
    CASK_RETURN_IF_ERROR(Do([](Save* save) { return save->Finish(); }));
    removed_files_ = TakeSave()->removed_files();
    return absl::OkStatus();
  }
  const std::vector<std::string>& removed_files() const { return removed_files_; }

  absl::StatusOr<BackgroundSave> FinishInBackground() {
    CASK_RETURN_IF_ERROR(CheckUsable());
    if (!background_) {
      return absl::FailedPreconditionError(
          absl::StrCat(prefix_, ": FinishInBackground wants a writer with background set"));
    }
    return BackgroundSave([save = TakeSave()] { return save->Finish(); });
  }

 private:
  // The copy of a child stays in memory: the files are the parent's, and the threads run only there.
  static void Delete(Save* save) {
    if (save->is_in_owner_process()) delete save;
  }

  absl::Status CheckUsable() const {
    if (owner_.IsThisProcess()) return status_;
    return absl::FailedPreconditionError(
        absl::StrCat(prefix_, ": the writer was made by the parent of this process, which alone may use it"));
  }

  std::shared_ptr<Save> TakeSave() {
    status_ = finished_;
    return std::move(save_);
  }

  const OwnerProcess owner_;
  const std::string prefix_;
  const bool background_;
  const absl::Status finished_;     // what calls return after Finish and FinishInBackground
  const absl::Status interrupted_;  // and after an exception
  std::shared_ptr<Save> save_;      // null: finished, or a BackgroundSave has it
  absl::Status status_;
  std::vector<std::string> removed_files_;  // by Finish
};

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter& CheckpointWriter::operator=(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

absl::StatusOr<CheckpointWriter> CheckpointWriter::Create(const std::string& prefix,
                                                          const CheckpointWriterOptions& options) {
  CASK_RETURN_IF_ERROR(checkpoint::CheckNewPrefix(prefix));
  CASK_RETURN_IF_ERROR(CheckOptions(options));
  CASK_RETURN_IF_ERROR(checkpoint::CheckNoDevice(prefix, options.file_system));
  CASK_RETURN_IF_ERROR(MakeFolderFor(checkpoint::IndexPath(prefix), options.sync, options.file_system));
  CASK_RETURN_IF_ERROR(
      checkpoint::CheckNotBase(prefix, options.payload.base.get(), options.overwrite, options.file_system));
  checkpoint::RemoveTemporariesOf(prefix, /*always=*/options.overwrite,
                                  options.file_system);  // first, as they may fill the disk
  auto impl = std::make_unique<Impl>(prefix, options);
  CASK_RETURN_IF_ERROR(impl->Start());
  return CheckpointWriter(std::move(impl));
}

absl::Status CheckpointWriter::CheckName(absl::string_view name) { return checkpoint::CheckTensorName(name); }

absl::Status CheckpointWriter::Add(absl::string_view name, const TensorView& tensor,
                                   const CheckpointAddOptions& options) {
  return impl_->Do([&](Save* save) { return save->Add(name, tensor, options); });
}

absl::Status CheckpointWriter::AddSlice(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                                        const TensorView& tensor, const CheckpointAddOptions& options) {
  return impl_->Do([&](Save* save) { return save->AddSlice(name, full_shape, slice, tensor, options); });
}

absl::Status CheckpointWriter::BeginTensor(absl::string_view name, DType dtype, const TensorShape& shape,
                                           const CheckpointAddOptions& options) {
  return impl_->Do([&](Save* save) { return save->BeginTensor(name, dtype, shape, options); });
}

absl::Status CheckpointWriter::AddBlock(const TensorView& block) {
  return impl_->Do([&](Save* save) { return save->AddBlock(block); });
}

absl::StatusOr<ReplacedFiles> CheckpointWriter::Replaced() const { return impl_->Replaced(); }

absl::Status CheckpointWriter::Finish() { return impl_->Finish(); }

const std::vector<std::string>& CheckpointWriter::removed_files() const { return impl_->removed_files(); }

absl::StatusOr<BackgroundSave> CheckpointWriter::FinishInBackground() { return impl_->FinishInBackground(); }

}  // namespace tensorcask
