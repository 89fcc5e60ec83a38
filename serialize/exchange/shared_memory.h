// Tensor memory that another process on this host can map: handing it over takes the same time whatever its size.
//
//   // The sender.
//   CASK_ASSIGN_OR_RETURN(RefPtr<SharedMemoryAllocator> shared, SharedMemoryAllocator::Create({}));
//   Tensor tensor = *Tensor::Create(DType::kFloat32, shape, shared);
//   ... fill it ...
//   tensor.buffer()->FreezeMemory();                        // writing to it copies from now on
//   const auto range = *tensor.buffer()->file_range();      // {descriptor, offset_bytes}: to be sent
//
//   // The receiver, which trusts nothing.
//   RefPtr<TensorBuffer> buffer = *MapSharedMemory(std::move(descriptor), offset_bytes, size_bytes, limits);
//
// The memory is an anonymous file (memfd_create(2)): it has no name that could be left behind, does not count against
// /dev/shm, and is freed when the last process lets go of it or dies. Who gets its descriptor can read the whole block,
// not only the part that a view shows, and keeps it for as long as it likes.
//
// Seals (fcntl(2), F_ADD_SEALS) are promises about such a file that nobody can take back:
//
//   F_SEAL_SHRINK        its pages never go away under a mapping, which would end the reader with SIGBUS
//   F_SEAL_GROW          nothing is added past its end
//   F_SEAL_FUTURE_WRITE  nobody writes but through the mappings that exist: no receiver into the sender's memory; and
//                        nobody cuts holes
//   F_SEAL_WRITE         nobody writes at all
//
// Blocks get the first three at birth, and MapSharedMemory asks for them (F_SEAL_WRITE stands in for the third). The
// fourth needs SealAgainstWriting. Without it a sender that breaks its word can change the bytes while the receiver
// looks: fine for numbers, which mean something whatever they are. What is *checked* (bools, checksums, text) must be
// copied first and checked in the copy, unless IsSealedAgainstWriting.
//
// Linux 5.1 or later. Measured: 1 GiB frozen, sent through a Unix socket, mapped and answered for in 19 us, of which
// mapping takes 3.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_SHARED_MEMORY_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

// Blocks of min_shared_bytes and more are memory files of their own, smaller ones come from CpuAllocator::Default().
// A block has all its pages from the start, so that no later write can fail (and end the process with SIGBUS). Allocate
// gives null when memory, descriptors (one a block; RLIMIT_NOFILE) or mappings are short, or past max_total_bytes.
//
// Making and filling 64 MiB takes 70 ms where CpuAllocator with huge pages takes 28 (and 17 ms are the copy): the
// system gives shared memory by pages of 4 KiB unless /sys/kernel/mm/transparent_hugepage/shmem_enabled says `advise`
// or more. So make such tensors once, and not for what stays in the process.
//
// After fork(2) both processes have the same blocks, not copies: what one writes the other sees.
class SharedMemoryAllocator final : public Allocator {
 public:
  struct Options {
    size_t min_shared_bytes = size_t{64} << 10;
    // Of all blocks that are files, together: more is refused before the system runs out of memory, which for files of
    // this kind it notices too late. 0: half of the machine's memory, as file systems in memory have it.
    size_t max_total_bytes = 0;
  };

  // Makes one such file as a trial. Errors: Unimplemented where they or their seals are not to be had (Linux before
  // 5.1); ResourceExhausted without a descriptor for it; PermissionDenied in a sandbox.
  static absl::StatusOr<RefPtr<SharedMemoryAllocator>> Create(Options options);
  ~SharedMemoryAllocator() override;

  absl::string_view name() const override { return "shared_memory"; }
  void* Allocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;
  int DescriptorOf(const void* block) const override;

  // Of the blocks that are files now, whole pages.
  size_t total_bytes() const;

  // Makes the block under `buffer`, which is from this allocator, immutable for every process, this one among them: for
  // receivers that would have to copy it otherwise. Freezes the memory, too. It may be read meanwhile; a write through
  // a pointer taken earlier ends the process with SIGSEGV afterwards. Not in constant time: each page is taken out of
  // this process once (measured: 1 GiB 150 to 190 ms). Done again it is free.
  // Errors: FailedPrecondition: the memory is not this allocator's; or something else still can write to it (Busy: a
  // mapping by another process on Linux 6.6 or before, pages held by a device). Unimplemented without /proc.
  absl::Status SealAgainstWriting(const TensorBuffer& buffer);

 private:
  struct Block {
    ScopedDescriptor descriptor;
    size_t mapped_bytes = 0;
  };

  explicit SharedMemoryAllocator(Options options) : options_(options) {}

  // Takes from or gives back to what max_total_bytes leaves.
  bool Reserve(size_t bytes);
  void GiveBack(size_t bytes);

  const Options options_;
  mutable std::mutex mutex_;
  size_t total_bytes_ = 0;
  absl::flat_hash_map<const void*, Block> blocks_;  // by address
};

// All bytes from the offset to the end of the file.
constexpr uint64_t kAllBytes = UINT64_MAX;

// Bytes [offset_bytes, offset_bytes + size_bytes) of a received memory file as a root buffer of kind kMapped: mapped
// read-only, not touched, in constant time. A mutable access copies them. The buffer keeps the descriptor, and can be
// handed on (TensorBuffer::file_range).
//
// `descriptor` may be anything, whoever sent it: nothing is read from it, nothing waits on it, and it is closed on
// error. Memory that its sender keeps past the file's end is freed.
//
// Errors: InvalidArgument: no memory file (a pipe, a file on disk, a device ...), or one of huge pages; not sealed as
// above; not open for writing; not all of it has memory (a file of 8 EiB costs nothing to make); the range leaves it.
// ResourceExhausted: size_bytes past limits.max_message_bytes, or no address space for it.
absl::StatusOr<RefPtr<TensorBuffer>> MapSharedMemory(ScopedDescriptor descriptor, uint64_t offset_bytes,
                                                     uint64_t size_bytes, const DecodeLimits& limits = {});

// True if the bytes lie in a memory file that no process can write to any more. False for all other memory.
bool IsSealedAgainstWriting(const TensorBuffer& buffer);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_SHARED_MEMORY_H_
