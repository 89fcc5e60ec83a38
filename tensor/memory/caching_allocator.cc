#include "tensorcask/tensor/memory/caching_allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/allocator_memory.h"
#include "tensorcask/tensor/memory/internal/make_node.h"
#include "tensorcask/tensor/memory/internal/staged_memory.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/pinned_allocator.h"

namespace tensorcask {
namespace {

size_t SegmentBytes(size_t bytes) {
  if (bytes <= CachingAllocator::kSmallBytes) return CachingAllocator::kSmallSegmentBytes;
  if (bytes < CachingAllocator::kMinOwnSegmentBytes) return CachingAllocator::kLargeSegmentBytes;
  constexpr size_t kStep = CachingAllocator::kRoundLargeBytes;
  return (bytes + kStep - 1) / kStep * kStep;
}

int64_t Signed(size_t bytes) { return static_cast<int64_t>(bytes); }

}  // namespace

bool CachingAllocator::BlockOrder::operator()(const Block* a, const FreeKey& b) const {
  return std::tuple(a->stream, a->bytes) < std::tuple(b.stream, b.bytes);
}

bool CachingAllocator::BlockOrder::operator()(const Block* a, const Block* b) const {
  return std::tuple(a->stream, a->bytes, reinterpret_cast<uintptr_t>(a->start)) <
         std::tuple(b->stream, b->bytes, reinterpret_cast<uintptr_t>(b->start));
}

RefPtr<CachingAllocator> CachingAllocator::Make(RefPtr<DeviceBackend> backend, const CachingOptions& options) {
  return RefPtr<CachingAllocator>::AdoptNew(new CachingAllocator(std::move(backend), options));
}

CachingAllocator::CachingAllocator(RefPtr<DeviceBackend> backend, const CachingOptions& options)
    : backend_(std::move(backend)),
      pinned_(PinnedAllocator::Make(backend_)),
      options_(options),
      is_expandable_(options.expandable_segments && backend_->MappingGranularity() != 0),
      frees_(backend_) {
  memory_ = internal::MakeStagedMemory(this, kDefaultStream);
}

CachingAllocator::~CachingAllocator() {
  memory_ = nullptr;  // waits for its work
  static_cast<void>(CatchExceptions([this] { return ProcessFrees(/*wait=*/true); }));
  // Freeing memory of a device waits for its work, so blocks whose events failed may be released as well.
  frees_.Abandon([this](void* block) { FreeBlock(static_cast<Block*>(block)); });
  for (const auto& [start, block] : blocks_) {
    CASK_CHECK(!block->is_active(), "a caching allocator is destroyed after its blocks were freed");
  }
  for (const auto& entry : private_) entry.second->is_retired = true;
  static_cast<void>(CatchExceptions([this] { return ReleaseCached(); }));
}

absl::StatusOr<void*> CachingAllocator::TryAllocate(size_t bytes, StreamId stream) {
  return TryAllocate(bytes, stream, "");
}

absl::StatusOr<void*> CachingAllocator::TryAllocate(size_t bytes, StreamId stream, absl::string_view pool) {
  CASK_CHECK(bytes > 0, "an allocation has at least one byte");
  static_cast<void>(memory_->ReleaseDone(/*wait=*/false));
  std::unique_lock<std::mutex> lock(mutex_);
  Request request;
  request.requested_bytes = bytes;
  request.stream = stream;
  // An event that cannot be queried counts as not finished; its block stays out of the cache.
  static_cast<void>(ProcessFrees(/*wait=*/false));
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) / 4) {
    request.bytes = bytes;
    statistics_.ooms += 1;
    return OutOfMemory(request);
  }
  request.bytes = options_.RoundSize(bytes);
  request.segment_bytes = SegmentBytes(request.bytes);
  request.pair = PairOf(pool);
  request.pool = request.bytes <= kSmallBytes ? &request.pair->small : &request.pair->large;

  Block* const found = FindBlock(request, lock);
  if (found == nullptr) {
    if (!absl::IsResourceExhausted(request.error)) return request.error;
    statistics_.ooms += 1;
    return OutOfMemory(request);
  }
  return TakeFrom(found, request)->start;
}

