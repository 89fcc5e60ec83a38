#include "tensorcask/tensor/memory/host_caching_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/internal/owner_lock.h"
#include "tensorcask/tensor/memory/internal/pool_allocator.h"

namespace tensorcask {
namespace {

using Cache = HostCachingAllocator;

size_t ClassOf(size_t bytes) { return static_cast<size_t>(PoolAllocator::BucketOf(bytes)); }
size_t ClassBytes(size_t index) { return size_t{32} << index; }
// The size of the block for a larger request. 0 if there is no such number.
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

// The blocks that a thread keeps. When the thread or the allocator ends, they go to the allocator's pools.
struct ThreadCache {
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

  OwnerLock lock;  // for `blocks`; the owner is the thread
  Blocks blocks;

  std::atomic<bool> has_ended{false};  // the thread or the allocator has
  std::mutex end_mutex;                // for the end of one of them
  RefPtr<PoolAllocator> small;         // the small_ of the allocator
  RefPtr<PoolAllocator> large;
  const OwnerProcess process;
};

}  // namespace internal

namespace {

using internal::OwnerLock;
using internal::ThreadCache;

// Moves all blocks to the allocator's pools. Requires: no other thread uses them.
void Drain(ThreadCache& cache) {
  ThreadCache::Blocks& blocks = cache.blocks;
  for (size_t i = 0; i < blocks.small.size(); ++i) {
    SmallBlocks& kept = blocks.small[i];
    while (kept.size > 0) cache.small->Deallocate(kept.blocks[--kept.size], ClassBytes(i));
  }
  while (blocks.large.size > 0) {
    const LargeBlock block = blocks.large.Remove(blocks.large.size - 1);
    cache.large->Deallocate(block.start, block.bytes);
  }
}

// The thread or the allocator ends. The other one may end at the same time.
void End(ThreadCache& cache) {
  const std::lock_guard<std::mutex> lock(cache.end_mutex);
  if (cache.has_ended.load(std::memory_order_relaxed)) return;
  Drain(cache);
  cache.small = nullptr;
  cache.large = nullptr;
  cache.has_ended.store(true, std::memory_order_release);
}

bool HasEnded(const ThreadCache& cache) { return cache.has_ended.load(std::memory_order_acquire); }

std::atomic<uint64_t> next_id{1};

// The cache that the thread used last, and the number of its allocator. Has no constructor, so reading it is quick.
struct LastCache {
  uint64_t id;
  ThreadCache* cache;
};
thread_local LastCache last_cache = {0, nullptr};

// Set when the caches of the thread are gone, while destructors of other thread_local objects may still free blocks.
thread_local bool thread_is_ending = false;

// The caches of a thread, by the number of their allocator.
struct ThreadCaches {
  std::vector<std::pair<uint64_t, std::shared_ptr<ThreadCache>>> caches;

