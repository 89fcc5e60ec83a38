// Allocators over a CachingAllocator: of a stream, and of a private pool.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/allocate_or_null.h"
#include "tensorcask/tensor/memory/internal/allocator_memory.h"
#include "tensorcask/tensor/memory/internal/staged_memory.h"

namespace tensorcask {
namespace {

class PartAllocator final : public Allocator {
 public:
  PartAllocator(RefPtr<CachingAllocator> cache, absl::string_view pool, StreamId stream)
      : cache_(std::move(cache)),
        pool_(pool),
        stream_(stream),
        memory_(internal::MakeStagedMemory(cache_.get(), stream)) {}

  absl::string_view name() const override { return "caching"; }
  void* Allocate(size_t bytes) override { return internal::AllocateOrNull(*this, bytes); }
  absl::StatusOr<void*> TryAllocate(size_t bytes) override {
    static_cast<void>(memory_->ReleaseDone(/*wait=*/false));
    return cache_->TryAllocate(bytes, stream_, pool_);
  }
  void Deallocate(void* block, size_t bytes) override { cache_->Deallocate(block, bytes); }
  DeviceMemory* device_memory() const override { return memory_.get(); }
  BlockInfo Describe(const void* block) const override { return cache_->Describe(block); }
  std::optional<uint64_t> reserved_bytes() const override { return cache_->reserved_bytes(); }

 private:
  const RefPtr<CachingAllocator> cache_;
  const std::string pool_;
  const StreamId stream_;
  const std::unique_ptr<internal::StagedMemory> memory_;
};

}  // namespace

std::unique_ptr<internal::StagedMemory> internal::MakeStagedMemory(CachingAllocator* cache, StreamId stream) {
  return std::make_unique<StagedMemory>(
      cache->pinned(), stream, [cache](const void* block, StreamId user) { return cache->RecordStream(block, user); });
}

CachingAllocator::PoolPair::PoolPair(int64_t pool_id, absl::string_view pool_tag) : id(pool_id), tag(pool_tag) {
  small.is_small = true;
  small.pair = this;
  large.pair = this;
}

CachingAllocator::PoolPair* CachingAllocator::PairOf(absl::string_view tag) {
  if (tag.empty()) return &common_;
  auto found = private_.find(tag);
  if (found == private_.end())
    found = private_.emplace(std::string(tag), std::make_unique<PoolPair>(next_pool_id_++, tag)).first;
  found->second->is_retired = false;
  return found->second.get();
}

DeviceMemory* CachingAllocator::device_memory() const { return memory_.get(); }

RefPtr<Allocator> CachingAllocator::OnPool(RefPtr<CachingAllocator> cache, absl::string_view pool, StreamId stream) {
  return MakeRef<PartAllocator>(std::move(cache), pool, stream);
}

absl::Status CachingAllocator::RetirePool(absl::string_view pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = private_.find(pool);
  if (found == private_.end())
    return absl::NotFoundError(absl::StrCat("the allocator has no private pool ", Quoted(pool)));
  found->second->is_retired = true;
  return absl::OkStatus();
}

}  // namespace tensorcask