// The attempts in their order. The block is in its pool's free_blocks; null: request.error says why.
CachingAllocator::Block* CachingAllocator::FindBlock(Request& request, std::unique_lock<std::mutex>& lock) {
  if (Block* const block = FindFreeBlock(request)) return block;
  if (RunMissCallbacks(lock)) {
    if (Block* const block = FindFreeBlock(request)) return block;
  }
  if (fraction_.has_value() && options_.garbage_collection_threshold > 0) CollectGarbage();
  if (Block* const block = NewSegment(request, /*is_retry=*/false)) return block;
  if (!absl::IsResourceExhausted(request.error)) return nullptr;
  if (frees_.WaitsForEveryStream() && ProcessFrees(/*wait=*/true).ok()) {
    if (Block* const block = FindFreeBlock(request)) return block;
  }
  if (ReleaseOversize(request)) {
    if (Block* const block = NewSegment(request, /*is_retry=*/false)) return block;
    if (!absl::IsResourceExhausted(request.error)) return nullptr;
  }
  // Segments that the device refuses to free stay cached; the next attempt tells whether enough was released.
  static_cast<void>(ReleaseCached());
  return NewSegment(request, /*is_retry=*/true);
}

CachingAllocator::Block* CachingAllocator::FindFreeBlock(const Request& request) {
  auto& free_blocks = request.pool->free_blocks;
  if (fraction_.has_value() && options_.garbage_collection_threshold > 0) {
    for (Block* const block : free_blocks) ++block->searches_since_use;
  }
  auto found = free_blocks.lower_bound(FreeKey{request.stream, request.bytes});
  if (found == free_blocks.end() || (*found)->stream != request.stream) return nullptr;
  // The size that a block could grow to counts: the end of an expandable segment is used last.
  const auto room = [](const Block* one) {
    return one->bytes + (one->next != nullptr && !one->next->mapped ? one->next->bytes : 0);
  };
  for (auto next = std::next(found); (*found)->expandable != nullptr && next != free_blocks.end() &&
                                     (*next)->stream == request.stream && room(*next) < room(*found);
       ++next) {
    found = next;
  }
  Block* const block = *found;
  if (!IsOversize(request.bytes) && IsOversize(block->bytes)) return nullptr;
  if (IsOversize(request.bytes) && block->bytes - request.bytes >= kLargeSegmentBytes) return nullptr;
  block->searches_since_use = 0;
  return block;
}

bool CachingAllocator::RunMissCallbacks(std::unique_lock<std::mutex>& lock) {
  if (miss_callbacks_.empty()) return false;
  const std::vector<std::function<bool()>> callbacks = miss_callbacks_;
  lock.unlock();
  bool freed = false;
  for (const auto& callback : callbacks) freed = callback() || freed;
  lock.lock();
  return freed;
}

CachingAllocator::Block* CachingAllocator::NewSegment(Request& request, bool is_retry) {
  if (is_retry) statistics_.alloc_retries += 1;
  if (reserved_bytes_ > limit_bytes_ || request.segment_bytes > limit_bytes_ - reserved_bytes_) {
    request.error = absl::ResourceExhaustedError("the limit is reached");
    return nullptr;
  }
  if (is_expandable_) return ExpandSegment(request);
  BlockNode node = MakeBlock();
  absl::StatusOr<void*> start = backend_->Allocate(request.segment_bytes);
  if (!start.ok()) {
    request.error = start.status();
    return nullptr;
  }
  Block* const block =
      AddBlock(std::move(node), request.stream, request.pool, static_cast<char*>(*start), request.segment_bytes);
  reserved_bytes_ += block->bytes;
  Count(&MemoryStatistics::segments, *block->pool, 1);
  Count(&MemoryStatistics::reserved_bytes, *block->pool, Signed(block->bytes));
  if (IsOversize(block->bytes)) statistics_.oversize_segments.Add(1);
  AddFree(block);
  return block;
}

