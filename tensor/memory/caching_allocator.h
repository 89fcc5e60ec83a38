// Keeps the memory of a device for reuse, by the rules of PyTorch's caching allocator.
//
//   CASK_ASSIGN_OR_RETURN(CachingOptions options, CachingOptions::Parse("max_split_size_mb:128"));
//   RefPtr<CachingAllocator> cache = CachingAllocator::Make(backend, options);
//   CASK_ASSIGN_OR_RETURN(Tensor t, Tensor::Create(dtype, shape, cache));   // t.device() is that of the backend
//   CASK_ASSIGN_OR_RETURN(void* const block, cache->TryAllocate(1000));  // 512-byte steps: a block of 1024 bytes
//   cache->RecordStream(block, other);   // work of `other` uses the block too
//   cache->Deallocate(block, 1000);      // cached; reused after the work of `other` has finished
//   std::cout << cache->statistics().ToString() << cache->Snapshot().Draw();
//
// Segments are what the device gives, blocks are parts of a segment. Sizes are rounded up to multiples of 512 bytes.
//
//   block size         pool    segment
//   up to 1 MiB        small   2 MiB
//   below 10 MiB       large   20 MiB
//   10 MiB and more    large   the size, rounded up to 2 MiB
//
// A request gets the smallest cached block of its pool and stream that is large enough; among equal ones, the one at
// the lowest address. The rest of the block is split off if it has at least 512 bytes (small pool) or more than 1 MiB
// (large pool). A freed block merges with its free neighbours.
//
// With CachingOptions::expandable_segments, each stream and pool has one segment instead, which reserves 9/8 of the
// device's addresses. Memory is mapped to it in steps of 2 MiB (small pool) and 20 MiB (large pool), in the first gap
// that, with the free blocks beside it, is large enough. The rest of a block is split off if it has at least 512
// bytes. Releasing cached memory unmaps the steps that are free completely. As in PyTorch, such segments and their free
// blocks are not in the counts `segments` and `inactive_split`.
//
// Streams: a block belongs to the stream that it was allocated for. Work of that stream may still use the block when it
// is freed, because the block is reused for the same stream only. For other streams, RecordStream must be called.
//
// If no cached block fits, the allocator takes these steps until one gives a block:
//   1. calls the callbacks, and searches again if one freed a block
//   2. collects garbage, and asks the device for a segment; if a freed block waits for the whole device (kEveryStream),
//      waits for it and searches again
//   3. releases cached blocks of at least max_split_size, and asks again
//   4. releases all cached segments without a block in use, and asks again
// Then the request fails with ResourceExhausted and all the numbers.
//
// Backends are called under the allocator's lock. All functions may be called from several threads; callbacks are
// called without the lock. The allocator is destroyed after all blocks were freed, and then returns all memory to the
// device.

#ifndef TENSORCASK_TENSOR_MEMORY_CACHING_ALLOCATOR_H_
#define TENSORCASK_TENSOR_MEMORY_CACHING_ALLOCATOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/allocate_or_null.h"
#include "tensorcask/tensor/memory/internal/pending_frees.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/pinned_allocator.h"

namespace tensorcask {

namespace internal {
class StagedMemory;
}  // namespace internal

class CachingAllocator final : public Allocator {
 public:
  static constexpr size_t kMinBlockBytes = 512;
  static constexpr size_t kSmallBytes = size_t{1} << 20;         // requests up to this size use the small pool
  static constexpr size_t kSmallSegmentBytes = size_t{2} << 20;  // segments of the small pool
  static constexpr size_t kLargeSegmentBytes = size_t{20}
                                               << 20;  // segments of the large pool, below kMinOwnSegmentBytes
  static constexpr size_t kMinOwnSegmentBytes = size_t{10} << 20;  // larger requests get their own segment
  static constexpr size_t kRoundLargeBytes = size_t{2} << 20;      // own segments: multiples of it

  static RefPtr<CachingAllocator> Make(RefPtr<DeviceBackend> backend, const CachingOptions& options = {});

  absl::string_view name() const override { return "caching"; }
  void* Allocate(size_t bytes) override { return internal::AllocateOrNull(*this, bytes); }
  absl::StatusOr<void*> TryAllocate(size_t bytes) override { return TryAllocate(bytes, kDefaultStream); }
  // Requires: this allocator returned the block, which was not freed since.
  void Deallocate(void* block, size_t bytes) override;
  BlockInfo Describe(const void* block) const override;
  std::optional<uint64_t> reserved_bytes() const override;
  // Copies are work of stream 0; those of an allocator that OnStream returned are work of its stream.
  DeviceMemory* device_memory() const override;

