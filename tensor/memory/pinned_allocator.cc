#include "tensorcask/tensor/memory/pinned_allocator.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {
namespace {

constexpr size_t kMaxRequestBytes = size_t{1} << 62;

// Requires: bytes <= kMaxRequestBytes.
size_t BlockBytes(size_t bytes) {
  size_t block_bytes = PinnedAllocator::kMinBlockBytes;
  while (block_bytes < bytes) block_bytes *= 2;
  return block_bytes;
}

}  // namespace

RefPtr<PinnedAllocator> PinnedAllocator::Make(RefPtr<DeviceBackend> backend) {
  return RefPtr<PinnedAllocator>::AdoptNew(new PinnedAllocator(std::move(backend)));
}

PinnedAllocator::~PinnedAllocator() {
  static_cast<void>(ProcessEvents(/*wait=*/true));
  // A device that cannot be waited for may still write to these blocks: they are not returned.
  for (auto& [stream, queue] : events_) {
    for (const PendingEvent& pending : queue) {
      if (pending.event.has_value()) backend_->DestroyEvent(*pending.event);
      blocks_.erase(pending.block);
    }
  }
  CASK_CHECK(blocks_.empty(), "a pinned allocator is destroyed after its blocks were freed");
  static_cast<void>(ReleaseCached());
}

absl::StatusOr<void*> PinnedAllocator::TryAllocate(size_t bytes) {
  CASK_CHECK(bytes > 0, "an allocation has at least one byte");
  if (bytes > kMaxRequestBytes)
    return absl::ResourceExhaustedError(absl::StrCat("no pinned memory for ", bytes, " bytes"));
  const size_t block_bytes = BlockBytes(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  // An event that cannot be queried counts as not finished; its block stays out of the cache.
  static_cast<void>(ProcessEvents(/*wait=*/false));
  void* block = nullptr;
  if (const auto found = cached_.find(block_bytes); found != cached_.end()) {
    block = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) cached_.erase(found);
    counters_.cached_bytes -= block_bytes;
    counters_.hits += 1;
  } else {
    counters_.misses += 1;
    absl::StatusOr<void*> fresh = backend_->AllocateHost(block_bytes);
    if (absl::IsResourceExhausted(fresh.status())) {
      static_cast<void>(ProcessEvents(/*wait=*/true));
      static_cast<void>(ReleaseCached());
      fresh = backend_->AllocateHost(block_bytes);
    }
    CASK_RETURN_IF_ERROR(fresh.status());
    block = *fresh;
  }
  blocks_[block].bytes = block_bytes;
  counters_.used_bytes += block_bytes;
  return block;
}

void PinnedAllocator::Deallocate(void* start, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(start);
  CASK_CHECK(found != blocks_.end() && found->second.pending_events == 0, "the block is in use");
  Block& block = found->second;
  CASK_CHECK(block.bytes == BlockBytes(bytes), "a block is freed with the size that was requested");
  counters_.used_bytes -= block.bytes;
  if (block.recorded_streams.empty()) {
    cached_[block.bytes].push_back(start);
    counters_.cached_bytes += block.bytes;
    blocks_.erase(found);
    return;
  }
  counters_.waiting_bytes += block.bytes;
  for (const StreamId stream : block.recorded_streams) {
    absl::StatusOr<EventId> event = backend_->RecordEvent(stream);
    PendingEvent pending;
    pending.block = start;
    if (event.ok()) pending.event = *event;
    events_[stream].push_back(pending);
    ++block.pending_events;
  }
}

absl::Status PinnedAllocator::ProcessEvents(bool wait) {
  absl::Status result;
  for (auto queue = events_.begin(); queue != events_.end();) {
    while (!queue->second.empty()) {
      PendingEvent& pending = queue->second.front();
      const absl::StatusOr<bool> finished = IsFinished(queue->first, pending, wait);
      result.Update(finished.status());
      if (!finished.ok() || !*finished) break;
      FinishEvent(pending);
      queue->second.pop_front();
    }
    queue = queue->second.empty() ? events_.erase(queue) : std::next(queue);
  }
  return result;
}

absl::StatusOr<bool> PinnedAllocator::IsFinished(StreamId stream, PendingEvent& pending, bool wait) {
  if (!pending.event.has_value()) {
    absl::StatusOr<EventId> event = backend_->RecordEvent(stream);
    if (absl::IsInvalidArgument(event.status())) return true;  // the stream was destroyed, after its work had finished
    CASK_RETURN_IF_ERROR(event.status());
    pending.event = *event;
  }
  if (!wait) return backend_->QueryEvent(*pending.event);
  CASK_RETURN_IF_ERROR(backend_->SynchronizeEvent(*pending.event));
  return true;
}

void PinnedAllocator::FinishEvent(const PendingEvent& pending) {
  if (pending.event.has_value()) backend_->DestroyEvent(*pending.event);
  const auto found = blocks_.find(pending.block);
  if (--found->second.pending_events > 0) return;
  counters_.waiting_bytes -= found->second.bytes;
  counters_.cached_bytes += found->second.bytes;
  cached_[found->second.bytes].push_back(pending.block);
  blocks_.erase(found);
}

absl::Status PinnedAllocator::ReleaseCached() {
  absl::Status result;
  for (auto size = cached_.begin(); size != cached_.end();) {
    std::vector<void*> kept;
    for (void* const block : size->second) {
      const absl::Status freed = backend_->FreeHost(block, size->first);
      result.Update(freed);
      if (freed.ok()) {
        counters_.cached_bytes -= size->first;
      } else {
        kept.push_back(block);
      }
    }
    size->second = std::move(kept);
    size = size->second.empty() ? cached_.erase(size) : std::next(size);
  }
  return result;
}

absl::Status PinnedAllocator::EmptyCache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Status result = ProcessEvents(/*wait=*/true);
  result.Update(ReleaseCached());
  return result;
}

absl::Status PinnedAllocator::RecordStream(const void* block, StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.pending_events > 0)
    return absl::InvalidArgumentError("RecordStream of a pointer that is not the start of a pinned block in use");
  found->second.recorded_streams.insert(stream);
  return absl::OkStatus();
}

Allocator::BlockInfo PinnedAllocator::Describe(const void* block) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.pending_events > 0) return {};
  return {found->second.bytes, 0};
}

PinnedAllocator::Counters PinnedAllocator::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace tensorcask
