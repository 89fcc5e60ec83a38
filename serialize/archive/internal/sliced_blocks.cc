#include "tensorcask/serialize/archive/internal/sliced_blocks.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/internal/block_plan.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {
namespace {

class SlicedBlocks final : public TensorBlocks {
 public:
  SlicedBlocks(const ArchiveEntry& entry, uint64_t block_bytes, ReadBlock read, std::function<absl::Status()> finish)
      : dtype_(entry.dtype),
        shape_(entry.shape),
        plan_(entry.shape, ElementSize(entry.dtype), block_bytes),
        read_(std::move(read)),
        finish_(std::move(finish)) {}

  absl::StatusOr<std::optional<TensorBlock>> Next() override {
    const std::optional<TensorSlice> slice = plan_.Next();
    if (!slice.has_value()) {
      if (finish_) CASK_RETURN_IF_ERROR(finish_());
      return std::nullopt;
    }
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice->Apply(shape_));
    TensorBlock block = {*slice, TensorView()};
    CASK_ASSIGN_OR_RETURN(block.elements, FreeMemory(shape));
    CASK_RETURN_IF_ERROR(read_(*slice, &block.elements));
    return block;
  }

 private:
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
  const ReadBlock read_;
  const std::function<absl::Status()> finish_;
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

std::unique_ptr<TensorBlocks> MakeSlicedBlocks(const ArchiveEntry& entry, uint64_t block_bytes, ReadBlock read) {
  return std::make_unique<SlicedBlocks>(entry, block_bytes, std::move(read), nullptr);
}

std::unique_ptr<TensorBlocks> MakeStreamedBlocks(const ArchiveEntry& entry, uint64_t block_bytes,
                                                 std::shared_ptr<ElementStream> stream) {
  const auto read = [stream](const TensorSlice& /*slice*/, TensorView* out) {
    if (out->num_elements() == 0) return absl::OkStatus();  // without memory
    CASK_RETURN_IF_ERROR(out->EnsureMutable());
    return stream->Read(absl::MakeSpan(static_cast<char*>(out->buffer()->mutable_data()), out->bytes().size()));
  };
  return std::make_unique<SlicedBlocks>(entry, block_bytes, read, [stream] { return stream->Finish(); });
}

std::unique_ptr<TensorBlocks> MakeTensorBlocks(const TensorView& tensor, uint64_t block_bytes) {
  if (tensor.element_size() == 0) return std::make_unique<OneBlock>(tensor);
  return std::make_unique<WholeBlocks>(tensor, block_bytes);
}

}  // namespace tensorcask::archive
