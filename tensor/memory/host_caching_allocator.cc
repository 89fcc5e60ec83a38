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

#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/pool_allocator.h"

namespace tensorcask {
namespace internal {

// Shared by its thread and its allocator. Either one may end first, and takes the blocks out under the lock, which
// otherwise only the thread and Trim take.
struct HostCacheFront {
  static constexpr size_t kClasses = 12;  // 32 bytes to 64 KiB

  std::mutex mutex;
  RefPtr<PoolAllocator> pool;
  bool thread_ended = false;
  std::array<std::vector<void*>, kClasses> kept;

  static size_t BytesOf(size_t index) { return size_t{32} << index; }

  // Requires: the lock is held.
  void Drain() {
    for (size_t i = 0; i < kClasses; ++i) {
      for (void* const block : kept[i]) pool->Deallocate(block, BytesOf(i));
      kept[i].clear();
    }
  }
};

}  // namespace internal

namespace {

using internal::HostCacheFront;

std::atomic<uint64_t> next_id{1};

// Set when the fronts of the thread are gone, while destructors of other thread_local objects may still free blocks.
thread_local bool thread_is_ending = false;

// The fronts of a thread, by the number of their allocator. Entries of allocators that are gone are empty.
struct ThreadFronts {
  std::vector<std::pair<uint64_t, std::shared_ptr<HostCacheFront>>> fronts;

  ~ThreadFronts() {
    thread_is_ending = true;
    for (const auto& [id, front] : fronts) {
      const std::lock_guard<std::mutex> lock(front->mutex);
      front->thread_ended = true;
      if (front->pool != nullptr) front->Drain();
    }
  }
};

thread_local ThreadFronts thread_fronts;

}  // namespace

RefPtr<HostCachingAllocator> HostCachingAllocator::Make(RefPtr<Allocator> below, uint64_t max_cached_bytes) {
  return RefPtr<HostCachingAllocator>::AdoptNew(new HostCachingAllocator(std::move(below), max_cached_bytes));
}

HostCachingAllocator::HostCachingAllocator(RefPtr<Allocator> below, uint64_t max_cached_bytes)
    : id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      small_(PoolAllocator::Make(below, {/*exact_sizes=*/false, max_cached_bytes})),
      large_(PoolAllocator::Make(below, {/*exact_sizes=*/true, max_cached_bytes})) {}

HostCachingAllocator::~HostCachingAllocator() {
  for (const auto& front : fronts_) {
    const std::lock_guard<std::mutex> lock(front->mutex);
    front->Drain();
    front->pool = nullptr;
  }
}

HostCacheFront* HostCachingAllocator::ThreadFront() {
  if (thread_is_ending) return nullptr;
  auto& mine = thread_fronts.fronts;
  for (const auto& [id, front] : mine) {
    if (id == id_) return front.get();
  }
  const auto is_over = [](const auto& entry) {
    const std::lock_guard<std::mutex> lock(entry.second->mutex);
    return entry.second->pool == nullptr;
  };
  mine.erase(std::remove_if(mine.begin(), mine.end(), is_over), mine.end());
  auto front = std::make_shared<HostCacheFront>();
  front->pool = small_;
  mine.emplace_back(id_, front);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto has_ended = [](const auto& other) {
    const std::lock_guard<std::mutex> other_lock(other->mutex);
    return other->thread_ended;
  };
  fronts_.erase(std::remove_if(fronts_.begin(), fronts_.end(), has_ended), fronts_.end());
  fronts_.push_back(front);
  return front.get();
}

void* HostCachingAllocator::Allocate(size_t bytes) {
  HostCacheFront* const front = bytes <= kMaxSmallBytes ? ThreadFront() : nullptr;
  if (front != nullptr) {
    const std::lock_guard<std::mutex> lock(front->mutex);
    auto& kept = front->kept[static_cast<size_t>(PoolAllocator::BucketOf(bytes))];
    if (!kept.empty()) {
      void* const block = kept.back();
      kept.pop_back();
      return block;
    }
  }
  PoolAllocator& pool = bytes <= kMaxSmallBytes ? *small_ : *large_;
  void* const block = pool.Allocate(bytes);
  if (block != nullptr) return block;
  Trim();
  return pool.Allocate(bytes);
}

void HostCachingAllocator::Deallocate(void* block, size_t bytes) {
  if (bytes > kMaxSmallBytes) return large_->Deallocate(block, bytes);
  HostCacheFront* const front = ThreadFront();
  if (front == nullptr) return small_->Deallocate(block, bytes);
  const std::lock_guard<std::mutex> lock(front->mutex);
  auto& kept = front->kept[static_cast<size_t>(PoolAllocator::BucketOf(bytes))];
  if (kept.size() < kSmallPerThread) {
    kept.push_back(block);
  } else {
    small_->Deallocate(block, bytes);
  }
}

void HostCachingAllocator::Trim() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& front : fronts_) {
      const std::lock_guard<std::mutex> front_lock(front->mutex);
      front->Drain();
    }
  }
  small_->Trim();
  large_->Trim();
}

uint64_t HostCachingAllocator::cached_bytes() const {
  uint64_t bytes = small_->counters().cached_bytes + large_->counters().cached_bytes;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& front : fronts_) {
    const std::lock_guard<std::mutex> front_lock(front->mutex);
    for (size_t i = 0; i < HostCacheFront::kClasses; ++i) bytes += front->kept[i].size() * HostCacheFront::BytesOf(i);
  }
  return bytes;
}

}  // namespace tensorcask