  // `bytes` > 0. Errors: ResourceExhausted, with all numbers, if neither the cache nor the device has the memory or the
  // limit is reached; other errors of the device as they are.
  absl::StatusOr<void*> TryAllocate(size_t bytes, StreamId stream);
  // The same from a private pool, whose segments serve no other pool. The pool is made when it is first used. The empty
  // tag means the common pool.
  absl::StatusOr<void*> TryAllocate(size_t bytes, StreamId stream, absl::string_view pool);
  // An Allocator over `cache` whose blocks belong to `stream`. Blocks may be freed through either one.
  static RefPtr<Allocator> OnStream(RefPtr<CachingAllocator> cache, StreamId stream) {
    return OnPool(std::move(cache), "", stream);
  }
  // The same with blocks of a private pool: for work that is recorded once and repeated at the same addresses, such as
  // a CUDA graph. Nothing else is allocated there, and cached segments of the pool are not released.
  static RefPtr<Allocator> OnPool(RefPtr<CachingAllocator> cache, absl::string_view pool,
                                  StreamId stream = kDefaultStream);
  // Until the next allocation from the private pool, its cached segments are released like those of the common pool.
  // Blocks in use stay as they are. Errors: NotFound if there is no such pool.
  absl::Status RetirePool(absl::string_view pool);

  // Work that is queued on `stream` at the time of the free may use the block. No effect for the block's own stream.
  // kEveryStream stands for streams that may be gone by then: the block is reused after all work of the device.
  // Errors: InvalidArgument if `block` is not the start of a block in use.
  absl::Status RecordStream(const void* block, StreamId stream);

  // Waits for the streams of freed blocks and returns to the device each segment without a block in use. Also waits for
  // the work that uses dropped external memory, and releases that memory; not if it was wrapped with an allocator of
  // OnStream or OnPool.
  // A program that imports its own exports (DLPack) calls this before it drops the allocator: memory of the allocator
  // that is kept for such work keeps the allocator, too.
  // Errors: the first error of the device; segments that could not be freed stay in the cache.
  absl::Status EmptyCache();

  // Limits the segments to this share of the device's memory. Segments that already exceed the limit are kept.
  // Errors: InvalidArgument unless 0 <= fraction <= 1; errors of DeviceBackend::MemoryInfo.
  absl::Status SetMemoryFraction(double fraction);

  // Called when no cached block fits. Returns whether it freed a block of this allocator.
  void AddMissCallback(std::function<bool()> callback);

  DeviceBackend& backend() const { return *backend_; }
  // The host memory through which device_memory() copies; also for tensors of the program that are copied often.
  const RefPtr<PinnedAllocator>& pinned() const { return pinned_; }
  MemoryStatistics statistics() const;
  void ResetPeakStatistics();
  void ResetAccumulatedStatistics();
  MemorySnapshot Snapshot() const;

 private:
  struct Pool;
  struct Expandable;
  struct Block;
  struct FreeKey {  // what a request looks for
    StreamId stream;
    size_t bytes;
  };
  struct BlockOrder {  // by stream, size and address
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const;
    bool operator()(const Block* a, const FreeKey& b) const;
  };
  using FreeBlocks = std::set<Block*, BlockOrder>;
  struct Block {
    StreamId stream = kDefaultStream;
    Pool* pool = nullptr;
    char* start = nullptr;
    size_t bytes = 0;
    size_t requested_bytes = 0;
    int64_t id = 0;  // the number of the allocation
    bool allocated = false;
    bool mapped = true;                 // false: addresses without memory; in no pool's free_blocks
    Expandable* expandable = nullptr;   // its segment, if that is expandable
    int64_t searches_since_use = 0;     // counted only if garbage is collected
    internal::PendingFrees::Uses uses;  // by streams other than its own
    FreeBlocks::node_type free_node;    // while it is in no pool's free_blocks
    Block* previous = nullptr;          // neighbours in the segment
    Block* next = nullptr;

    bool is_split() const { return previous != nullptr || next != nullptr; }
    bool is_active() const { return allocated || uses.is_pending(); }
    bool is_free() const { return mapped && !is_active(); }
  };
  struct PoolPair;
  struct Pool {
    PoolPair* pair = nullptr;
    bool is_small = false;
    FreeBlocks free_blocks;
  };
  struct PoolPair {
    PoolPair(int64_t pool_id, absl::string_view pool_tag);

