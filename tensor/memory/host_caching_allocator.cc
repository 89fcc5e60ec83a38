#include "tensorcask/tensor/memory/host_caching_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/internal/owner_lock.h"
#include "tensorcask/tensor/memory/pool_allocator.h"

namespace tensorcask {
namespace {

using Cache = HostCachingAllocator;

size_t ClassOf(size_t bytes) { return static_cast<size_t>(PoolAllocator::BucketOf(bytes)); }
size_t ClassBytes(size_t index) { return size_t{32} << index; }
// Of a block for a larger request. 0 if there is no such number.
size_t LargeBytes(size_t bytes) {
  return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
}

struct SmallBlocks {
  size_t size = 0;
  void* blocks[Cache::kSmallPerThread] = {};
};

struct LargeBlock {
  void* start = nullptr;
  size_t bytes = 0;
};

// In the order in which they were freed.
struct LargeBlocks {
  size_t size = 0;
  LargeBlock blocks[Cache::kLargePerThread];

  // Requires: i < size.
  LargeBlock Remove(size_t i) {
    const LargeBlock removed = blocks[i];
    for (--size; i < size; ++i) blocks[i] = blocks[i + 1];
    return removed;
  }
};

}  // namespace

namespace internal {

// The blocks of one thread. When the thread or the allocator ends, they go to the allocator's pools.
struct HostCacheFront {
  static constexpr size_t kClasses = 12;  // 32 bytes to 64 KiB

  struct Blocks {
    std::array<SmallBlocks, kClasses> small;
    LargeBlocks large;

    // Null if there is none.
    void* Take(size_t bytes) {
      if (bytes <= Cache::kMaxSmallBytes) {
        SmallBlocks& kept = small[ClassOf(bytes)];
        return kept.size == 0 ? nullptr : kept.blocks[--kept.size];
      }
      const size_t block_bytes = LargeBytes(bytes);
      for (size_t i = large.size; i-- > 0;) {
        if (large.blocks[i].bytes == block_bytes) return large.Remove(i).start;
      }
      return nullptr;
    }
    // False if there is no room.
    bool Add(void* block, size_t bytes) {
      if (bytes <= Cache::kMaxSmallBytes) {
        SmallBlocks& kept = small[ClassOf(bytes)];
        if (kept.size == Cache::kSmallPerThread) return false;
        kept.blocks[kept.size++] = block;
      } else {
        if (large.size == Cache::kLargePerThread) return false;
        large.blocks[large.size++] = {block, LargeBytes(bytes)};
      }
      return true;
    }
  };

  OwnerLock lock;  // the owner is the thread; others hold the lock of the allocator, too
  Blocks blocks;
  RefPtr<PoolAllocator> small;  // null: the thread or the allocator has ended
  RefPtr<PoolAllocator> large;
};

}  // namespace internal

namespace {

using internal::HostCacheFront;
using ByOther = internal::OwnerLock::ByOther;
using ByOwner = internal::OwnerLock::ByOwner;

// Moves all blocks of the front to the pools. `is_end`: the thread or the allocator ends.
template <typename Lock>
void Drain(HostCacheFront& front, bool is_end) {
  HostCacheFront::Blocks blocks;
  RefPtr<PoolAllocator> small;
  RefPtr<PoolAllocator> large;
  {
    const Lock lock(front.lock);
    std::swap(blocks, front.blocks);
    small = front.small;
    large = front.large;
    if (is_end) {
      front.small = nullptr;
      front.large = nullptr;
    }
  }
  for (size_t i = 0; i < blocks.small.size(); ++i) {
    const SmallBlocks& kept = blocks.small[i];
    for (size_t j = 0; j < kept.size; ++j) small->Deallocate(kept.blocks[j], ClassBytes(i));
  }
  for (size_t i = 0; i < blocks.large.size; ++i) {
    large->Deallocate(blocks.large.blocks[i].start, blocks.large.blocks[i].bytes);
  }
}

template <typename Lock>
bool IsOver(HostCacheFront& front) {
  const Lock lock(front.lock);
  return front.small == nullptr;
}

std::atomic<uint64_t> next_id{1};

// The front that the thread used last, and the number of its allocator. Has no constructor, so reading it is quick.
struct LastFront {
  uint64_t id;
  HostCacheFront* front;
};
thread_local LastFront last_front = {0, nullptr};

// Set when the fronts of the thread are gone, while destructors of other thread_local objects may still free blocks.
thread_local bool thread_is_ending = false;

// The fronts of a thread, by the number of their allocator.
struct ThreadFronts {
  std::vector<std::pair<uint64_t, std::shared_ptr<HostCacheFront>>> fronts;