  ~ThreadCaches() {
    thread_is_ending = true;
    last_cache = {0, nullptr};
    for (const auto& [id, cache] : caches) {
      if (!cache->process.IsThisProcess()) continue;  // its locks may be those of threads that a child does not have
      while (!cache->lock.TryLock()) std::this_thread::sleep_for(std::chrono::microseconds(50));
      End(*cache);
      cache->lock.Unlock();
    }
  }
};

thread_local ThreadCaches thread_caches;

// The thread's cache, locked. Null if that takes longer.
ThreadCache* TryLockCache(uint64_t id) {
  if (last_cache.id != id) return nullptr;
  return last_cache.cache->lock.TryLock() ? last_cache.cache : nullptr;
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
      large_(PoolAllocator::Make(below, {/*exact_sizes=*/true, max_cached_bytes})) {
  OwnerLock::RegisterProcessBarrier();  // now rather than at an allocation
}

HostCachingAllocator::~HostCachingAllocator() {
  for (const auto& cache : thread_caches_) {
    if (cache->process.IsThisProcess()) End(*cache);
  }
}

ThreadCache* HostCachingAllocator::LockCache() {
  if (thread_is_ending) return nullptr;
  ThreadCache* found = nullptr;
  for (const auto& [id, cache] : thread_caches.caches) {
    if (id == id_) found = cache.get();
  }
  if (found == nullptr) {
    static_cast<void>(CatchExceptions([&] {
      found = NewThreadCache();
      return absl::OkStatus();
    }));
  }
  if (found == nullptr) return nullptr;
  last_cache = {id_, found};
  while (!found->lock.TryLock()) const std::lock_guard<std::mutex> wait(mutex_);  // VisitThreads holds it
  return found;
}

ThreadCache* HostCachingAllocator::NewThreadCache() {
  auto& mine = thread_caches.caches;
  const auto allocator_has_ended = [](const auto& entry) { return HasEnded(*entry.second); };
  mine.erase(std::remove_if(mine.begin(), mine.end(), allocator_has_ended), mine.end());
  mine.reserve(mine.size() + 1);
  auto cache = std::make_shared<ThreadCache>();
  cache->small = small_;
  cache->large = large_;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto thread_has_ended = [](const auto& other) { return HasEnded(*other); };
  thread_caches_.erase(std::remove_if(thread_caches_.begin(), thread_caches_.end(), thread_has_ended),
                       thread_caches_.end());
  thread_caches_.push_back(cache);
  mine.emplace_back(id_, cache);
  return cache.get();
}

void HostCachingAllocator::VisitThreads(absl::FunctionRef<void(ThreadCache&)> visit) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& cache : thread_caches_) cache->lock.Request();
  const bool may_visit = OwnerLock::ProcessBarrier();
  for (const auto& cache : thread_caches_) {
    if (may_visit) {
      cache->lock.WaitForOwner();
      if (!HasEnded(*cache)) visit(*cache);
    }
    cache->lock.Withdraw();
  }
}

// The usual cases are short and call nothing but, at their end, the functions for all cases: so they save no registers.
void* HostCachingAllocator::Allocate(size_t bytes) {
  if (ThreadCache* const cache = TryLockCache(id_)) {
    void* const block = cache->blocks.Take(bytes);
    cache->lock.Unlock();
    if (block != nullptr) return block;
  }
  return AllocateSlowly(bytes);
}

void HostCachingAllocator::Deallocate(void* block, size_t bytes) {
  if (ThreadCache* const cache = MayKeep(bytes) ? TryLockCache(id_) : nullptr) {
    const bool is_kept = cache->blocks.Add(block, bytes);
    cache->lock.Unlock();
    if (is_kept) return;
  }
  DeallocateSlowly(block, bytes);
}

void* HostCachingAllocator::AllocateSlowly(size_t bytes) {
  if (ThreadCache* const cache = MayKeep(bytes) ? LockCache() : nullptr) {
    void* const block = cache->blocks.Take(bytes);
    cache->lock.Unlock();
    if (block != nullptr) return block;
  }
  PoolAllocator& pool = bytes <= kMaxSmallBytes ? *small_ : *large_;
  void* const block = pool.Allocate(bytes);
  if (block != nullptr) return block;
  Trim();
  return pool.Allocate(bytes);
}

void HostCachingAllocator::DeallocateSlowly(void* block, size_t bytes) {
  if (ThreadCache* const cache = MayKeep(bytes) ? LockCache() : nullptr) {
    bool is_kept = cache->blocks.Add(block, bytes);
    if (!is_kept && bytes > kMaxSmallBytes) {  // the oldest one makes room, and is freed in place of this one
      const LargeBlock oldest = cache->blocks.large.Remove(0);
      cache->blocks.Add(block, bytes);
      block = oldest.start;
      bytes = oldest.bytes;
    }
    cache->lock.Unlock();
    if (is_kept) return;
  }
  (bytes <= kMaxSmallBytes ? *small_ : *large_).Deallocate(block, bytes);
}

uint64_t HostCachingAllocator::Trim() {
  VisitThreads(Drain);
  return small_->Trim() + large_->Trim();
}

HostCachingAllocator::Statistics HostCachingAllocator::statistics() const {
  uint64_t kept_by_threads = 0;
  VisitThreads([&](const ThreadCache& cache) {
    for (size_t i = 0; i < ThreadCache::kClasses; ++i) kept_by_threads += cache.blocks.small[i].size * ClassBytes(i);
    const LargeBlocks& large = cache.blocks.large;
    for (size_t i = 0; i < large.size; ++i) kept_by_threads += large.blocks[i].bytes;
  });
  Statistics sum;
  for (const PoolAllocator* const pool : {small_.get(), large_.get()}) {
    const PoolAllocator::Counters counters = pool->counters();
    sum.used_bytes += counters.used_bytes;  // the pools do not know that threads keep some of these
    sum.cached_bytes += counters.cached_bytes;
    sum.from_below += counters.misses;
  }
  const uint64_t moved = std::min(kept_by_threads, sum.used_bytes);  // a thread may have used some since the visit
  sum.used_bytes -= moved;
  sum.cached_bytes += moved;
  return sum;
}

std::optional<uint64_t> HostCachingAllocator::reserved_bytes() const {
  const PoolAllocator::Counters small = small_->counters();
  const PoolAllocator::Counters large = large_->counters();
  return small.used_bytes + small.cached_bytes + large.used_bytes + large.cached_bytes;
}

}  // namespace tensorcask
