// Where tensor memory comes from.
//
//   RefPtr<Allocator> allocator = CpuAllocator::Default();
//   void* block = allocator->Allocate(1 << 20);   // null when memory is short
//   allocator->Deallocate(block, 1 << 20);
//
// Buffers hold a reference to the allocator that gave their memory, so an allocator outlives its tensors.

#ifndef TENSORCASK_TENSOR_ALLOCATOR_H_
#define TENSORCASK_TENSOR_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

// Implementations are safe to call from several threads.
class Allocator : public RefCounted {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector register

  virtual absl::string_view name() const = 0;

  // `bytes` (> 0) uninitialised bytes at a multiple of kAlignment, or null. Never throws.
  virtual void* Allocate(size_t bytes) = 0;
  // Takes back what Allocate(bytes) gave.
  virtual void Deallocate(void* block, size_t bytes) = 0;

  // What an allocator that keeps books knows of a block in use; 0: not known.
  struct BlockInfo {
    size_t allocated_bytes = 0;  // really taken, which may be more than was asked for
    int64_t allocation_id = 0;
  };
  virtual BlockInfo Describe(const void* /*block*/) const { return {}; }

  // Of a block that another process can map: an open file whose bytes from 0 on are the block's. It stays the
  // allocator's, and open until the block goes back. -1: of no other block.
  virtual int DescriptorOf(const void* block) const {
    static_cast<void>(block);
    return -1;
  }
};

// Host memory. Blocks of kHugePageBlock bytes and more start at a multiple of 2 MiB and are advised to the system for
// huge pages: copying into fresh memory then costs up to twice a copy between warm buffers instead of four to nine
// times (tests/benchmarks/tensor_benchmark.cc). Their pages go back to the system when they are deallocated. On systems
// other than Linux both come down to the C library's aligned memory.
class CpuAllocator final : public Allocator {
 public:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  static constexpr size_t kHugePageBlock = size_t{4} << 20;

  // What fresh memory holds: whatever it held before; zeros; or kJunkWord again and again, which as float32 is a NaN,
  // so that who reads elements before they are written does not get away with it.
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
