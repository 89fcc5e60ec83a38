// Keeps freed host memory for reuse, with a part of the cache for each thread.
//
//   RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make();
//   for (...) { ... }                        // loads a checkpoint into its tensors: later without page faults
//   cache->statistics().cached_bytes         // what it keeps
//   cache->Trim();                           // returns all of that
//
// Sizes up to kMaxSmallBytes are rounded up to powers of two, larger ones to multiples of 64. Each thread keeps freed
// blocks for itself: up to kSmallPerThread of each small size, and the kLargePerThread most recently freed larger
// blocks of at most kMaxThreadBytes each. All threads share the other blocks.
//
// Any thread may free any block. When a thread ends, its blocks become available to all threads.

#ifndef TENSORCASK_TENSOR_MEMORY_HOST_CACHING_ALLOCATOR_H_
#define TENSORCASK_TENSOR_MEMORY_HOST_CACHING_ALLOCATOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/internal/pool_allocator.h"

namespace tensorcask {

namespace internal {
struct ThreadCache;
}  // namespace internal

class HostCachingAllocator final : public Allocator {
 public:
  static constexpr size_t kMaxSmallBytes = size_t{64} << 10;
  static constexpr size_t kSmallPerThread = 16;
  static constexpr size_t kLargePerThread = 8;
  static constexpr size_t kMaxThreadBytes = size_t{2} << 20;

  // Memory comes from `below`; null: CpuAllocator::Default(). What the threads share keeps at most `max_cached_bytes`
  // in small blocks and as many in larger ones. Each thread keeps at most an eighth of that in larger blocks, and up to
  // 2 MiB in small ones.
  static RefPtr<HostCachingAllocator> Make(RefPtr<Allocator> below = nullptr, uint64_t max_cached_bytes = UINT64_MAX);

  absl::string_view name() const override { return "host_caching"; }
  // If the allocator below has no memory, all kept blocks are returned, and it is asked once more.
  void* Allocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;

  // Returns all kept blocks, those of all threads included, to the allocator below, and says how many bytes they had.
  // If the system refuses membarrier(2), each thread keeps its blocks until it ends.
  uint64_t Trim();

  // Sizes after rounding. What threads keep counts as cached, unless the system refuses membarrier(2): then it counts
  // as used.
  struct Statistics {
    uint64_t used_bytes = 0;    // the size of blocks in use
    uint64_t cached_bytes = 0;  // the size of kept blocks
    int64_t from_below = 0;     // blocks that came from the allocator below; Allocate served all others with kept ones
  };
  // Waits for each thread that is in a call of this allocator.
  Statistics statistics() const;
  uint64_t cached_bytes() const { return statistics().cached_bytes; }
  std::optional<uint64_t> reserved_bytes() const override;

 private:
  HostCachingAllocator(RefPtr<Allocator> below, uint64_t max_cached_bytes);
  ~HostCachingAllocator() override;

  bool MayKeep(size_t bytes) const { return bytes <= kMaxSmallBytes || bytes <= max_thread_bytes_; }  // in a thread
  // The cache of this thread, locked. Null while the thread ends, or if there is no memory for it.
  internal::ThreadCache* LockCache();
  internal::ThreadCache* NewThreadCache();
  // Calls `visit` for the cache of each thread, which cannot use it meanwhile.
  void VisitThreads(absl::FunctionRef<void(internal::ThreadCache&)> visit) const;
  void* AllocateSlowly(size_t bytes);
  void DeallocateSlowly(void* block, size_t bytes);

  const uint64_t id_;                  // unique in the process
  const size_t max_thread_bytes_;      // the size of the largest block that a thread keeps
  const RefPtr<PoolAllocator> small_;  // powers of two
  const RefPtr<PoolAllocator> large_;  // exact sizes
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<internal::ThreadCache>> thread_caches_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_HOST_CACHING_ALLOCATOR_H_
