// Shared memory for elements on their way to another process, used again once nobody else has it.
//
//   RecycledMemory memory(size_t{256} << 20);
//   std::optional<RecycledMemory::Loan> loan = memory.Lend(bytes);   // none: they have to go some other way
//   std::memcpy(loan->data, elements, bytes);
//   socket.SendAll({frame}, {loan->descriptor.get()}, deadline);     // from here on `data` is the receiver's
//
// Why: to make memory that can be shared costs several times what it costs to fill it (measured: 64 MiB 87 and 13 ms).
//
// How it is known that nobody else has it: each loan is the block's file opened anew (through /proc), and the kernel
// counts openings, wherever their descriptors and mappings are: on their way, with the receiver, or with whoever got
// them from there. It grants a write lease (fcntl(2), F_SETLEASE) to the only one who has a file open. So nobody has to
// be asked, and nobody can say what is not so.
//
// Linux 5.3 or later with /proc and leases; elsewhere nothing is lent. Who gets a loan can read the whole block,
// earlier loans' bytes among them: so one RecycledMemory has one receiver. Not thread safe.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_RECYCLED_MEMORY_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_RECYCLED_MEMORY_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tensorcask/serialize/exchange/scoped_descriptor.h"

namespace tensorcask::exchange {

class RecycledMemory {
 public:
  static constexpr size_t kMaxBlocks = 16;  // each keeps a descriptor

  // Keeps at most `max_total_bytes`, lent or not.
  explicit RecycledMemory(size_t max_total_bytes) : max_total_bytes_(max_total_bytes) {}

  struct Loan {
    char* data = nullptr;         // at the start of a page; to be filled before the descriptor is sent
    ScopedDescriptor descriptor;  // a file as MapSharedMemory wants it, the data from its byte 0 on
  };
  // Memory of `bytes` or more, whatever is in it. Nothing if all that may be kept is lent, or the system has none.
  // Requires: bytes > 0.
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

    ScopedDescriptor file_;  // our only opening
    char* data_ = nullptr;
    size_t bytes_ = 0;
  };

  const Block* FindFree(size_t bytes) const;  // the smallest that has as many
  const Block* Add(size_t bytes);

  const size_t max_total_bytes_;
  std::vector<Block> blocks_;
};

}  // namespace tensorcask::exchange

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_RECYCLED_MEMORY_H_
