#include "tensorcask/tensor/memory/pinned_allocator.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/make_node.h"

namespace tensorcask {
namespace {

constexpr size_t kMaxRequestBytes = size_t{1} << 62;

// Requires: bytes <= kMaxRequestBytes.
size_t BlockBytes(size_t bytes) {
  size_t block_bytes = PinnedAllocator::kMinBlockBytes;
  while (block_bytes < bytes) block_bytes *= 2;
  return block_bytes;
}

}  // namespace

RefPtr<PinnedAllocator> PinnedAllocator::Make(RefPtr<DeviceBackend> backend) {
  return RefPtr<PinnedAllocator>::AdoptNew(new PinnedAllocator(std::move(backend)));
}

PinnedAllocator::~PinnedAllocator() {
  static_cast<void>(CatchExceptions([this] { return ProcessFrees(/*wait=*/true); }));
  // A device that cannot be waited for may still write to these blocks: they are not returned.
  frees_.Abandon([this](void* start) { blocks_.erase(start); });
  CASK_CHECK(blocks_.empty(), "a pinned allocator is destroyed after its blocks were freed");
  static_cast<void>(CatchExceptions([this] { return ReleaseCached(); }));
}

absl::StatusOr<void*> PinnedAllocator::TryAllocate(size_t bytes) {
  CASK_CHECK(bytes > 0, "an allocation has at least one byte");
  if (bytes > kMaxRequestBytes)
    return absl::ResourceExhaustedError(absl::StrCat("no pinned memory for ", bytes, " bytes"));
  const size_t block_bytes = BlockBytes(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  // An event that cannot be queried counts as not finished; its block stays out of the cache.
  static_cast<void>(ProcessFrees(/*wait=*/false));
  if (const auto found = cached_.find(block_bytes); found != cached_.end()) {
    void* const start = found->second;
    Block& block = blocks_[start];
    block.bytes = block_bytes;
    block.cached_node = cached_.extract(found);
    counters_.cached_bytes -= block_bytes;
    counters_.used_bytes += block_bytes;
    counters_.hits += 1;
    return start;
  }
  counters_.misses += 1;
  auto node = internal::MakeNode(blocks_);
  std::multimap<size_t, void*> cached = {{block_bytes, nullptr}};
  absl::StatusOr<void*> start = backend_->AllocateHost(block_bytes);
  if (absl::IsResourceExhausted(start.status())) {
    static_cast<void>(ProcessFrees(/*wait=*/true));
    static_cast<void>(ReleaseCached());
    start = backend_->AllocateHost(block_bytes);
  }
  CASK_RETURN_IF_ERROR(start.status());
  Block& block = node.mapped();
  block.bytes = block_bytes;
  block.cached_node = cached.extract(cached.begin());
  block.cached_node.mapped() = *start;
  node.key() = *start;
  blocks_.insert(std::move(node));
  counters_.used_bytes += block_bytes;
  return *start;
}

void PinnedAllocator::Deallocate(void* start, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(start);
  CASK_CHECK(found != blocks_.end() && !found->second.uses.is_pending(), "the block is in use");
  Block& block = found->second;
  CASK_CHECK(block.bytes == BlockBytes(bytes), "a block is freed with the size that was requested");
  counters_.used_bytes -= block.bytes;
  if (block.uses.empty()) {
    AddCached(start);
  } else {
    counters_.waiting_bytes += block.bytes;
    frees_.Start(block.uses, start);
  }
}

void PinnedAllocator::AddCached(void* start) {
  const auto found = blocks_.find(start);
  counters_.cached_bytes += found->second.bytes;
  cached_.insert(cached_.lower_bound(found->second.bytes),
                 std::move(found->second.cached_node));  // the next to be used
  blocks_.erase(found);
}

absl::Status PinnedAllocator::ProcessFrees(bool wait) {
  return frees_.Process(wait, [this](void* start) {
    counters_.waiting_bytes -= blocks_.find(start)->second.bytes;
    AddCached(start);
  });
}

absl::Status PinnedAllocator::ReleaseCached() {
  absl::Status result;
  for (auto block = cached_.begin(); block != cached_.end();) {
    const absl::Status freed = backend_->FreeHost(block->second, block->first);
    result.Update(freed);
    if (freed.ok()) counters_.cached_bytes -= block->first;
    block = freed.ok() ? cached_.erase(block) : std::next(block);
  }
  return result;
}

absl::Status PinnedAllocator::EmptyCache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Status result = ProcessFrees(/*wait=*/true);
  result.Update(ReleaseCached());
  return result;
}

absl::Status PinnedAllocator::RecordStream(const void* block, StreamId stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.uses.is_pending())
    return absl::InvalidArgumentError("RecordStream of a pointer that is not the start of a pinned block in use");
  frees_.Record(found->second.uses, stream);
  return absl::OkStatus();
}

Allocator::BlockInfo PinnedAllocator::Describe(const void* block) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || found->second.uses.is_pending()) return {};
  return {found->second.bytes, 0};
}

PinnedAllocator::Counters PinnedAllocator::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace tensorcask
