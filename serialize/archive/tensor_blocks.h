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

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct TensorBlock {
  TensorSlice slice;    // of the tensor
  TensorView elements;  // row-major
};

class TensorBlocks {
 public:
  virtual ~TensorBlocks() = default;
  // The next block; nullopt after the last one. A checksum that covers the whole tensor is verified at the end: until
  // Next returns nullopt, the blocks are not verified. One caller at a time.
  virtual absl::StatusOr<std::optional<TensorBlock>> Next() = 0;

  // As Next. *same tells whether the block has the bytes of `other`, the last block of `others`. If all earlier
  // blocks agree, too, the checksum of an equal block is not computed again.
  virtual absl::StatusOr<std::optional<TensorBlock>> NextBeside(const TensorBlock& other, const TensorBlocks& others,
                                                                bool* same) {
    static_cast<void>(others);
    absl::StatusOr<std::optional<TensorBlock>> block = Next();
    *same = block.ok() && block->has_value() && SameBytes((*block)->elements, other.elements);
    return block;
  }

 protected:
  // The checksum of all blocks but the last one, and of all blocks.
  struct Checksums {
    uint32_t before = 0;
    uint32_t after = 0;
  };
  virtual std::optional<Checksums> checksums() const { return std::nullopt; }  // nullopt: they are not computed
  static std::optional<Checksums> ChecksumsOf(const TensorBlocks& blocks) { return blocks.checksums(); }
  // False for strings.
  static bool SameBytes(const TensorView& a, const TensorView& b) {
    return a.element_size() > 0 && a.bytes() == b.bytes();
  }
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_TENSOR_BLOCKS_H_
