#include "tensorcask/tensor/memory/memory_observer.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device.h"

namespace tensorcask {
namespace {

thread_local MemoryObserver* thread_observer = nullptr;
std::atomic<MemoryObserver*> process_observer{nullptr};

}  // namespace

ScopedThreadObserver::ScopedThreadObserver(MemoryObserver* observer)
    : previous_(std::exchange(thread_observer, observer)) {}

ScopedThreadObserver::~ScopedThreadObserver() { thread_observer = previous_; }

MemoryObserver* SetProcessObserver(MemoryObserver* observer) {
  return process_observer.exchange(observer, std::memory_order_acq_rel);
}

void ReportMemoryEvent(const MemoryEvent& event) {
  if (thread_observer != nullptr) thread_observer->OnMemoryEvent(event);
  if (MemoryObserver* const observer = process_observer.load(std::memory_order_acquire)) observer->OnMemoryEvent(event);
}

RefPtr<ObservedAllocator> ObservedAllocator::Make(RefPtr<Allocator> allocator, Device device) {
  return RefPtr<ObservedAllocator>::AdoptNew(new ObservedAllocator(std::move(allocator), device));
}

void* ObservedAllocator::Allocate(size_t bytes) { return TryAllocate(bytes).value_or(nullptr); }

void ObservedAllocator::Report(const void* block, int64_t bytes) {
  const int64_t total = total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const std::optional<uint64_t> reserved = allocator_->reserved_bytes();
  ReportMemoryEvent({block, bytes, total, reserved ? static_cast<int64_t>(*reserved) : total, device_});
}

absl::StatusOr<void*> ObservedAllocator::TryAllocate(size_t bytes) {
  CASK_ASSIGN_OR_RETURN(void* const block, allocator_->TryAllocate(bytes));
  Report(block, static_cast<int64_t>(bytes));
  return block;
}

void ObservedAllocator::Deallocate(void* block, size_t bytes) {
  Report(block, -static_cast<int64_t>(bytes));
  allocator_->Deallocate(block, bytes);
}

}  // namespace tensorcask
