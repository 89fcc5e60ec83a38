// Reads one tensor as successive blocks, in row-major order, so that a conversion needs memory for a block only.
//
//   const uint64_t block_bytes = 8 << 20;
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks, archive->ReadBlocks(entry, block_bytes));
//   while (true) {
//     CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block, blocks->Next());
//     if (!block.has_value()) break;
//     ...
//   }

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_TENSOR_BLOCKS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_TENSOR_BLOCKS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct TensorBlock {
  TensorSlice slice;    // the part of the tensor
  TensorView elements;  // row-major
};

class TensorBlocks {
 public:
  virtual ~TensorBlocks() = default;
  // The next block; nullopt after the last one. A checksum that covers the whole tensor is verified at the end: until
  // Next returns nullopt, the blocks are not verified. One caller at a time.
  virtual absl::StatusOr<std::optional<TensorBlock>> Next() = 0;
};

namespace archive {

// Counts the bytes that several threads have read, and asks the caller whether to go on.
class ByteProgress {
 public:
  using Callback = std::function<bool(uint64_t bytes)>;

  // `callback` may be null, and must outlive this object. It is never called on two threads at once.
  explicit ByteProgress(const Callback& callback) : callback_(callback) {}

  // False once the callback has returned false.
  bool Add(uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += bytes;
    if (callback_ && !cancelled_) cancelled_ = !callback_(bytes_);
    return !cancelled_;
  }
  bool cancelled() const { return cancelled_; }

 private:
  const Callback& callback_;
  std::mutex mutex_;
  uint64_t bytes_ = 0;
  std::atomic<bool> cancelled_{false};
};

}  // namespace archive
}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_TENSOR_BLOCKS_H_
