#include "tensorcask/tensor/memory/internal/pool_allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {
RefPtr<PoolAllocator> PoolAllocator::Make(RefPtr<Allocator> below, Options options) {
  if (below == nullptr) below = CpuAllocator::Default();
  return RefPtr<PoolAllocator>::AdoptNew(new PoolAllocator(std::move(below), options));
}

void* PoolAllocator::Allocate(size_t bytes) {
  const size_t block_bytes = BlockBytes(bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (void* const kept = TakeKept(block_bytes)) return kept;
  }
  void* const block = AllocateNew(block_bytes);
  return block == nullptr && Trim() > 0 ? AllocateNew(block_bytes) : block;
}

void* PoolAllocator::AllocateNew(size_t block_bytes) {
  const absl::Status has_node = CatchExceptions([&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    AddSpareNode();
    return absl::OkStatus();
  });
  if (!has_node.ok()) return nullptr;
  void* const block = below_->Allocate(block_bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (block == nullptr) {
    spare_nodes_.pop_back();
    return nullptr;
  }
  counters_.misses += 1;
  CountUse(block_bytes);
  return block;
}

void* PoolAllocator::TakeKept(size_t block_bytes) {
  const auto found = kept_.find(block_bytes);
  if (found == kept_.end()) return nullptr;
  void* const block = found->second;
  spare_nodes_.push_back(kept_.extract(found));  // does not grow: AddSpareNode reserved a place for each block
  counters_.cached_bytes -= block_bytes;
  counters_.hits += 1;
  CountUse(block_bytes);
  return block;
}

void PoolAllocator::AddSpareNode() {
  const size_t num_nodes = kept_.size() + spare_nodes_.size() + 1;
  if (spare_nodes_.capacity() < num_nodes) spare_nodes_.reserve(2 * num_nodes);
  Kept node = {{0, nullptr}};
  spare_nodes_.push_back(node.extract(node.begin()));
}

void PoolAllocator::CountUse(size_t block_bytes) {
  counters_.used_bytes += block_bytes;
  counters_.peak_used_bytes = std::max(counters_.peak_used_bytes, counters_.used_bytes);
  counters_.peak_reserved_bytes =
      std::max(counters_.peak_reserved_bytes, counters_.used_bytes + counters_.cached_bytes);
}

void PoolAllocator::Deallocate(void* block, size_t bytes) {
  const size_t block_bytes = BlockBytes(bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    CASK_CHECK(!spare_nodes_.empty(), "the block is in use");
    Kept::node_type node = std::move(spare_nodes_.back());
    spare_nodes_.pop_back();
    counters_.used_bytes -= block_bytes;
    if (counters_.cached_bytes <= options_.max_cached_bytes &&
        block_bytes <= options_.max_cached_bytes - counters_.cached_bytes) {
      node.key() = block_bytes;
      node.mapped() = block;
      kept_.insert(kept_.lower_bound(block_bytes), std::move(node));  // the next one of its size to be used
      counters_.cached_bytes += block_bytes;
      return;
    }
  }
  below_->Deallocate(block, block_bytes);
}

uint64_t PoolAllocator::Trim(uint64_t keep_bytes) {
  Kept returned;
  uint64_t returned_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (counters_.cached_bytes > keep_bytes) {
      const auto largest = std::prev(kept_.end());
      counters_.cached_bytes -= largest->first;
      returned_bytes += largest->first;
      returned.insert(kept_.extract(largest));
    }
  }
  for (const auto& [block_bytes, block] : returned) below_->Deallocate(block, block_bytes);
  return returned_bytes;
}

PoolAllocator::Counters PoolAllocator::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace tensorcask
