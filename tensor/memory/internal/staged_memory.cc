#include "tensorcask/tensor/memory/internal/staged_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/pinned_allocator.h"

namespace tensorcask::internal {
namespace {

// The size of the next piece of a copy of `bytes` bytes, of which `done` are done. Pieces grow at the start and shrink
// at the end, because only one side works during the first piece and the last one.
size_t PieceBytes(size_t done, size_t bytes) {
  constexpr size_t kLeast = StagedMemory::kMinPieceBytes;
  const size_t rest = bytes - done;
  if (rest < 2 * kLeast) return rest;
  return std::min({std::max(done, kLeast), rest / 2, StagedMemory::kMaxPieceBytes}) / kLeast * kLeast;
}

// At least as large as each piece of such a copy.
size_t LargestPieceBytes(size_t bytes) {
  return std::min({std::max(bytes / 2, 2 * StagedMemory::kMinPieceBytes), StagedMemory::kMaxPieceBytes, bytes});
}

// A pinned block through which pieces are copied. A copy that is under way when the block is freed delays its reuse.
class Stage {
 public:
  Stage(PinnedAllocator* pinned, StreamId stream) : pinned_(pinned), stream_(stream) {}
  ~Stage() {
    if (block_ == nullptr) return;
    const auto record = [this] { return pinned_->RecordStream(block_, stream_); };
    if (busy_ && !CatchExceptions(record).ok())  // not even memory for this: waits
      static_cast<void>(CatchExceptions([this] { return pinned_->backend()->Synchronize(stream_); }));
    if (event_.has_value()) pinned_->backend()->DestroyEvent(*event_);
    pinned_->Deallocate(block_, capacity_bytes_);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  absl::Status Allocate(size_t bytes) {
    CASK_ASSIGN_OR_RETURN(void* const block, pinned_->TryAllocate(bytes));
    block_ = static_cast<char*>(block);
    capacity_bytes_ = bytes;
    return absl::OkStatus();
  }

  bool is_allocated() const { return block_ != nullptr; }
  absl::Span<char> first(size_t bytes) const { return absl::MakeSpan(block_, bytes); }
  absl::string_view bytes() const { return {block_, bytes_}; }

  // Starts a copy of `bytes` bytes from or to the block.
  absl::Status Begin(CopyKind kind, char* device, size_t bytes) {
    DeviceBackend& backend = *pinned_->backend();
    void* const to = kind == CopyKind::kHostToDevice ? device : block_;
    const void* const from = kind == CopyKind::kHostToDevice ? block_ : device;
    CASK_RETURN_IF_ERROR(backend.Copy(kind, to, from, bytes, stream_));
    busy_ = true;
    bytes_ = bytes;
    CASK_ASSIGN_OR_RETURN(event_, backend.RecordEvent(stream_));
    return absl::OkStatus();
  }
  // Waits for the copy, if there is one.
  absl::Status Finish() {
    if (!busy_) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(pinned_->backend()->SynchronizeEvent(*event_));
    pinned_->backend()->DestroyEvent(*event_);
    event_ = std::nullopt;
    busy_ = false;
    return absl::OkStatus();
  }

 private:
  PinnedAllocator* const pinned_;
  const StreamId stream_;
  char* block_ = nullptr;
  size_t capacity_bytes_ = 0;
  size_t bytes_ = 0;
  bool busy_ = false;
  std::optional<EventId> event_;
};

class PinnedRead final : public PendingRead {
 public:
  PinnedRead(RefPtr<DeviceBackend> backend, RefPtr<TensorBuffer> buffer, EventId event)
      : backend_(std::move(backend)), buffer_(std::move(buffer)), event_(event) {}
  ~PinnedRead() override {
    if (event_.has_value()) backend_->DestroyEvent(*event_);
  }

  const RefPtr<TensorBuffer>& buffer() const override { return buffer_; }
  absl::Status Wait() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!event_.has_value()) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(backend_->SynchronizeEvent(*event_));
    backend_->DestroyEvent(*event_);
    event_ = std::nullopt;
    return absl::OkStatus();
  }

 private:
  const RefPtr<DeviceBackend> backend_;
  const RefPtr<TensorBuffer> buffer_;
  std::mutex mutex_;
  std::optional<EventId> event_;
};

}  // namespace

StagedMemory::~StagedMemory() {
  if (keeps_for_every_stream_) static_cast<void>(CatchExceptions([&] { return backend()->SynchronizeAll(); }));
  for (const Kept& kept : kept_) {
    if (!kept.event.has_value()) continue;
    static_cast<void>(CatchExceptions([&] { return backend()->SynchronizeEvent(*kept.event); }));
    backend()->DestroyEvent(*kept.event);
  }
}

absl::Status StagedMemory::Read(const void* from, size_t bytes,
                                absl::FunctionRef<absl::Status(absl::string_view piece)> consume) {
  ReleaseBeforeCopy();
  auto* const device = static_cast<char*>(const_cast<void*>(from));
  std::array<Stage, 2> stages = {Stage(pinned_.get(), stream_), Stage(pinned_.get(), stream_)};
  size_t started = 0;
  const auto begin = [&](Stage& stage) -> absl::Status {
    const size_t piece_bytes = PieceBytes(started, bytes);
    if (!stage.is_allocated()) CASK_RETURN_IF_ERROR(stage.Allocate(LargestPieceBytes(bytes)));
    CASK_RETURN_IF_ERROR(stage.Begin(CopyKind::kDeviceToHost, device + started, piece_bytes));
    started += piece_bytes;
    return absl::OkStatus();
  };
  for (Stage& stage : stages) {
    if (started < bytes) CASK_RETURN_IF_ERROR(begin(stage));
  }
  size_t turn = 0;
  for (size_t done = 0; done < bytes; turn = 1 - turn) {
    Stage& stage = stages[turn];
    CASK_RETURN_IF_ERROR(stage.Finish());
    CASK_RETURN_IF_ERROR(consume(stage.bytes()));
    done += stage.bytes().size();
    if (started < bytes) CASK_RETURN_IF_ERROR(begin(stage));
  }
  return absl::OkStatus();
}

