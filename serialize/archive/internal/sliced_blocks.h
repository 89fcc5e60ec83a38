// The blocks of a tensor, read as slices into memory that is used again.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SLICED_BLOCKS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SLICED_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::archive {

struct BlockFunctions {
  // Fills the view, which is contiguous and begins its buffer. Called for one block after the other.
  std::function<absl::Status(const TensorSlice&, TensorView*)> read;
  // Called after the last block with the crc32c of all blocks; may be empty.
  std::function<absl::Status(uint32_t crc)> check;
  uint32_t crc_before = 0;                         // of bytes before the first block, which the checksum covers, too
  std::function<absl::Status()> finish = nullptr;  // called after the last block; may be empty
};

// Memory is taken for as many blocks as the caller holds at once, and one more. Requires: the dtype has a fixed size.
std::unique_ptr<TensorBlocks> MakeSlicedBlocks(const ArchiveEntry& entry, uint64_t block_bytes,
                                               BlockFunctions functions);

// For BlockFunctions::check: the error of blocks whose checksum is not the stored one. `whole` is the result of reading
// the tensor at once, which says what is wrong. If it found nothing wrong, the file changes while it is read: DataLoss.
absl::Status WrongBlocks(const absl::Status& whole, absl::string_view path, absl::string_view tensor);

// The blocks of a tensor that is in memory.
std::unique_ptr<TensorBlocks> MakeTensorBlocks(const TensorView& tensor, uint64_t block_bytes);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SLICED_BLOCKS_H_
