// Tells programs about each allocation and each free.
//
//   class Printer : public MemoryObserver {
//     void OnMemoryEvent(const MemoryEvent& event) override { ... }
//   };
//   RefPtr<Allocator> allocator = ObservedAllocator::Make(CpuAllocator::Default());
//   ScopedThreadObserver scope(&printer);          // events of this thread, until the end of the scope
//   void* block = allocator->Allocate(42);         // {block, +42, total 42}
//
// An observer of the process gets the events of all threads. An observer of a thread gets those of its calls, also
// for memory that another thread allocated. Observers are called outside of all locks, in the thread that allocates or
// frees, after the allocation and before the free. They must not allocate from an observed allocator.

#ifndef TENSORCASK_TENSOR_MEMORY_MEMORY_OBSERVER_H_
#define TENSORCASK_TENSOR_MEMORY_MEMORY_OBSERVER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"

namespace tensorcask {

struct MemoryEvent {
  const void* block = nullptr;
  int64_t bytes = 0;            // as requested; negative for a free
  int64_t total_allocated = 0;  // bytes of this allocator in use after the event
  // What the allocator holds, with what it keeps of freed memory, before a free and after an allocation
  // (Allocator::reserved_bytes). For an allocator that keeps nothing: total_allocated.
  int64_t total_reserved = 0;
  Device device;
};

class MemoryObserver {
 public:
  virtual void OnMemoryEvent(const MemoryEvent& event) = 0;

 protected:
  ~MemoryObserver() = default;
};

// Makes `observer` the observer of the calling thread, and restores the previous one. The observer outlives the scope,
// which ends in the thread that began it.
class ScopedThreadObserver {
 public:
  explicit ScopedThreadObserver(MemoryObserver* observer);
  ~ScopedThreadObserver();
  ScopedThreadObserver(const ScopedThreadObserver&) = delete;
  ScopedThreadObserver& operator=(const ScopedThreadObserver&) = delete;

 private:
  MemoryObserver* const previous_;
};

// Sets the observer of the process and returns the previous one; null: none. An observer lives as long as the process,
// or until no other thread can be in a call of an observed allocator.
MemoryObserver* SetProcessObserver(MemoryObserver* observer);

// Calls the observers of the thread and of the process.
void ReportMemoryEvent(const MemoryEvent& event);

// Reports the events of another allocator.
class ObservedAllocator final : public Allocator {
 public:
  // `device` becomes MemoryEvent::device.
  static RefPtr<ObservedAllocator> Make(RefPtr<Allocator> allocator, Device device = {});

  absl::string_view name() const override { return allocator_->name(); }
  void* Allocate(size_t bytes) override;
  absl::StatusOr<void*> TryAllocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;
  DeviceMemory* device_memory() const override { return allocator_->device_memory(); }
  BlockInfo Describe(const void* block) const override { return allocator_->Describe(block); }
  int DescriptorOf(const void* block) const override { return allocator_->DescriptorOf(block); }
  std::optional<uint64_t> reserved_bytes() const override { return allocator_->reserved_bytes(); }

 private:
  void Report(const void* block, int64_t bytes);  // `bytes` more are in use
  ObservedAllocator(RefPtr<Allocator> allocator, Device device) : allocator_(std::move(allocator)), device_(device) {}

  const RefPtr<Allocator> allocator_;
  const Device device_;
  std::atomic<int64_t> total_{0};
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_MEMORY_OBSERVER_H_