  ~ThreadFronts() {
    thread_is_ending = true;
    last_front = {0, nullptr};
    for (const auto& [id, front] : fronts) Drain<ByOwner>(*front, /*is_end=*/true);
  }
};

thread_local ThreadFronts thread_fronts;

// The thread's front, locked. Null if that takes longer.
HostCacheFront* TryLockFront(uint64_t id) {
  if (last_front.id != id) return nullptr;
  return last_front.front->lock.TryLock() ? last_front.front : nullptr;
}

}  // namespace

RefPtr<HostCachingAllocator> HostCachingAllocator::Make(RefPtr<Allocator> below, uint64_t max_cached_bytes) {
  return RefPtr<HostCachingAllocator>::AdoptNew(new HostCachingAllocator(std::move(below), max_cached_bytes));
}

HostCachingAllocator::HostCachingAllocator(RefPtr<Allocator> below, uint64_t max_cached_bytes)
    : id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      max_thread_bytes_(
          static_cast<size_t>(std::min(uint64_t{kMaxThreadBytes}, max_cached_bytes / (8 * kLargePerThread)))),
      small_(PoolAllocator::Make(below, {/*exact_sizes=*/false, max_cached_bytes})),
      large_(PoolAllocator::Make(below, {/*exact_sizes=*/true, max_cached_bytes})) {}

HostCachingAllocator::~HostCachingAllocator() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& front : fronts_) Drain<ByOther>(*front, /*is_end=*/true);
}

HostCacheFront* HostCachingAllocator::ThreadFront() {
  if (thread_is_ending) return nullptr;
  HostCacheFront* found = nullptr;
  for (const auto& [id, front] : thread_fronts.fronts) {
    if (id == id_) found = front.get();
  }
  if (found == nullptr) {
    static_cast<void>(CatchExceptions([&] {
      found = NewThreadFront();
      return absl::OkStatus();
    }));
  }
  if (found != nullptr) last_front = {id_, found};
  return found;
}

HostCacheFront* HostCachingAllocator::NewThreadFront() {
  auto& mine = thread_fronts.fronts;
  const auto is_over = [](const auto& entry) { return IsOver<ByOwner>(*entry.second); };
  mine.erase(std::remove_if(mine.begin(), mine.end(), is_over), mine.end());
  mine.reserve(mine.size() + 1);
  auto front = std::make_shared<HostCacheFront>();
  front->small = small_;
  front->large = large_;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto other_is_over = [](const auto& other) { return IsOver<ByOther>(*other); };
  fronts_.erase(std::remove_if(fronts_.begin(), fronts_.end(), other_is_over), fronts_.end());
  fronts_.push_back(front);
  mine.emplace_back(id_, front);
  return front.get();
}

// The usual cases are short and call nothing but, at their end, the functions for all cases: so they save no registers.
void* HostCachingAllocator::Allocate(size_t bytes) {
  if (HostCacheFront* const front = TryLockFront(id_)) {
    void* const block = front->blocks.Take(bytes);
    front->lock.Unlock();
    if (block != nullptr) return block;
  }
  return AllocateSlowly(bytes);
}

void HostCachingAllocator::Deallocate(void* block, size_t bytes) {
  if (HostCacheFront* const front = MayKeep(bytes) ? TryLockFront(id_) : nullptr) {
    const bool is_kept = front->blocks.Add(block, bytes);
    front->lock.Unlock();
    if (is_kept) return;
  }
  DeallocateSlowly(block, bytes);
}

void* HostCachingAllocator::AllocateSlowly(size_t bytes) {
  if (HostCacheFront* const front = MayKeep(bytes) ? ThreadFront() : nullptr) {
    const ByOwner lock(front->lock);
    if (void* const block = front->blocks.Take(bytes)) return block;
  }
  PoolAllocator& pool = bytes <= kMaxSmallBytes ? *small_ : *large_;
  void* const block = pool.Allocate(bytes);
  if (block != nullptr) return block;
  Trim();
  return pool.Allocate(bytes);
}

void HostCachingAllocator::DeallocateSlowly(void* block, size_t bytes) {
  if (HostCacheFront* const front = MayKeep(bytes) ? ThreadFront() : nullptr) {
    const ByOwner lock(front->lock);
    if (front->blocks.Add(block, bytes)) return;
    if (bytes > kMaxSmallBytes) {  // the oldest one makes room
      const LargeBlock oldest = front->blocks.large.Remove(0);
      front->blocks.Add(block, bytes);
      block = oldest.start;
      bytes = oldest.bytes;
    }
  }
  (bytes <= kMaxSmallBytes ? *small_ : *large_).Deallocate(block, bytes);
}

void HostCachingAllocator::Trim() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& front : fronts_) Drain<ByOther>(*front, /*is_end=*/false);
  }
  small_->Trim();
  large_->Trim();
}

uint64_t HostCachingAllocator::cached_bytes() const {
  uint64_t bytes = small_->counters().cached_bytes + large_->counters().cached_bytes;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& front : fronts_) {
    const ByOther front_lock(front->lock);
    const HostCacheFront::Blocks& blocks = front->blocks;
    for (size_t i = 0; i < HostCacheFront::kClasses; ++i) bytes += blocks.small[i].size * ClassBytes(i);
    for (size_t i = 0; i < blocks.large.size; ++i) bytes += blocks.large.blocks[i].bytes;
  }
  return bytes;
}

}  // namespace tensorcask
