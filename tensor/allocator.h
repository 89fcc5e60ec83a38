// Allocators: the source of tensor memory.
//
//   RefPtr<Allocator> allocator = CpuAllocator::Default();
//   void* block = allocator->Allocate(1 << 20);   // null if there is not enough memory
//   allocator->Deallocate(block, 1 << 20);
//
// Each buffer holds a reference to the allocator of its memory, so an allocator outlives its tensors.

#ifndef TENSORCASK_TENSOR_ALLOCATOR_H_
#define TENSORCASK_TENSOR_ALLOCATOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

class DeviceMemory;  // tensor/device_memory.h

// Implementations are safe to call from several threads.
class Allocator : public RefCounted {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector register

  virtual absl::string_view name() const = 0;

  // `bytes` (> 0) uninitialised bytes at a multiple of kAlignment, or null. Never throws.
  virtual void* Allocate(size_t bytes) = 0;
  // The same with the reason of a failure. Errors: ResourceExhausted, naming the size; errors of the device.
  virtual absl::StatusOr<void*> TryAllocate(size_t bytes);
  // Frees a block that Allocate(bytes) returned. Requires: not null.
  virtual void Deallocate(void* block, size_t bytes) = 0;

  // How the host reaches the blocks, if they are in memory of a device that it cannot access; otherwise null. Lives as
  // long as the allocator.
  virtual DeviceMemory* device_memory() const { return nullptr; }

  // What an allocator that records its blocks knows of a block in use. A field is 0 if it is unknown.
  struct BlockInfo {
    size_t allocated_bytes = 0;  // the real size of the block, at least the size requested
    int64_t allocation_id = 0;
  };
  virtual BlockInfo Describe(const void* /*block*/) const { return {}; }

  // For an allocator that keeps freed memory for reuse: the bytes, in use or kept, that it has from the device or from
  // the allocator below it. nullopt: this allocator keeps no freed memory.
  virtual std::optional<uint64_t> reserved_bytes() const { return std::nullopt; }

  // For a block that another process can map: the descriptor of an open file whose bytes from 0 on are the block. The
  // allocator owns the descriptor and keeps it open until the block is deallocated. -1 for every other block.
  virtual int DescriptorOf(const void* block) const {
    static_cast<void>(block);
    return -1;
  }
};

// Host memory. Blocks of kHugePageBlock bytes and more start at a multiple of 2 MiB, and the allocator asks the system
// for huge pages: copying into fresh memory then takes up to 2 times as long as a copy between warm buffers, instead of
// 4 to 9 times (tests/benchmarks/tensor_benchmark.cc). Deallocating them returns their pages to the system. On systems
// other than Linux, all blocks are plain aligned memory from the C library.
class CpuAllocator final : public Allocator {
 public:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  static constexpr size_t kHugePageBlock = size_t{4} << 20;

  // The content of fresh memory: unspecified; zeros; or kJunkWord repeated, which is a NaN as float32, so that reading
  // an element before it is written shows in the results.
  enum class Fill : uint8_t { kNone, kZero, kJunk };
  static constexpr uint32_t kJunkWord = 0x7fedbeef;

  struct Options {
    bool huge_pages = true;
    Fill fill = Fill::kNone;
  };

  // The process-wide allocator with default options; never destroyed.
  static const RefPtr<Allocator>& Default();
  static RefPtr<Allocator> Make(Options options);

  absl::string_view name() const override { return "cpu"; }
  void* Allocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;

 private:
  explicit CpuAllocator(Options options) : options_(options) {}

  const Options options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_ALLOCATOR_H_
