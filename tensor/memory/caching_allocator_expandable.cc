// Expandable segments of a CachingAllocator: reserved addresses to which memory is mapped in steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
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
  expandable_.reserve(expandable_.size() + 1);
  BlockNode node = MakeBlock();
  CASK_ASSIGN_OR_RETURN(void* const start, backend_->ReserveAddresses(segment->bytes));
  segment->start = static_cast<char*>(start);
  Block* const gap = AddBlock(std::move(node), request.stream, request.pool, segment->start, segment->bytes);
  gap->mapped = false;
  gap->expandable = segment.get();
  expandable_.push_back(std::move(segment));
  return expandable_.back().get();
}

// The first gap that has room for `bytes` together with the free block before it and the gaps and free blocks after
// it.
CachingAllocator::Block* CachingAllocator::FindGap(const Expandable& segment, size_t bytes) const {
  for (Block* gap = blocks_.find(segment.start)->second.get(); gap != nullptr; gap = gap->next) {
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
    absl::StatusOr<Block*> mapped = MapStep(grown == nullptr ? gap : grown->next);
    if (!mapped.ok()) {
      request.error = mapped.status();
      return nullptr;
    }
    grown = *mapped;
  }
  return grown;
}

// Maps memory to the first step of a gap, and joins it with the free blocks around it: the whole free block.
absl::StatusOr<CachingAllocator::Block*> CachingAllocator::MapStep(Block* gap) {
  const size_t step = gap->expandable->step_bytes;
  if (step > limit_bytes_ - std::min(limit_bytes_, reserved_bytes_))
    return absl::ResourceExhaustedError("the limit is reached");
  if (gap->bytes > step) Split(gap, NewRest(*gap, step));
  absl::Cleanup rejoin = [&] { JoinNeighbours(gap); };
  CASK_RETURN_IF_ERROR(backend_->Map(gap->start, step));
  std::move(rejoin).Cancel();
  gap->mapped = true;
  reserved_bytes_ += step;
  Count(&MemoryStatistics::reserved_bytes, *gap->pool, static_cast<int64_t>(step));
  Block* const whole = JoinNeighbours(gap);
  AddFree(whole);
  return whole;
}

// Unmaps the steps that lie in a free block. Its ends, if they are parts of steps, stay free blocks.
absl::Status CachingAllocator::UnmapSteps(Block* block) {
  const size_t step = block->expandable->step_bytes;
  const auto split_free = [this](Block* free, size_t bytes) {
    Block* const rest = NewRest(*free, bytes);
    RemoveFree(free);
    Split(free, rest);
    AddFree(free);
    AddFree(rest);
    return rest;
  };
  while (block != nullptr) {
    const auto begin = static_cast<size_t>(block->start - block->expandable->start);
    const size_t before = RoundUp(begin, step) - begin;
    if (block->bytes < before + step) break;
    absl::Cleanup rejoin = [&] {
      RemoveFree(block);
      AddFree(JoinNeighbours(block));
    };
    if (before > 0) block = split_free(block, before);
    Block* const rest = block->bytes > step ? split_free(block, step) : nullptr;
    CASK_RETURN_IF_ERROR(backend_->Unmap(block->start, step));
    std::move(rejoin).Cancel();
    RemoveFree(block);
    block->mapped = false;
    reserved_bytes_ -= step;
    Count(&MemoryStatistics::reserved_bytes, *block->pool, -static_cast<int64_t>(step));
    JoinNeighbours(block);
    block = rest;
  }
  return absl::OkStatus();
}

// Unmaps the free steps of the segments of pools that are not private or retired, and gives back the addresses of the
// segments that have no memory then.
absl::Status CachingAllocator::ReleaseExpandable() {
  absl::Status result;
  for (size_t i = 0; i < expandable_.size();) {
    const Expandable& segment = *expandable_[i];
    const PoolPair& pair = *segment.pool->pair;
    const auto first = [&] { return blocks_.find(segment.start)->second.get(); };
    if (pair.id == 0 || pair.is_retired) {
      for (Block* block = first(); block != nullptr;) {
        Block* next = block->next;
        // A gap after a free block becomes one with the gaps in it.
        if (next != nullptr && !next->mapped) next = next->next;
        if (block->is_free()) result.Update(UnmapSteps(block));
        block = next;
      }
    }
    const bool has_memory = first()->mapped || first()->next != nullptr;
    const absl::Status freed = has_memory ? absl::OkStatus() : backend_->FreeAddresses(segment.start, segment.bytes);
    result.Update(freed);
    if (has_memory || !freed.ok()) {
      ++i;
    } else {
      RemoveBlock(first());
      expandable_.erase(expandable_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return result;
}

}  // namespace tensorcask
