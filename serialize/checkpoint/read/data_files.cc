#include "tensorcask/serialize/checkpoint/read/data_files.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

absl::Status Replaced(const std::string& path) {
  return absl::AbortedError(
      absl::StrCat(path, ": the checkpoint was replaced or removed while it was read; open it again"));
}

// A data file that was opened, while another thread looks whether its index has been replaced by then. Where files are
// far away, that takes as long as the first read. Gives out no bytes before the answer is known to be no.
class FileBesideIndex final : public ByteSource {
 public:
  FileBesideIndex(std::shared_ptr<const ByteSource> file, std::shared_ptr<const ByteSource> index)
      : file_(std::move(file)), index_(std::move(index)) {
    try {  // NOLINT: of the standard library
      looking_ = std::thread([this] { Look(); });
    } catch (const std::system_error&) {  // the system has no more threads
      Look();
      is_known_ = true;
    }
  }
  ~FileBesideIndex() override {
    if (!looking_.joinable()) return;
    if (owner_.IsThisProcess()) {
      looking_.join();
    } else {
      // A child of fork has no threads of its parent, and its own threads may have their ids: the copy stays as it is.
      new std::thread(std::move(looking_));
    }
  }
  FileBesideIndex(const FileBesideIndex&) = delete;
  FileBesideIndex& operator=(const FileBesideIndex&) = delete;

  const std::string& name() const override { return file_->name(); }
  uint64_t size_bytes() const override { return file_->size_bytes(); }
  absl::Status WaitUntilOpen() const override { return file_->WaitUntilOpen(); }
  ReadShape read_shape() const override { return file_->read_shape(); }
  bool GetFile(FileSystem** file_system, IoResult* handle) const override {
    return file_->GetFile(file_system, handle);
  }
  std::shared_ptr<Announcement> Announce(absl::Span<const FileRange> ranges,
                                         const AnnounceOptions& options) const override {
    return file_->Announce(ranges, options);
  }

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    const absl::Status read = file_->ReadAt(offset, out);
    CASK_RETURN_IF_ERROR(CheckIndex());
    return read;
  }
  absl::Status ReadRanges(absl::Span<const ReadRange> ranges) const override {
    const absl::Status read = file_->ReadRanges(ranges);
    CASK_RETURN_IF_ERROR(CheckIndex());
    return read;
  }
  absl::StatusOr<RefPtr<TensorBuffer>> Map(uint64_t offset, size_t size_bytes) const override {
    CASK_RETURN_IF_ERROR(CheckIndex());
    return file_->Map(offset, size_bytes);
  }

 private:
  // An index that is the same after the file was opened was the same before.
  void Look() const { was_replaced_ = file_->WaitUntilOpen().ok() && WasReplaced(*index_); }

  absl::Status CheckIndex() const {
    if (!is_known_.load(std::memory_order_acquire)) {
      if (!owner_.IsThisProcess()) {
        // A child of fork has neither the thread nor, if the mutex is locked, the one that would unlock it.
        return WasReplaced(*index_) ? Replaced(name()) : absl::OkStatus();
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      if (looking_.joinable()) looking_.join();
      is_known_.store(true, std::memory_order_release);
    }
    return was_replaced_ ? Replaced(name()) : absl::OkStatus();
  }

  const std::shared_ptr<const ByteSource> file_;
  const std::shared_ptr<const ByteSource> index_;
  const OwnerProcess owner_;
  mutable std::mutex mutex_;
  mutable std::thread looking_;
  mutable bool was_replaced_ = false;  // known when `looking_` has ended
  mutable std::atomic<bool> is_known_{false};
};

}  // namespace

DataFiles::DataFiles(std::string prefix, int num_shards, std::shared_ptr<const ByteSource> index,
                     const ReadOptions& options)
    : prefix_(std::move(prefix)), num_shards_(num_shards), index_(std::move(index)), options_(options) {}

std::string DataFiles::Path(int shard) const { return DataPath(prefix_, shard, num_shards_); }

