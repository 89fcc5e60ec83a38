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
  CASK_ASSIGN_OR_RETURN(void* const start, backend_->ReserveAddresses(segment->bytes));
  absl::Cleanup free = [&] { static_cast<void>(backend_->FreeAddresses(start, segment->bytes)); };
  segment->start = static_cast<char*>(start);
  expandable_.reserve(expandable_.size() + 1);
  Block* const gap = NewBlock(request.stream, request.pool, segment->start, segment->bytes);
  std::move(free).Cancel();
  gap->mapped = false;
  gap->expandable = segment.get();
  expandable_.push_back(std::move(segment));
  return expandable_.back().get();
}

// The first gap that has room for `bytes` together with the free block before it and the gaps and free blocks behind
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

// Gives back the addresses of segments without memory.
absl::Status CachingAllocator::ReleaseExpandable() {
  absl::Status result;
  const auto is_released = [&](const std::unique_ptr<Expandable>& segment) {
    Block* const block = blocks_.find(segment->start)->second.get();
    if (block->mapped || block->next != nullptr) return false;
    const absl::Status freed = backend_->FreeAddresses(segment->start, segment->bytes);
    result.Update(freed);
    if (freed.ok()) blocks_.erase(blocks_.find(segment->start));
    return freed.ok();
  };
  expandable_.erase(std::remove_if(expandable_.begin(), expandable_.end(), is_released), expandable_.end());
  return result;
}

}  // namespace tensorcask