bool CachingAllocator::ShouldSplit(const Block& block, size_t bytes) const {
  const size_t remaining = block.bytes - bytes;
  if (block.pool->is_small || block.expandable != nullptr) return remaining >= kMinBlockBytes;
  return !IsOversize(bytes) && remaining > kSmallBytes;
}

// Makes `block`, or its first part, the block of the request. Requires: it is in the free_blocks of its pool.
CachingAllocator::Block* CachingAllocator::TakeFrom(Block* block, const Request& request) {
  Pool& pool = *block->pool;
  int64_t inactive_blocks = block->is_split() ? -1 : 0;
  int64_t inactive_bytes = block->is_split() ? -Signed(block->bytes) : 0;
  Block* const rest = ShouldSplit(*block, request.bytes) ? NewRest(*block, request.bytes) : nullptr;
  RemoveFree(block);
  if (rest != nullptr) {
    Split(block, rest);
    AddFree(rest);
    inactive_blocks += 1;
    inactive_bytes += Signed(rest->bytes);
  }
  if (block->expandable == nullptr) {
    Count(&MemoryStatistics::inactive_split, pool, inactive_blocks);
    Count(&MemoryStatistics::inactive_split_bytes, pool, inactive_bytes);
  }
  block->allocated = true;
  block->requested_bytes = request.requested_bytes;
  block->id = next_id_++;
  Count(&MemoryStatistics::allocations, pool, 1);
  Count(&MemoryStatistics::allocated_bytes, pool, Signed(block->bytes));
  Count(&MemoryStatistics::active, pool, 1);
  Count(&MemoryStatistics::active_bytes, pool, Signed(block->bytes));
  if (IsOversize(block->bytes)) statistics_.oversize_allocations.Add(1);
  return block;
}

CachingAllocator::BlockNode CachingAllocator::MakeBlock() {
  if (!spare_node_.empty()) {
    internal::ReserveNode(blocks_);
    BlockNode node = std::move(spare_node_);
    FreeBlocks::node_type free_node = std::move(node.mapped()->free_node);
    *node.mapped() = Block();
    node.mapped()->free_node = std::move(free_node);
    return node;
  }
  BlockNode node = internal::MakeNode(blocks_);
  node.mapped() = std::make_unique<Block>();
  FreeBlocks one = {node.mapped().get()};
  node.mapped()->free_node = one.extract(one.begin());
  return node;
}

CachingAllocator::Block* CachingAllocator::AddBlock(BlockNode node, StreamId stream, Pool* pool, char* start,
                                                    size_t bytes) {
  Block* const block = node.mapped().get();
  block->stream = stream;
  block->pool = pool;
  block->start = start;
  block->bytes = bytes;
  node.key() = start;
  blocks_.insert(std::move(node));
  return block;
}

CachingAllocator::Block* CachingAllocator::NewRest(const Block& block, size_t bytes) {
  Block* const rest = AddBlock(MakeBlock(), block.stream, block.pool, block.start + bytes, block.bytes - bytes);
  rest->mapped = block.mapped;
  rest->expandable = block.expandable;
  return rest;
}

void CachingAllocator::AddFree(Block* block) { block->pool->free_blocks.insert(std::move(block->free_node)); }

void CachingAllocator::RemoveFree(Block* block) { block->free_node = block->pool->free_blocks.extract(block); }

void CachingAllocator::Split(Block* block, Block* rest) {
  block->bytes -= rest->bytes;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
}

void CachingAllocator::JoinNext(Block* block) {
  Block* const joined = block->next;
  block->bytes += joined->bytes;
  block->next = joined->next;
  if (block->next != nullptr) block->next->previous = block;
  RemoveBlock(joined);
}