    const int64_t id;  // 0: the common pool
    const std::string tag;
    Pool small;
    Pool large;
    bool is_retired = false;
  };
  // Reserved addresses. Blocks, mapped ones and others, cover them without gaps.
  struct Expandable {
    StreamId stream = kDefaultStream;
    Pool* pool = nullptr;
    char* start = nullptr;
    size_t bytes = 0;
    size_t step_bytes = 0;  // memory is mapped and unmapped in such steps
  };
  struct Request {
    size_t requested_bytes = 0;
    size_t bytes = 0;          // the size of the block
    size_t segment_bytes = 0;  // the size of a new segment
    StreamId stream = kDefaultStream;
    PoolPair* pair = nullptr;
    Pool* pool = nullptr;
    absl::Status error;  // why the last attempt to get a new segment failed
  };
  using Blocks = std::unordered_map<const void*, std::unique_ptr<Block>>;
  using BlockNode = Blocks::node_type;
  using CounterOf = PoolCounters MemoryStatistics::*;

  CachingAllocator(RefPtr<DeviceBackend> backend, const CachingOptions& options);
  ~CachingAllocator() override;

  // All below require: the lock is held. RunMissCallbacks gives it up for a while. After std::bad_alloc all blocks are
  // valid; some cached memory may have been released or mapped.
  PoolPair* PairOf(absl::string_view tag);
  Block* FindFreeBlock(const Request& request);
  bool RunMissCallbacks(std::unique_lock<std::mutex>& lock);
  Block* NewSegment(Request& request, bool is_retry);
  Block* FindBlock(Request& request, std::unique_lock<std::mutex>& lock);
  Block* TakeFrom(Block* block, const Request& request);
  bool ShouldSplit(const Block& block, size_t bytes) const;
  void FreeBlock(Block* block);
  // These change blocks, but no statistics.
  BlockNode MakeBlock();                                                                    // for AddBlock
  Block* AddBlock(BlockNode node, StreamId stream, Pool* pool, char* start, size_t bytes);  // allocates nothing
  void AddFree(Block* block);
  void RemoveFree(Block* block);
  Block* NewRest(const Block& block, size_t bytes);  // for the bytes after the first `bytes`; Split links it
  // Require: none of these blocks is in free_blocks.
  void Split(Block* block, Block* rest);
  void JoinNext(Block* block);  // adds the next block to this one
  void RemoveBlock(const Block* block);
  // Joins a block with its neighbours: free with free, unmapped with unmapped. Returns the joined block.
  Block* JoinNeighbours(Block* block);
  // For expandable segments (caching_allocator_expandable.cc).
  absl::StatusOr<Expandable*> ExpandableOf(const Request& request);
  Block* ExpandSegment(Request& request);
  Block* FindGap(const Expandable& segment, size_t bytes) const;
  absl::StatusOr<Block*> MapStep(Block* gap);
  absl::Status UnmapSteps(Block* block);
  absl::Status ReleaseExpandable();
  // Releases memory to the device.
  void CollectGarbage();
  bool ReleaseOversize(const Request& request);
  absl::Status ReleaseCached();
  absl::Status ReleaseBlock(Block* block);  // Requires: it is free and a whole segment
  absl::Status ProcessFrees(bool wait);
  absl::Status OutOfMemory(const Request& request) const;
  void Count(CounterOf counters, const Pool& pool, int64_t amount);
  bool IsOversize(size_t bytes) const { return bytes >= options_.max_split_size; }

  const RefPtr<DeviceBackend> backend_;
  const RefPtr<PinnedAllocator> pinned_;
  const CachingOptions options_;
  const bool is_expandable_;
  std::unique_ptr<internal::StagedMemory> memory_;
  mutable std::mutex mutex_;
  PoolPair common_{0, ""};
  std::map<std::string, std::unique_ptr<PoolPair>, std::less<>> private_;  // by tag
  int64_t next_pool_id_ = 1;
  Blocks blocks_;         // by start
  BlockNode spare_node_;  // kept from the last removed block, so that repeated splits and joins allocate nothing
  std::vector<std::unique_ptr<Expandable>> expandable_;
  internal::PendingFrees frees_;
  std::vector<std::function<bool()>> miss_callbacks_;
  std::optional<double> fraction_;
  uint64_t limit_bytes_ = UINT64_MAX;
  uint64_t reserved_bytes_ = 0;
  int64_t next_id_ = 1;
  MemoryStatistics statistics_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_CACHING_ALLOCATOR_H_
