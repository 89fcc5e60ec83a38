// Tensor memory that another process on this host can map: handing it over takes the same time whatever its size.
//
//   // The sender.
//   CASK_ASSIGN_OR_RETURN(RefPtr<SharedMemoryAllocator> shared, SharedMemoryAllocator::Create({}));
//   Tensor tensor = *Tensor::Create(DType::kFloat32, shape, shared);
//   ... fill it ...
//   tensor.buffer()->FreezeMemory();                        // a write copies from now on
//   const auto range = *tensor.buffer()->file_range();      // {descriptor, offset_bytes}: to be sent
//
//   // The receiver, which does not trust the sender.
//   RefPtr<TensorBuffer> buffer = *MapSharedMemory(std::move(descriptor), offset_bytes, size_bytes, limits);
//
// The memory is an anonymous file (memfd_create(2)): it has no name, so no file can be left over; it does not count
// against /dev/shm; and the system frees it when the last process that uses it closes it or dies. A process that
// receives the descriptor can read the whole block, not only the part that a view shows, and can keep it for as long as
// it likes.
//
// Seals (fcntl(2), F_ADD_SEALS) are promises about such a file that no process can withdraw:
//
//   F_SEAL_SHRINK        its pages never disappear under a mapping, which would end the reader with SIGBUS
//   F_SEAL_GROW          nothing is added past its end
//   F_SEAL_FUTURE_WRITE  only mappings that exist already can write: no receiver can write into the sender's memory,
//                        and no process can punch holes
//   F_SEAL_WRITE         no process can write at all
//
// Blocks get the first three when they are made, and MapSharedMemory requires them (F_SEAL_WRITE counts as the third).
// The fourth needs SealAgainstWriting. Without it a sender that breaks its promise can change the bytes while the
// receiver reads them. For numbers that is acceptable, because every value of their bytes is valid. A program that
// *checks* bytes (bools, checksums, text) or saves them must copy them first and use the copy, unless
// IsSealedAgainstWriting.
//
// Linux 5.1 or later. Measured: 1 GiB frozen, sent through a Unix socket, mapped and acknowledged in 19 us, of which
// mapping takes 3.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_SHARED_MEMORY_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_SHARED_MEMORY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

// Blocks of min_shared_bytes and more are memory files of their own; smaller blocks come from CpuAllocator::Default().
// A block has all its pages from the start, so that no later write can fail (and end the process with SIGBUS). Allocate
// returns null when memory, descriptors (one for each block; RLIMIT_NOFILE) or mappings run out, or past
// max_total_bytes.
//
// Making and filling 64 MiB takes 70 ms where CpuAllocator with huge pages takes 28 (and 17 ms are the copy): the
// system provides shared memory in pages of 4 KiB unless /sys/kernel/mm/transparent_hugepage/shmem_enabled says
// `advise` or more. So make such tensors once and reuse them, and use other memory for tensors that stay in this
// process.
//
// After fork(2) both processes have the same blocks, not copies: each sees what the other writes.
class SharedMemoryAllocator final : public Allocator {
 public:
  struct Options {
    size_t min_shared_bytes = size_t{64} << 10;
    // The limit on all blocks that are files, together. The limit stops the allocator before the system runs out of
    // memory: for files of this kind the system reports that too late. 0: half of the machine's memory, as for tmpfs.
    size_t max_total_bytes = 0;
  };

  // Makes one memory file as a trial.
  // Errors: Unimplemented if the system lacks them or their seals (Linux before 5.1); ResourceExhausted without a
  // descriptor for it; PermissionDenied in a sandbox.
  static absl::StatusOr<RefPtr<SharedMemoryAllocator>> Create(Options options);
  ~SharedMemoryAllocator() override;

  absl::string_view name() const override { return "shared_memory"; }
  void* Allocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;
  int DescriptorOf(const void* block) const override;

  // The size of the blocks that are files now, in whole pages.
  size_t total_bytes() const;

  // Makes the block of `buffer`, which is from this allocator, immutable for every process, this one included, so that
  // receivers need not copy it. Freezes the memory, too. It may be read meanwhile; a later write through an earlier
  // pointer ends the process with SIGSEGV. Time grows with the size, because each page is unmapped once (measured: 1
  // GiB 150 to 190 ms). A second call costs nothing.
  // Errors: FailedPrecondition: the memory is not this allocator's, or can still be written elsewhere (Busy: a mapping
  // of another process on Linux 6.6 or before, pages held by a device). Unimplemented without /proc.
  absl::Status SealAgainstWriting(const TensorBuffer& buffer);

 private:
  struct Block {
    ScopedDescriptor descriptor;
    size_t mapped_bytes = 0;
  };

  explicit SharedMemoryAllocator(Options options) : options_(options) {}

  // Charge bytes against max_total_bytes, and release them.
  bool Reserve(size_t bytes);
  void GiveBack(size_t bytes);

  const Options options_;
  mutable std::mutex mutex_;
  size_t total_bytes_ = 0;
  // By address. A tree, because absl's hash tables are invalid after a failed allocation.
  std::map<const void*, Block> blocks_;
};

// All bytes from the offset to the end of the file.
constexpr uint64_t kAllBytes = UINT64_MAX;

// Bytes [offset_bytes, offset_bytes + size_bytes) of a received memory file as a root buffer of kind kMapped: mapped
// read-only, not read, in constant time. A mutable access copies them. The buffer keeps the descriptor and can be sent
// on (TensorBuffer::file_range).
//
// `descriptor` may be any descriptor from any sender: this function reads nothing from it. On error it closes the
// descriptor without waiting for the file behind it. Memory past the end of the file is freed.
//
// Errors: InvalidArgument: not a memory file (a pipe, a file on disk, a device ...), or one of huge pages; not sealed
// as above; not open for writing; parts have no memory (a file of 8 EiB costs nothing to make); the range exceeds the
// file. ResourceExhausted: size_bytes past limits.max_message_bytes, or no address space for it.
absl::StatusOr<RefPtr<TensorBuffer>> MapSharedMemory(ScopedDescriptor descriptor, uint64_t offset_bytes,
                                                     uint64_t size_bytes, const DecodeLimits& limits = {});

// True if the bytes lie in a memory file to which no process can write any more. False for all other memory.
bool IsSealedAgainstWriting(const TensorBuffer& buffer);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_SHARED_MEMORY_H_
