#include "tensorcask/tensor/memory/pool_allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {
namespace {

constexpr size_t kMinBlockBytes = 32;
constexpr size_t kMaxRounded = size_t{1} << 62;
constexpr int kMinLog2 = 5;
constexpr int kLastBucket = 31;

// The least i with 2^i >= bytes. Requires: bytes > 1.
int CeilLog2(size_t bytes) { return 64 - __builtin_clzll(bytes - 1); }

}  // namespace

RefPtr<PoolAllocator> PoolAllocator::Make(RefPtr<Allocator> below, Options options) {
  if (below == nullptr) below = CpuAllocator::Default();
  return RefPtr<PoolAllocator>::AdoptNew(new PoolAllocator(std::move(below), options));
}

size_t PoolAllocator::BlockBytes(size_t bytes) const {
  if (bytes > kMaxRounded) return bytes;
  if (options_.exact_sizes) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return size_t{1} << CeilLog2(std::max(bytes, kMinBlockBytes));
}

int PoolAllocator::BucketOf(size_t bytes) {
  return std::min(CeilLog2(std::max(bytes, kMinBlockBytes)) - kMinLog2, kLastBucket);
}

void* PoolAllocator::Allocate(size_t bytes) {
  const size_t block_bytes = BlockBytes(bytes);
  void* block = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = kept_.find(block_bytes);
    if (found != kept_.end()) {
      block = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) kept_.erase(found);
      counters_.cached_bytes -= block_bytes;
    }
  }
  const bool is_hit = block != nullptr;
  if (!is_hit) block = below_->Allocate(block_bytes);
  if (block == nullptr && Trim() > 0) block = below_->Allocate(block_bytes);
  if (block == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  (is_hit ? counters_.hits : counters_.misses) += 1;
  counters_.used_bytes += block_bytes;
  counters_.peak_used_bytes = std::max(counters_.peak_used_bytes, counters_.used_bytes);
  counters_.peak_reserved_bytes =
      std::max(counters_.peak_reserved_bytes, counters_.used_bytes + counters_.cached_bytes);
  return block;
}

void PoolAllocator::Deallocate(void* block, size_t bytes) {
  const size_t block_bytes = BlockBytes(bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    counters_.used_bytes -= block_bytes;
    if (counters_.cached_bytes <= options_.max_cached_bytes &&
        block_bytes <= options_.max_cached_bytes - counters_.cached_bytes) {
      kept_[block_bytes].push_back(block);
      counters_.cached_bytes += block_bytes;
      return;
    }
  }
  below_->Deallocate(block, block_bytes);
}

uint64_t PoolAllocator::Trim(uint64_t keep_bytes) {
  std::vector<std::pair<void*, size_t>> blocks;
  uint64_t returned = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (counters_.cached_bytes > keep_bytes) {
      const auto largest = std::prev(kept_.end());
      blocks.emplace_back(largest->second.back(), largest->first);
      counters_.cached_bytes -= largest->first;
      returned += largest->first;
      largest->second.pop_back();
      if (largest->second.empty()) kept_.erase(largest);
    }
  }
  for (const auto& [block, block_bytes] : blocks) below_->Deallocate(block, block_bytes);
  return returned;
}

PoolAllocator::Counters PoolAllocator::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace tensorcask
