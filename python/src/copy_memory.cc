#include "tensorcask/python/src/copy_memory.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"

namespace tensorcask::python {

struct CopyMemory::Kept {
  const RefPtr<HostCachingAllocator> allocator = HostCachingAllocator::Make();
  std::mutex mutex;
  std::vector<size_t> sizes;  // of the last copies, sorted
};

// What all objects of this process share. A child of fork(2) begins with memory of its own.
std::shared_ptr<CopyMemory::Kept> CopyMemory::Shared() {
  struct State {
    ProcessMutex mutex;
    OwnerProcess owner;
    std::weak_ptr<Kept> kept;
  };
  static auto* const state = new State;
  const std::lock_guard<ProcessMutex> lock(state->mutex);
  std::shared_ptr<Kept> kept = state->owner.IsThisProcess() ? state->kept.lock() : nullptr;
  if (kept == nullptr) {
    kept = std::make_shared<Kept>();
    state->owner = OwnerProcess();
    state->kept = kept;
  }
  return kept;
}

CopyMemory::CopyMemory(bool keep) : kept_(keep ? Shared() : nullptr) {}

CopyMemory::~CopyMemory() {
  if (!owner_.IsThisProcess()) new std::shared_ptr<Kept>(std::move(kept_));
}

RefPtr<Allocator> CopyMemory::For(std::vector<size_t> sizes) const {
  if (kept_ == nullptr) return CpuAllocator::Default();
  // The allocator rounds small sizes, so blocks of these are used again for others.
  const auto is_small = [](size_t size) { return size <= HostCachingAllocator::kMaxSmallBytes; };
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), is_small), sizes.end());
  std::sort(sizes.begin(), sizes.end());
  const std::lock_guard<std::mutex> lock(kept_->mutex);
  if (sizes != kept_->sizes) kept_->allocator->Trim();
  kept_->sizes = std::move(sizes);
  return kept_->allocator;
}

}  // namespace tensorcask::python
