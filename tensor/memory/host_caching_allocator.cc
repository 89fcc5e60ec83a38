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

struct KeptBlock {
  void* start;
  size_t bytes;
};

// At most N freed blocks, in the order in which they were freed.
template <size_t N>
class KeptBlocks {
 public:
  size_t size() const { return size_; }
  const KeptBlock* begin() const { return blocks_; }
  const KeptBlock* end() const { return blocks_ + size_; }

  // Requires: size() < N.
  void Push(void* start, size_t bytes) { blocks_[size_++] = {start, bytes}; }
  // Removes the last one that has `bytes` bytes. Null if there is none.
  void* Take(size_t bytes) {
    if (size_ == 0) return nullptr;
    if (blocks_[size_ - 1].bytes == bytes) return blocks_[--size_].start;
    for (size_t i = size_ - 1; i-- > 0;) {
      if (blocks_[i].bytes == bytes) return Remove(i).start;
    }
    return nullptr;
  }
  // Requires: i < size().
  KeptBlock Remove(size_t i) {
    const KeptBlock removed = blocks_[i];
    for (--size_; i < size_; ++i) blocks_[i] = blocks_[i + 1];
    return removed;
  }

 private:
  size_t size_ = 0;
  KeptBlock blocks_[N] = {};
};

}  // namespace

namespace internal {

// The blocks of one thread. When the thread or the allocator ends, they go to the allocator's pools.
struct HostCacheFront {
  static constexpr size_t kClasses = 12;  // 32 bytes to 64 KiB

  struct Blocks {
    std::array<KeptBlocks<HostCachingAllocator::kSmallPerThread>, kClasses> small;
    KeptBlocks<HostCachingAllocator::kLargePerThread> large;
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
  for (const auto& kept : blocks.small) {
    for (const auto& block : kept) small->Deallocate(block.start, block.bytes);
  }
  for (const auto& block : blocks.large) large->Deallocate(block.start, block.bytes);
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

size_t ClassOf(size_t bytes) { return static_cast<size_t>(PoolAllocator::BucketOf(bytes)); }
size_t ClassBytes(size_t index) { return size_t{32} << index; }
// Of a block for a larger request.
size_t LargeBytes(size_t bytes) {
  return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
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
  return last_front.id == id_ ? last_front.front : FindThreadFront();
}

HostCacheFront* HostCachingAllocator::FindThreadFront() {
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

void* HostCachingAllocator::Allocate(size_t bytes) {
  if (bytes <= kMaxSmallBytes || bytes <= max_thread_bytes_) {
    HostCacheFront* const front = ThreadFront();
    void* const block = front == nullptr ? nullptr : TakeFrom(*front, bytes);
    if (block != nullptr) return block;
  }
  return AllocateShared(bytes);
}

void* HostCachingAllocator::TakeFrom(HostCacheFront& front, size_t bytes) const {
  const ByOwner lock(front.lock);
  HostCacheFront::Blocks& blocks = front.blocks;
  if (bytes <= kMaxSmallBytes) {
    const size_t index = ClassOf(bytes);
    return blocks.small[index].Take(ClassBytes(index));
  }
  return blocks.large.Take(LargeBytes(bytes));
}

void* HostCachingAllocator::AllocateShared(size_t bytes) {
  PoolAllocator& pool = bytes <= kMaxSmallBytes ? *small_ : *large_;
  void* const block = pool.Allocate(bytes);
  if (block != nullptr) return block;
  Trim();
  return pool.Allocate(bytes);
}

void HostCachingAllocator::Deallocate(void* block, size_t bytes) {
  if (bytes > kMaxSmallBytes) return DeallocateLarge(block, bytes);
  HostCacheFront* const front = ThreadFront();
  if (front != nullptr) {
    const ByOwner lock(front->lock);
    const size_t index = ClassOf(bytes);
    auto& kept = front->blocks.small[index];
    if (kept.size() < kSmallPerThread) return kept.Push(block, ClassBytes(index));
  }
  small_->Deallocate(block, bytes);
}

// Keeps the block, in place of the oldest one if there are many.
void HostCachingAllocator::DeallocateLarge(void* block, size_t bytes) {
  HostCacheFront* const front = bytes <= max_thread_bytes_ ? ThreadFront() : nullptr;
  if (front == nullptr) return large_->Deallocate(block, bytes);
  KeptBlock oldest;
  {
    const ByOwner lock(front->lock);
    auto& kept = front->blocks.large;
    if (kept.size() < kLargePerThread) return kept.Push(block, LargeBytes(bytes));
    oldest = kept.Remove(0);
    kept.Push(block, LargeBytes(bytes));
  }
  large_->Deallocate(oldest.start, oldest.bytes);
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
    for (size_t i = 0; i < HostCacheFront::kClasses; ++i) bytes += front->blocks.small[i].size() * ClassBytes(i);
    for (const KeptBlock& block : front->blocks.large) bytes += block.bytes;
  }
  return bytes;
}

}  // namespace tensorcask