void CachingAllocator::RemoveBlock(const Block* block) { spare_node_ = blocks_.extract(block->start); }

CachingAllocator::Block* CachingAllocator::JoinNeighbours(Block* block) {
  const auto joins = [&](Block* neighbour) {
    if (neighbour == nullptr || neighbour->is_active() || neighbour->mapped != block->mapped) return false;
    if (neighbour->mapped) RemoveFree(neighbour);
    return true;
  };
  if (joins(block->next)) JoinNext(block);
  if (!joins(block->previous)) return block;
  Block* const whole = block->previous;
  whole->searches_since_use = block->searches_since_use;
  JoinNext(whole);
  return whole;
}

void CachingAllocator::Deallocate(void* start, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(start);
  CASK_CHECK(found != blocks_.end() && found->second->allocated, "the block is in use");
  Block* const block = found->second.get();
  CASK_CHECK(block->requested_bytes == bytes, "a block is freed with the size that was requested");
  block->allocated = false;
  Count(&MemoryStatistics::allocations, *block->pool, -1);
  Count(&MemoryStatistics::allocated_bytes, *block->pool, -Signed(block->bytes));
  if (IsOversize(block->bytes)) statistics_.oversize_allocations.Add(-1);
  if (block->uses.empty()) {
    FreeBlock(block);
  } else {
    frees_.Start(block->uses, block);
  }
}

// Makes a block free that neither the program nor a stream uses, and joins it with its free neighbours.
void CachingAllocator::FreeBlock(Block* block) {
  Pool& pool = *block->pool;
  const size_t bytes = block->bytes;
  int64_t inactive_blocks = 0;
  int64_t inactive_bytes = 0;
  block->requested_bytes = 0;
  for (const Block* const neighbour : {block->previous, block->next}) {
    if (neighbour == nullptr || !neighbour->is_free()) continue;
    inactive_blocks -= 1;
    inactive_bytes -= Signed(neighbour->bytes);
  }
  block = JoinNeighbours(block);
  AddFree(block);
  if (block->is_split()) {
    inactive_blocks += 1;
    inactive_bytes += Signed(block->bytes);
  }
  if (block->expandable == nullptr) {
    Count(&MemoryStatistics::inactive_split, pool, inactive_blocks);
    Count(&MemoryStatistics::inactive_split_bytes, pool, inactive_bytes);
  }
  Count(&MemoryStatistics::active, pool, -1);
  Count(&MemoryStatistics::active_bytes, pool, -Signed(bytes));
}

absl::Status CachingAllocator::RecordStream(const void* start, StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(start);
  if (found == blocks_.end() || !found->second->allocated)
    return absl::InvalidArgumentError("RecordStream of a pointer that is not the start of a block in use");
  Block& block = *found->second;
  if (stream != block.stream) frees_.Record(block.uses, stream);
  return absl::OkStatus();
}

absl::Status CachingAllocator::ProcessFrees(bool wait) {
  return frees_.Process(wait, [this](void* block) { FreeBlock(static_cast<Block*>(block)); });
}

// Releases unsplit large blocks that were not used for longer than the average, until the threshold is met.
void CachingAllocator::CollectGarbage() {
  const auto threshold =
      static_cast<uint64_t>(options_.garbage_collection_threshold * static_cast<double>(limit_bytes_));
  if (reserved_bytes_ <= threshold) return;
  const uint64_t target = reserved_bytes_ - threshold;
  uint64_t released = 0;
  std::vector<Block*> candidates;
  double total_age = 0;
  for (Block* const block : common_.large.free_blocks) {
    if (block->is_split()) continue;
    candidates.push_back(block);
    total_age += static_cast<double>(block->searches_since_use);
  }
  bool progress = true;
  while (released < target && progress && !candidates.empty()) {
    const double threshold_age = total_age / static_cast<double>(candidates.size());
    std::vector<Block*> kept;
    progress = false;
    for (Block* const block : candidates) {
      const auto age = static_cast<double>(block->searches_since_use);
      const size_t bytes = block->bytes;
      if (age < threshold_age || !ReleaseBlock(block).ok()) {
        kept.push_back(block);
        continue;
      }
      progress = true;
      released += bytes;
      total_age -= age;
    }
    candidates = std::move(kept);
  }
}

