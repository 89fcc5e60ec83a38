// Shared memory for elements on their way to another process, reused once no other process has it.
//
//   RecycledMemory memory(size_t{256} << 20);
//   std::optional<RecycledMemory::Loan> loan = memory.Lend(bytes);   // nullopt: send the elements in another way
//   std::memcpy(loan->data, elements, bytes);
//   socket.SendAll({frame}, {loan->descriptor.get()}, deadline);     // from here on `data` is the receiver's
//
// Why: making shared memory costs several times as much as filling it (measured: 64 MiB 87 and 13 ms).
//
// How this process finds out that no other process has a block: for each loan it opens the block's file again (through
// /proc). The kernel counts openings, wherever their descriptors and mappings are: in flight, in the receiver, or in a
// process to which the receiver sent them. It grants a write lease (fcntl(2), F_SETLEASE) only to the last opener. So
// the answer comes from the kernel, and no process can falsify it.
//
// Linux 5.3 or later with /proc and leases; elsewhere Lend returns nothing. The receiver of a loan can read the whole
// block, with the bytes of earlier loans: so one RecycledMemory has one receiver. Not thread safe.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_RECYCLED_MEMORY_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_RECYCLED_MEMORY_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::exchange {

class RecycledMemory {
 public:
  static constexpr size_t kMaxBlocks = 16;  // each keeps a descriptor

  // Keeps at most `max_total_bytes`, whether lent or not.
  explicit RecycledMemory(size_t max_total_bytes) : max_total_bytes_(max_total_bytes) {}

  struct Loan {
    char* data = nullptr;         // at the start of a page; fill it before sending the descriptor
    ScopedDescriptor descriptor;  // accepted by MapSharedMemory; the data begins at byte 0
  };
  // Lends `bytes` or more of memory with unspecified content. Nullopt if the blocks on loan leave no room under
  // max_total_bytes or kMaxBlocks, or if the system has no memory. Requires: bytes > 0.
  std::optional<Loan> Lend(size_t bytes);

 private:
  class Block {
   public:
    static std::optional<Block> Make(size_t bytes);  // whole pages
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();

    size_t bytes() const { return bytes_; }
    bool IsFree() const;
    std::optional<Loan> Lend() const;

   private:
    explicit Block(ScopedDescriptor file) : file_(std::move(file)) {}

    ScopedDescriptor file_;  // this process's only opening
    char* data_ = nullptr;
    size_t bytes_ = 0;
  };

  const Block* FindFree(size_t bytes) const;  // the smallest that is large enough
  const Block* Add(size_t bytes);

  const size_t max_total_bytes_;
  std::vector<Block> blocks_;
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_INTERNAL_RECYCLED_MEMORY_H_
