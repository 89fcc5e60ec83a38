// What a CachingAllocator tells about itself: statistics, snapshots and the message of a failed allocation.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"

namespace tensorcask {

absl::Status CachingAllocator::OutOfMemory(const Request& request) const {
  std::string text = absl::StrCat(backend_->device().ToString(), ": no memory for ", request.requested_bytes,
                                  " bytes (block ", request.bytes, ", segment ", request.segment_bytes, ")");
  if (request.pair != nullptr && request.pair->id != 0)
    absl::StrAppend(&text, " of private pool ", Quoted(request.pair->tag));
  absl::StrAppend(&text, ": ");
  const absl::StatusOr<DeviceMemoryInfo> info = backend_->MemoryInfo();
  if (info.ok()) absl::StrAppend(&text, info->free_bytes, " of ", info->total_bytes, " bytes of the device are free; ");
  const int64_t reserved = statistics_.reserved_bytes.all.current;
  const int64_t active = statistics_.active_bytes.all.current;
  absl::StrAppend(&text, "this allocator has reserved ", reserved, ", of which ", active, " are in use and ",
                  reserved - active, " are cached");
  if (fraction_.has_value()) absl::StrAppend(&text, "; its limit is ", limit_bytes_);
  if (reserved - active >= static_cast<int64_t>(request.bytes) &&
      options_.max_split_size == CachingOptions::kNoSplitLimit)
    absl::StrAppend(&text, "; max_split_size_mb may avoid this fragmentation");
  return MarkResourceFailure(absl::ResourceExhaustedError(text));
}

Allocator::BlockInfo CachingAllocator::Describe(const void* block) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || !found->second->allocated) return {};
  return {found->second->bytes, found->second->id};
}

std::optional<uint64_t> CachingAllocator::reserved_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return reserved_bytes_;
}

MemoryStatistics CachingAllocator::statistics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

void CachingAllocator::ResetPeakStatistics() {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.ResetPeak();
}

void CachingAllocator::ResetAccumulatedStatistics() {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.ResetAccumulated();
}

MemorySnapshot CachingAllocator::Snapshot() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  MemorySnapshot snapshot;
  snapshot.device = backend_->device().ToString();
  snapshot.device_index = backend_->device().index;
  for (const auto& entry : blocks_) {
    const Block* block = entry.second.get();
    // Each run of mapped blocks of an expandable segment is shown as a segment.
    if (!block->mapped || (block->previous != nullptr && block->previous->mapped)) continue;
    MemorySegment segment;
    segment.address = reinterpret_cast<uintptr_t>(block->start);
    segment.stream = block->stream;
    segment.is_large = !block->pool->is_small;
    segment.pool_id = block->pool->pair->id;
    segment.pool = block->pool->pair->tag;
    segment.is_expandable = block->expandable != nullptr;
    for (; block != nullptr && block->mapped; block = block->next) {
      MemoryBlock info;
      info.address = reinterpret_cast<uintptr_t>(block->start);
      info.bytes = block->bytes;
      info.requested_bytes = block->requested_bytes;
      if (block->uses.is_pending()) info.state = MemoryBlock::State::kAwaitingFree;
      if (block->allocated) info.state = MemoryBlock::State::kAllocated;
      segment.bytes += block->bytes;
      if (block->allocated) segment.allocated_bytes += block->bytes;
      if (info.state != MemoryBlock::State::kInactive) segment.active_bytes += block->bytes;
      segment.blocks.push_back(info);
    }
    snapshot.segments.push_back(std::move(segment));
  }
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const MemorySegment& a, const MemorySegment& b) { return a.address < b.address; });
  return snapshot;
}

}  // namespace tensorcask