absl::StatusOr<std::shared_ptr<const ByteSource>> DataFiles::FileOf(const CheckpointEntry& entry) const {
  std::shared_ptr<const ByteSource> file;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto open = open_.find(entry.shard);
    if (open != open_.end()) file = open->second;
  }
  absl::Status opened = absl::OkStatus();
  if (file == nullptr) {
    absl::StatusOr<std::shared_ptr<const ByteSource>> fresh = OpenFileSource(Path(entry.shard), options_);
    opened = fresh.status();
    if (opened.ok()) file = are_planned() ? std::make_shared<const FileBesideIndex>(*fresh, index_) : *fresh;
    if (opened.ok() && !are_planned() && WasReplaced(*index_)) return Replaced(Path(entry.shard));
  } else {
    opened = file->WaitUntilOpen();
  }
  if (!opened.ok()) {
    Forget(entry.shard, file.get());
    if (WasReplaced(*index_)) return Replaced(Path(entry.shard));
  }
  // A file that the index names is missing, or is a folder. NotFound would mean "no such tensor" to the caller, and
  // FailedPrecondition that a base is missing.
  if (absl::IsNotFound(opened) || absl::IsFailedPrecondition(opened)) {
    return MarkDamagedPart(absl::DataLossError(absl::StrCat(opened.message(), ", though the index names it")));
  }
  CASK_RETURN_IF_ERROR(opened);
  file = Keep(entry.shard, std::move(file));
  if (!RangeFits(entry.offset, entry.stored_bytes, file->size_bytes())) {
    const absl::Status cut = absl::DataLossError(
        absl::StrCat(file->name(), ": has ", file->size_bytes(), file->size_bytes() == 1 ? " byte; " : " bytes; ",
                     entry.stored_bytes, " at ", entry.offset, " are wanted (an incomplete download?)"));
    // Elements often begin with zeros; what another program left in place of them does not.
    char first = 0;
    const absl::Status read = file->ReadAt(0, absl::MakeSpan(&first, 1));
    if (absl::IsAborted(read)) return read;
    return MarkDamagedPart(read.ok() && first == 0 ? cut : ExplainContent(cut, *file, "checkpoint"));
  }
  return file;
}

// Of several threads that opened it, the file of the first.
std::shared_ptr<const ByteSource> DataFiles::Keep(int shard, std::shared_ptr<const ByteSource> file) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_.emplace(shard, std::move(file)).first->second;
}

void DataFiles::Forget(int shard, const ByteSource* file) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto open = open_.find(shard);
  if (open != open_.end() && open->second.get() == file) open_.erase(open);
}

std::shared_ptr<const ByteSource> DataFiles::FileSoon(int shard) const {
  if (!are_planned() || shard < 0 || shard >= num_shards_) return nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto open = open_.find(shard);
    if (open != open_.end()) return open->second;
  }
  absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSourceSoon(Path(shard), options_);
  if (!file.ok()) return nullptr;
  return Keep(shard, std::make_shared<const FileBesideIndex>(*std::move(file), index_));
}

void DataFiles::OpenTogether(absl::Span<const int> shards) const {
  if (!are_planned()) return;
  std::vector<int> closed(shards.begin(), shards.end());
  std::sort(closed.begin(), closed.end());
  closed.erase(std::unique(closed.begin(), closed.end()), closed.end());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed.erase(std::remove_if(closed.begin(), closed.end(), [&](int shard) { return open_.count(shard) != 0; }),
                 closed.end());
  }
  if (closed.size() < 2) return;
  ParallelFor(index_->read_shape().in_flight, closed.size(), [&](size_t i) { FileSoon(closed[i]); }).IgnoreError();
}

std::shared_ptr<const ByteSource> DataFiles::FileToPlan(int shard) const {
  if (!are_planned() || shard < 0 || shard >= num_shards_) return nullptr;
  CheckpointEntry nothing;
  nothing.shard = shard;
  return FileOf(nothing).value_or(nullptr);
}

}  // namespace tensorcask::checkpoint
