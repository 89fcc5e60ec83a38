// Host memory that a device copies to and from without the processor ("pinned", page-locked), kept for reuse.
//
//   RefPtr<PinnedAllocator> pinned = PinnedAllocator::Make(backend);
//   CASK_ASSIGN_OR_RETURN(Tensor batch, Tensor::Create(DType::kFloat32, shape, pinned));   // an ordinary host tensor
//   backend->Copy(CopyKind::kHostToDevice, device_block, batch.data<float>(), bytes, stream);
//   pinned->RecordStream(batch.data<float>(), stream);   // so the tensor may be destroyed before the copy has finished
//
// Blocks are powers of two of at least kMinBlockBytes, as in PyTorch's CachingHostAllocator: a request for 5000 bytes
// takes 8192. A freed block serves requests of its own size only. The next Allocate can reuse it when all work that
// was on its recorded streams at the time of the free has finished.
//
// Any thread may allocate and free. The backend is called under a lock. The allocator is destroyed after all blocks
// were freed; then it waits for recorded work and returns all memory.

#ifndef TENSORCASK_TENSOR_MEMORY_PINNED_ALLOCATOR_H_
#define TENSORCASK_TENSOR_MEMORY_PINNED_ALLOCATOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/allocate_or_null.h"
#include "tensorcask/tensor/memory/internal/pending_frees.h"

namespace tensorcask {

class PinnedAllocator final : public Allocator {
 public:
  static constexpr size_t kMinBlockBytes = 512;

  struct Counters {
    uint64_t used_bytes = 0;     // blocks in use
    uint64_t waiting_bytes = 0;  // freed blocks whose recorded work was pending when last looked
    uint64_t cached_bytes = 0;   // blocks ready for reuse
    int64_t hits = 0;            // allocations that a cached block served
    int64_t misses = 0;
  };

  static RefPtr<PinnedAllocator> Make(RefPtr<DeviceBackend> backend);

  absl::string_view name() const override { return "pinned"; }
  void* Allocate(size_t bytes) override { return internal::AllocateOrNull(*this, bytes); }
  // If the device gives no memory, all cached blocks are returned, and the device is asked once more.
  // Errors: those of DeviceBackend::AllocateHost; ResourceExhausted for more than 2^62 bytes.
  absl::StatusOr<void*> TryAllocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;
  BlockInfo Describe(const void* block) const override;
  std::optional<uint64_t> reserved_bytes() const override {
    const Counters now = counters();
    return now.used_bytes + now.waiting_bytes + now.cached_bytes;
  }

  // Work on `stream` when the block is freed may use it.
  // Errors: InvalidArgument if `block` is not the start of a block in use.
  absl::Status RecordStream(const void* block, StreamId stream);
  // Waits for the recorded work of freed blocks, and returns all blocks that are not in use to the system.
  // Errors: the first error of the device; blocks that could not be returned stay cached.
  absl::Status EmptyCache();

  const RefPtr<DeviceBackend>& backend() const { return backend_; }
  Counters counters() const;

 private:
  struct Block {
    size_t bytes = 0;  // a power of two
    internal::PendingFrees::Uses uses;
    std::multimap<size_t, void*>::node_type cached_node;  // for cached_, when the block is free
  };

  explicit PinnedAllocator(RefPtr<DeviceBackend> backend) : backend_(std::move(backend)), frees_(backend_) {}
  ~PinnedAllocator() override;

  // All below require: the lock is held.
  absl::Status ProcessFrees(bool wait);
  void AddCached(void* start);
  absl::Status ReleaseCached();

  const RefPtr<DeviceBackend> backend_;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;  // in use or waiting for streams
  std::multimap<size_t, void*> cached_;            // by size
  internal::PendingFrees frees_;
  Counters counters_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_PINNED_ALLOCATOR_H_
