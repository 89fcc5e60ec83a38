// Expandable segments of a CachingAllocator: reserved addresses to which memory is mapped in steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_statistics.h"

namespace tensorcask {
namespace {

size_t RoundUp(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

// The segment of the request's stream and pool, made if there is none.
absl::StatusOr<CachingAllocator::Expandable*> CachingAllocator::ExpandableOf(const Request& request) {
  for (const auto& segment : expandable_) {
    if (segment->stream == request.stream && segment->pool == request.pool) return segment.get();
  }
  CASK_ASSIGN_OR_RETURN(const DeviceMemoryInfo info, backend_->MemoryInfo());
  auto segment = std::make_unique<Expandable>();
  segment->stream = request.stream;
  segment->pool = request.pool;
  segment->step_bytes =
      RoundUp(request.pool->is_small ? kSmallSegmentBytes : kLargeSegmentBytes, backend_->MappingGranularity());
  segment->bytes = RoundUp(static_cast<size_t>(info.total_bytes / 8 * 9), segment->step_bytes);
  CASK_ASSIGN_OR_RETURN(void* const start, backend_->ReserveAddresses(segment->bytes));
  segment->start = static_cast<char*>(start);
  auto gap = std::make_unique<Block>();
  gap->stream = request.stream;
  gap->pool = request.pool;
  gap->start = segment->start;
  gap->bytes = segment->bytes;
  gap->mapped = false;
  gap->expandable = segment.get();
  AddInactive(std::move(gap));
  expandable_.push_back(std::move(segment));
  return expandable_.back().get();
}

CachingAllocator::Block* CachingAllocator::BlockAt(const char* start) const {
  const auto inactive = inactive_.find(start);
  return inactive != inactive_.end() ? inactive->second.get() : active_.find(start)->second.get();
}

// The first gap that has room for `bytes` together with the free block before it and the gaps and free blocks behind
// it.
CachingAllocator::Block* CachingAllocator::FindGap(const Expandable& segment, size_t bytes) const {
  for (Block* gap = BlockAt(segment.start); gap != nullptr; gap = gap->next) {
    if (gap->mapped) continue;
    size_t room = gap->previous != nullptr && gap->previous->is_free() ? gap->previous->bytes : 0;
    for (const Block* end = gap; room < bytes && end != nullptr && (!end->mapped || end->is_free()); end = end->next) {
      room += end->bytes;
    }
    if (room >= bytes) return gap;
  }
  return nullptr;
}

// A free block of at least the request's size, after memory was mapped to gaps. Null: request.error says why.
CachingAllocator::Block* CachingAllocator::ExpandSegment(Request& request) {
  absl::StatusOr<Expandable*> segment = ExpandableOf(request);
  if (!segment.ok()) {
    request.error = segment.status();
    return nullptr;
  }
  Block* gap = FindGap(**segment, request.bytes);
  if (gap == nullptr) {
    request.error = absl::ResourceExhaustedError("the expandable segment has no room");
    return nullptr;
  }
  Block* grown = gap->previous != nullptr && gap->previous->is_free() ? gap->previous : nullptr;
  while (grown == nullptr || grown->bytes < request.bytes) {
    if (grown != nullptr) gap = grown->next;
    const size_t missing = request.bytes - (grown == nullptr ? 0 : grown->bytes);
    const size_t bytes = std::min(gap->bytes, RoundUp(missing, (*segment)->step_bytes));
    absl::StatusOr<Block*> mapped = MapFirst(gap, bytes);
    if (!mapped.ok()) {
      request.error = mapped.status();
      return nullptr;
    }
    grown = *mapped;
  }
  return grown;
}

// Maps memory to the first `bytes` bytes of a gap and merges them with the free blocks around them. What was mapped
// before an error stays as a free block.
absl::StatusOr<CachingAllocator::Block*> CachingAllocator::MapFirst(Block* gap, size_t bytes) {
  const size_t step = gap->expandable->step_bytes;
  absl::Status status;
  size_t mapped = 0;
  for (; mapped < bytes && status.ok(); mapped += status.ok() ? step : 0) {
    if (step > limit_bytes_ - std::min(limit_bytes_, reserved_bytes_)) {
      status = absl::ResourceExhaustedError("the limit is reached");
    } else {
      status = backend_->Map(gap->start + mapped, step);
    }
    if (status.ok()) reserved_bytes_ += step;
  }
  if (mapped == 0) return status;
  Pool& pool = *gap->pool;
  Count(&MemoryStatistics::reserved_bytes, pool, static_cast<int64_t>(mapped));
  if (mapped < gap->bytes) AddInactive(std::unique_ptr<Block>(SplitOff(gap, mapped)));
  gap->mapped = true;
  std::unique_ptr<Block> owned = std::move(inactive_[gap->start]);
  inactive_.erase(gap->start);
  Merge(gap, gap->previous);
  Merge(gap, gap->next);
  pool.free_blocks.insert(gap);
  AddInactive(std::move(owned));
  if (!status.ok()) return status;
  return gap;
}

// Unmaps the steps that lie in a free block. Its ends, if they are parts of steps, stay free blocks.
absl::Status CachingAllocator::UnmapFree(Block* block) {
  const Expandable& segment = *block->expandable;
  const auto begin = static_cast<size_t>(block->start - segment.start);
  const size_t first = RoundUp(begin, segment.step_bytes);
  const size_t last = (begin + block->bytes) / segment.step_bytes * segment.step_bytes;
  absl::Status status;
  size_t end = first;
  for (; end < last && status.ok(); end += status.ok() ? segment.step_bytes : 0) {
    status = backend_->Unmap(segment.start + end, segment.step_bytes);
  }
  if (end <= first) return status;
  Pool& pool = *block->pool;
  reserved_bytes_ -= end - first;
  Count(&MemoryStatistics::reserved_bytes, pool, -static_cast<int64_t>(end - first));
  pool.free_blocks.erase(block);
  if (end < begin + block->bytes) {
    Block* const tail = SplitOff(block, end - begin);
    pool.free_blocks.insert(tail);
    AddInactive(std::unique_ptr<Block>(tail));
  }
  Block* gap = block;
  if (first > begin) {
    gap = SplitOff(block, first - begin);
    pool.free_blocks.insert(block);
    AddInactive(std::unique_ptr<Block>(gap));
  }
  gap->mapped = false;
  // Gaps are merged as free blocks are.
  if (gap->next != nullptr && !gap->next->mapped) {
    Block* const next = gap->next;
    gap->bytes += next->bytes;
    gap->next = next->next;
    if (gap->next != nullptr) gap->next->previous = gap;
    inactive_.erase(inactive_.find(next->start));
  }
  if (gap->previous != nullptr && !gap->previous->mapped) {
    Block* const previous = gap->previous;
    previous->bytes += gap->bytes;
    previous->next = gap->next;
    if (previous->next != nullptr) previous->next->previous = previous;
    inactive_.erase(inactive_.find(gap->start));
  }
  return status;
}

// Gives back the addresses of segments without memory.
absl::Status CachingAllocator::ReleaseExpandable() {
  absl::Status result;
  const auto is_released = [&](const std::unique_ptr<Expandable>& segment) {
    Block* const block = BlockAt(segment->start);
    if (block->mapped || block->next != nullptr) return false;
    const absl::Status freed = backend_->FreeAddresses(segment->start, segment->bytes);
    result.Update(freed);
    if (freed.ok()) inactive_.erase(inactive_.find(segment->start));
    return freed.ok();
  };
  expandable_.erase(std::remove_if(expandable_.begin(), expandable_.end(), is_released), expandable_.end());
  return result;
}

}  // namespace tensorcask
