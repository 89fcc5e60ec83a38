#include "tensorcask/serialize/exchange/internal/recycled_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>

#include "absl/numeric/bits.h"
#include "tensorcask/serialize/exchange/internal/memory_file.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/memory_pages.h"

namespace tensorcask::exchange {
namespace {

// Whole pages, and up to an eighth more than requested, so that a slightly larger request fits the next time.
// Requires: 2 * bytes fits size_t.
size_t BlockBytes(size_t bytes) {
  const size_t step = std::max(internal::PageBytes(), absl::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

// ---- Block ----------------------------------------------------------------------------------------------------------

std::optional<RecycledMemory::Block> RecycledMemory::Block::Make(size_t bytes) {
  ScopedDescriptor made = MakeMemoryFile(bytes);
  if (!made.is_open()) return std::nullopt;
  // The kernel does not count the opening by memfd_create(2) as a writer, and refuses a lease because of that.
  Block block(OpenAgain(made.get(), O_RDWR));
  made.Close();
  if (!block.file_.is_open()) return std::nullopt;
  // If another process opens the file through /proc while this one has the lease, the kernel sends a signal: SIGIO,
  // which would end the process, unless another one is set. SIGURG is ignored by default.
  if (fcntl(block.file_.get(), F_SETSIG, SIGURG) != 0 || !block.IsFree()) return std::nullopt;
  block.data_ = MapNewMemoryFile(block.file_, bytes);
  if (block.data_ == nullptr) return std::nullopt;
  block.bytes_ = bytes;
  return block;
}

RecycledMemory::Block::Block(Block&& other) noexcept
    : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

RecycledMemory::Block& RecycledMemory::Block::operator=(Block&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

RecycledMemory::Block::~Block() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool RecycledMemory::Block::IsFree() const {
  if (fcntl(file_.get(), F_SETLEASE, F_WRLCK) != 0) return false;
  CASK_CHECK(fcntl(file_.get(), F_SETLEASE, F_UNLCK) == 0, "a lease is given back");
  return true;
}

std::optional<RecycledMemory::Loan> RecycledMemory::Block::Lend() const {
  Loan loan;
  loan.data = data_;
  loan.descriptor = OpenAgain(file_.get(), O_RDWR);
  if (!loan.descriptor.is_open()) return std::nullopt;
  return loan;
}

// ---- RecycledMemory -------------------------------------------------------------------------------------------------

std::optional<RecycledMemory::Loan> RecycledMemory::Lend(size_t bytes) {
  const size_t most = max_total_bytes_ / internal::PageBytes() * internal::PageBytes();
  if (bytes > most) return std::nullopt;
  const Block* block = FindFree(bytes);
  if (block == nullptr) block = Add(std::min(BlockBytes(bytes), most));
  return block == nullptr ? std::nullopt : block->Lend();
}

const RecycledMemory::Block* RecycledMemory::FindFree(size_t bytes) const {
  const Block* best = nullptr;
  for (const Block& block : blocks_) {
    if (block.bytes() < bytes || (best != nullptr && block.bytes() >= best->bytes())) continue;
    if (block.IsFree()) best = &block;
  }
  return best;
}

const RecycledMemory::Block* RecycledMemory::Add(size_t bytes) {
  const auto has_room = [&] {
    size_t total_bytes = 0;
    for (const Block& block : blocks_) total_bytes += block.bytes();
    return blocks_.size() < kMaxBlocks && bytes <= max_total_bytes_ - total_bytes;
  };
  if (!has_room()) {
    // The free ones are too small for the request.
    blocks_.erase(std::remove_if(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.IsFree(); }),
                  blocks_.end());
    if (!has_room()) return nullptr;
  }
  std::optional<Block> block = Block::Make(bytes);
  if (!block) return nullptr;
  blocks_.push_back(*std::move(block));
  return &blocks_.back();
}

}  // namespace tensorcask::exchange