// Releases cached oversize blocks of the request's stream: the smallest one that is large enough, or several from the
// largest on. False if they are not large enough together.
bool CachingAllocator::ReleaseOversize(const Request& request) {
  if (options_.max_split_size == CachingOptions::kNoSplitLimit) return false;
  auto& free_blocks = request.pool->free_blocks;
  const size_t needed = std::max(request.bytes, options_.max_split_size);
  const auto found = free_blocks.lower_bound(FreeKey{request.stream, needed});
  if (found != free_blocks.end() && (*found)->stream == request.stream)
    return !(*found)->is_split() && ReleaseBlock(*found).ok();
  std::vector<Block*> largest_first;
  size_t bytes = 0;
  for (auto next = found; bytes < needed && next != free_blocks.begin();) {
    --next;
    if (!IsOversize((*next)->bytes) || (*next)->stream != request.stream || (*next)->is_split()) break;
    largest_first.push_back(*next);
    bytes += (*next)->bytes;
  }
  for (Block* const block : largest_first) {
    if (!ReleaseBlock(block).ok()) return false;
  }
  return bytes >= needed;
}

absl::Status CachingAllocator::ReleaseCached() {
  absl::Status result = ProcessFrees(/*wait=*/true);
  const auto release = [&](const PoolPair& pair) {
    for (const Pool* const pool : {&pair.large, &pair.small}) {
      for (auto next = pool->free_blocks.begin(); next != pool->free_blocks.end();) {
        Block* const block = *next++;  // releasing removes this one alone
        if (block->expandable == nullptr && !block->is_split()) result.Update(ReleaseBlock(block));
      }
    }
  };
  release(common_);
  for (const auto& entry : private_) {
    if (entry.second->is_retired) release(*entry.second);
  }
  result.Update(ReleaseExpandable());
  return result;
}

absl::Status CachingAllocator::ReleaseBlock(Block* block) {
  CASK_RETURN_IF_ERROR(backend_->Free(block->start, block->bytes));
  reserved_bytes_ -= block->bytes;
  Count(&MemoryStatistics::segments, *block->pool, -1);
  Count(&MemoryStatistics::reserved_bytes, *block->pool, -Signed(block->bytes));
  if (IsOversize(block->bytes)) statistics_.oversize_segments.Add(-1);
  RemoveFree(block);
  RemoveBlock(block);
  return absl::OkStatus();
}

absl::Status CachingAllocator::EmptyCache() {
  const absl::Status kept = memory_->ReleaseDone(/*wait=*/true);
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Status released = ReleaseCached();
  return released.ok() ? kept : released;
}

absl::Status CachingAllocator::SetMemoryFraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    return absl::InvalidArgumentError(absl::StrCat("memory fraction ", fraction, " is not between 0 and 1"));
  const std::lock_guard<std::mutex> lock(mutex_);
  CASK_ASSIGN_OR_RETURN(const DeviceMemoryInfo info, backend_->MemoryInfo());
  fraction_ = fraction;
  limit_bytes_ = static_cast<uint64_t>(fraction * static_cast<double>(info.total_bytes));
  return absl::OkStatus();
}

void CachingAllocator::AddMissCallback(std::function<bool()> callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  miss_callbacks_.push_back(std::move(callback));
}

// PyTorch counts for a pool and for all pools.
void CachingAllocator::Count(CounterOf counters, const Pool& pool, int64_t amount) {
  PoolCounters& all = statistics_.*counters;
  all.all.Add(amount);
  (pool.is_small ? all.small : all.large).Add(amount);
}

}  // namespace tensorcask
