// The blocks of a tensor, read into memory that is used again.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SLICED_BLOCKS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SLICED_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::archive {

// Fills the view, which is contiguous and begins its buffer. Called for one block after the other.
using ReadBlock = std::function<absl::Status(const TensorSlice&, TensorView*)>;

// Allocates as many blocks as the caller holds at once, and one more. Requires: the dtype has a fixed size.
std::unique_ptr<TensorBlocks> MakeSlicedBlocks(const ArchiveEntry& entry, uint64_t block_bytes, ReadBlock read);
// The same from a stream of all elements, which is finished after the last block.
std::unique_ptr<TensorBlocks> MakeStreamedBlocks(const ArchiveEntry& entry, uint64_t block_bytes,
                                                 std::shared_ptr<ElementStream> stream);

// The blocks of a tensor that is in memory.
std::unique_ptr<TensorBlocks> MakeTensorBlocks(const TensorView& tensor, uint64_t block_bytes);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_SLICED_BLOCKS_H_
