// A memory pool: freed blocks are kept in buckets by powers of two, and are never split or merged.
//
//   RefPtr<PoolAllocator> pool = PoolAllocator::Make();
//   void* block = pool->Allocate(1000);     // a block of 1024 bytes
//   pool->Deallocate(block, 1000);          // kept; any thread may free
//   pool->Allocate(600) == block            // same bucket
//   pool->Trim();                           // returns the kept blocks to the allocator below
//
// With Options::exact_sizes, a bucket holds blocks of one requested size (rounded up to 64) instead: nothing is wasted
// for programs that allocate the same sizes again and again, such as a loop that loads checkpoints.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_POOL_ALLOCATOR_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_POOL_ALLOCATOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

class PoolAllocator final : public Allocator {
 public:
  struct Options {
    bool exact_sizes = false;
    uint64_t max_cached_bytes = UINT64_MAX;  // blocks beyond it are freed at once
  };
  struct Counters {
    uint64_t used_bytes = 0;  // blocks in use, with rounding
    uint64_t peak_used_bytes = 0;
    uint64_t cached_bytes = 0;
    uint64_t peak_reserved_bytes = 0;  // used and cached
    int64_t hits = 0;                  // allocations that a kept block served
    int64_t misses = 0;
  };

  // Memory comes from `below`; null: CpuAllocator::Default().
  static RefPtr<PoolAllocator> Make() { return Make(nullptr, Options()); }
  static RefPtr<PoolAllocator> Make(RefPtr<Allocator> below, Options options);

  absl::string_view name() const override { return "pool"; }
  // If the allocator below has no memory, the pool returns its kept blocks and asks once more.
  void* Allocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;

  // The size of the block for a request: a power of two of at least 32, or a multiple of 64 with exact_sizes. Requests
  // above 2^62 are not rounded.
  size_t BlockBytes(size_t bytes) const {
    if (bytes > size_t{1} << 62) return bytes;
    if (options_.exact_sizes) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return bytes <= 32 ? 32 : size_t{1} << (64 - __builtin_clzll(bytes - 1));
  }
  // The bucket of a request without exact_sizes: 0 for up to 32 bytes, 1 for up to 64, ...; at most 31.
  static int BucketOf(size_t bytes) { return bytes <= 32 ? 0 : std::min(59 - __builtin_clzll(bytes - 1), 31); }

  // Returns kept blocks, largest first, until at most `keep_bytes` are kept. The number of bytes returned.
  uint64_t Trim(uint64_t keep_bytes = 0);
  Counters counters() const;

 private:
  PoolAllocator(RefPtr<Allocator> below, Options options) : below_(std::move(below)), options_(options) {}
  ~PoolAllocator() override { Trim(); }

  using Kept = std::multimap<size_t, void*>;  // by block size

  // Require: the lock is held.
  void* TakeKept(size_t block_bytes);  // null if there is none
  void AddSpareNode();
  void CountUse(size_t block_bytes);
  // From the allocator below. Requires: the lock is not held.
  void* AllocateNew(size_t block_bytes);

  const RefPtr<Allocator> below_;
  const Options options_;
  mutable std::mutex mutex_;
  Kept kept_;
  std::vector<Kept::node_type> spare_nodes_;  // one for each block in use, so that freeing it allocates nothing
  Counters counters_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_POOL_ALLOCATOR_H_