absl::Status StagedMemory::Write(void* to, size_t bytes,
                                 absl::FunctionRef<absl::Status(absl::Span<char> piece)> produce) {
  ReleaseBeforeCopy();
  auto* const device = static_cast<char*>(to);
  std::array<Stage, 2> stages = {Stage(pinned_.get(), stream_), Stage(pinned_.get(), stream_)};
  const auto write = [&]() -> absl::Status {
    size_t turn = 0;
    for (size_t done = 0; done < bytes; turn = 1 - turn) {
      Stage& stage = stages[turn];
      const size_t piece_bytes = PieceBytes(done, bytes);
      if (!stage.is_allocated()) CASK_RETURN_IF_ERROR(stage.Allocate(LargestPieceBytes(bytes)));
      CASK_RETURN_IF_ERROR(stage.Finish());
      CASK_RETURN_IF_ERROR(produce(stage.first(piece_bytes)));
      CASK_RETURN_IF_ERROR(stage.Begin(CopyKind::kHostToDevice, device + done, piece_bytes));
      done += piece_bytes;
    }
    return absl::OkStatus();
  };
  absl::Status status = write();
  // After an error, too: the caller's next work on this memory may be that of another stream.
  for (Stage& stage : stages) status.Update(stage.Finish());
  return status;
}

absl::StatusOr<RefPtr<PendingRead>> StagedMemory::BeginRead(const void* from, size_t bytes) {
  ReleaseBeforeCopy();
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(bytes, pinned_));
  if (bytes > 0) {
    CASK_RETURN_IF_ERROR(backend()->Copy(CopyKind::kDeviceToHost, buffer->mutable_data(), from, bytes, stream_));
    CASK_RETURN_IF_ERROR(pinned_->RecordStream(buffer->data(), stream_));
  }
  CASK_ASSIGN_OR_RETURN(const EventId event, backend()->RecordEvent(stream_));
  return RefPtr<PendingRead>(MakeRef<PinnedRead>(pinned_->backend(), std::move(buffer), event));
}

absl::Status StagedMemory::CopyWithin(void* to, const void* from, size_t bytes) {
  static_cast<void>(ReleaseDone(/*wait=*/false));
  return backend()->Copy(CopyKind::kDeviceToDevice, to, from, bytes, stream_);
}

absl::Status StagedMemory::Fill(void* to, uint8_t value, size_t bytes) {
  static_cast<void>(ReleaseDone(/*wait=*/false));
  return backend()->Fill(to, value, bytes, stream_);
}

absl::Status StagedMemory::Synchronize(int64_t stream) {
  const absl::Status status = backend()->Synchronize(stream);
  static_cast<void>(ReleaseDone(/*wait=*/false));
  return status;
}

absl::Status StagedMemory::KeepUntilDone(RefPtr<RefCounted> memory, int64_t stream) {
  if (stream != kEveryStream && backend()->IsIdle(stream).value_or(false)) return absl::OkStatus();
  std::list<Kept> one;  // allocated before there is an event to lose
  one.push_back({std::nullopt, std::move(memory)});
  if (stream == kEveryStream) {
    keeps_for_every_stream_ = true;
  } else {
    const absl::StatusOr<EventId> event = backend()->RecordEvent(stream);
    // Without an event, only the end of all work tells that the memory is unused.
    if (!event.ok()) return backend()->Synchronize(stream);
    one.front().event = *event;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.splice(kept_.end(), one);
    num_kept_.store(kept_.size(), std::memory_order_relaxed);
  }
  static_cast<void>(ReleaseDone(/*wait=*/false));
  return absl::OkStatus();
}

absl::Status StagedMemory::ReleaseDone(bool wait) {
  if (num_kept_.load(std::memory_order_relaxed) == 0) return absl::OkStatus();
  absl::Status status;
  bool all_done = false;
  if (wait && keeps_for_every_stream_.exchange(false)) {
    status = backend()->SynchronizeAll();
    all_done = status.ok();
    if (!all_done) keeps_for_every_stream_ = true;
  }
  std::list<Kept> done;  // dropped without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    if (!kept->event.has_value()) {
      if (all_done) done.splice(done.end(), kept_, kept);
    } else {
      if (wait) status.Update(backend()->SynchronizeEvent(*kept->event));
      if (backend()->QueryEvent(*kept->event).value_or(false)) {
        backend()->DestroyEvent(*kept->event);
        done.splice(done.end(), kept_, kept);
      }
    }
    kept = next;
  }
  num_kept_.store(kept_.size(), std::memory_order_relaxed);
  return status;
}

void StagedMemory::ReleaseBeforeCopy() { static_cast<void>(ReleaseDone(/*wait=*/keeps_for_every_stream_)); }

}  // namespace tensorcask::internal
