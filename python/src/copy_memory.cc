#include "tensorcask/python/src/copy_memory.h"

#include <memory>
#include <mutex>
#include <utility>

#include "tensorcask/python/src/process_mutex.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"

namespace tensorcask::python {
namespace {

using SharedAllocator = std::shared_ptr<const RefPtr<Allocator>>;

// What all objects of this process share. A child of fork(2) begins with memory of its own.
SharedAllocator Shared() {
  struct State {
    ProcessMutex mutex;
    OwnerProcess owner;
    std::weak_ptr<const RefPtr<Allocator>> allocator;
  };
  static auto* const state = new State;
  const std::lock_guard<ProcessMutex> lock(state->mutex);
  SharedAllocator allocator = state->owner.IsThisProcess() ? state->allocator.lock() : nullptr;
  if (allocator == nullptr) {
    allocator = std::make_shared<const RefPtr<Allocator>>(HostCachingAllocator::Make());
    state->owner = OwnerProcess();
    state->allocator = allocator;
  }
  return allocator;
}

}  // namespace

CopyMemory::CopyMemory(bool keep)
    : allocator_(keep ? Shared() : std::make_shared<const RefPtr<Allocator>>(CpuAllocator::Default())),
      cache_(keep ? static_cast<HostCachingAllocator*>(allocator_->get()) : nullptr) {}

CopyMemory::~CopyMemory() {
  if (!owner_.IsThisProcess()) new SharedAllocator(std::move(allocator_));
}

void CopyMemory::Trim() const {
  if (cache_ != nullptr) cache_->Trim();
}

}  // namespace tensorcask::python
