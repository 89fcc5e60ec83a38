#include "tensorcask/serialize/archive/internal/sliced_blocks.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/block_plan.h"
#include "tensorcask/serialize/io/internal/damage_mark.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {
namespace {

class SlicedBlocks final : public TensorBlocks {
 public:
  SlicedBlocks(const ArchiveEntry& entry, uint64_t block_bytes, BlockFunctions functions)
      : dtype_(entry.dtype),
        shape_(entry.shape),
        plan_(entry.shape, ElementSize(entry.dtype), block_bytes),
        functions_(std::move(functions)),
        crc_{functions_.crc_before, functions_.crc_before} {}

  absl::StatusOr<std::optional<TensorBlock>> Next() override {
    CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> block, ReadNext());
    if (block.has_value()) AddChecksum(block->elements);
    return block;
  }

  absl::StatusOr<std::optional<TensorBlock>> NextBeside(const TensorBlock& other, const TensorBlocks& others,
                                                        bool* same) override {
    *same = false;
    CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> block, ReadNext());
    if (!block.has_value()) return block;
    *same = SameBytes(block->elements, other.elements);
    const std::optional<Checksums> known = ChecksumsOf(others);
    if (*same && known.has_value() && known->before == crc_.after) {
      crc_ = *known;
    } else {
      AddChecksum(block->elements);
    }
    return block;
  }

 protected:
  std::optional<Checksums> checksums() const override {
    if (!functions_.check) return std::nullopt;
    return crc_;
  }

 private:
  absl::StatusOr<std::optional<TensorBlock>> ReadNext() {
    const std::optional<TensorSlice> slice = plan_.Next();
    if (!slice.has_value()) {
      if (functions_.check) CASK_RETURN_IF_ERROR(functions_.check(crc_.after));
      if (functions_.finish) CASK_RETURN_IF_ERROR(functions_.finish());
      return std::nullopt;
    }
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice->Apply(shape_));
    TensorBlock block = {*slice, TensorView()};
    CASK_ASSIGN_OR_RETURN(block.elements, FreeMemory(shape));
    CASK_RETURN_IF_ERROR(functions_.read(*slice, &block.elements));
    return block;
  }

  void AddChecksum(const TensorView& elements) {
    if (functions_.check) crc_ = {crc_.after, ExtendCrc32c(crc_.after, elements.bytes())};
  }

  // Memory of this shape that the caller has released.
  absl::StatusOr<TensorView> FreeMemory(const TensorShape& shape) {
    for (const Tensor& memory : memory_) {
      if (memory.shape() == shape && memory.RefCountIsOne()) return TensorView(memory);
    }
    CASK_ASSIGN_OR_RETURN(Tensor fresh, Tensor::Create(dtype_, shape));
    // The last block of a tensor may be smaller than the others: its memory is not kept.
    if (memory_.empty() || memory_[0].shape() == shape) memory_.push_back(fresh);
    return TensorView(fresh);
  }

  const DType dtype_;
  const TensorShape shape_;
  BlockPlan plan_;
  const BlockFunctions functions_;
  Checksums crc_;
  std::vector<Tensor> memory_;
};

class WholeBlocks final : public TensorBlocks {
 public:
  WholeBlocks(const TensorView& tensor, uint64_t block_bytes)
      : tensor_(tensor), plan_(tensor.shape(), tensor.element_size(), block_bytes) {}

  absl::StatusOr<std::optional<TensorBlock>> Next() override {
    const std::optional<TensorSlice> slice = plan_.Next();
    if (!slice.has_value()) return std::nullopt;
    TensorBlock block = {*slice, TensorView()};
    CASK_ASSIGN_OR_RETURN(block.elements, tensor_.Slice(*slice));
    CASK_ASSIGN_OR_RETURN(block.elements, block.elements.Contiguous());
    return block;
  }

 private:
  const TensorView tensor_;
  BlockPlan plan_;
};

class OneBlock final : public TensorBlocks {
 public:
  explicit OneBlock(TensorView tensor) : tensor_(std::move(tensor)) {}
  absl::StatusOr<std::optional<TensorBlock>> Next() override {
    if (!tensor_.has_value()) return std::nullopt;
    TensorBlock block = {TensorSlice::Full(tensor_->rank()), *tensor_};
    tensor_.reset();
    return block;
  }

 private:
  std::optional<TensorView> tensor_;
};

}  // namespace

std::unique_ptr<TensorBlocks> MakeSlicedBlocks(const ArchiveEntry& entry, uint64_t block_bytes,
                                               BlockFunctions functions) {
  return std::make_unique<SlicedBlocks>(entry, block_bytes, std::move(functions));
}

absl::Status WrongBlocks(const absl::Status& whole, absl::string_view path, absl::string_view tensor) {
  if (!whole.ok()) return whole;
  return MarkWrongChecksum(absl::DataLossError(
      absl::StrCat(path, ": tensor ", Quoted(tensor), ": its blocks have another checksum than the one stored")));
}

std::unique_ptr<TensorBlocks> MakeTensorBlocks(const TensorView& tensor, uint64_t block_bytes) {
  if (tensor.element_size() == 0) return std::make_unique<OneBlock>(tensor);
  return std::make_unique<WholeBlocks>(tensor, block_bytes);
}

}  // namespace tensorcask::archive
