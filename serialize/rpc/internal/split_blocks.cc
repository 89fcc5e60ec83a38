#include "tensorcask/serialize/rpc/internal/split_blocks.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

// `inner` is a slice of the part of the tensor that `outer` is.
absl::StatusOr<TensorSlice> Compose(const TensorSlice& outer, const TensorSlice& inner) {
  std::vector<TensorSlice::Extent> extents;
  for (int axis = 0; axis < outer.rank(); ++axis) {
    TensorSlice::Extent extent = outer.extent(axis);
    if (!inner.IsFullAt(axis)) {
      extent.start += inner.extent(axis).start;
      extent.length = inner.extent(axis).length;
    }
    extents.push_back(extent);
  }
  return TensorSlice::Create(extents);
}

class Splitter final : public TensorBlocks {
 public:
  Splitter(std::unique_ptr<TensorBlocks> large, uint64_t block_bytes)
      : large_(std::move(large)), block_bytes_(block_bytes) {}

  absl::StatusOr<std::optional<TensorBlock>> Next() override {
    while (true) {
      if (small_ == nullptr) {
        CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> next, large_->Next());
        if (!next.has_value()) return std::nullopt;
        CASK_RETURN_IF_ERROR(Split(*std::move(next)));
      }
      CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> block, small_->Next());
      if (block.has_value()) {
        CASK_ASSIGN_OR_RETURN(block->slice, Compose(slice_, block->slice));
        return block;
      }
      small_ = nullptr;
      part_ = nullptr;
    }
  }

 private:
  absl::Status Split(TensorBlock block) {
    slice_ = std::move(block.slice);
    NamedRecord record;
    record.tensor.view = std::move(block.elements);
    record.entry = DescribeTensor("part", record.tensor);
    KeptTensors kept;
    kept.Add(std::move(record));
    part_ = MakeDecodedArchive("part", "part", std::move(kept), /*has_names=*/true);
    CASK_ASSIGN_OR_RETURN(small_, part_->ReadBlocks(part_->entries()[0], block_bytes_));
    return absl::OkStatus();
  }

  const std::unique_ptr<TensorBlocks> large_;
  const uint64_t block_bytes_;
  TensorSlice slice_ = TensorSlice::Full(0);  // that of the large block
  std::unique_ptr<ArchiveReader> part_;       // the large block
  std::unique_ptr<TensorBlocks> small_;       // what is left of it; null: nothing
};

}  // namespace

std::unique_ptr<TensorBlocks> SplitBlocks(std::unique_ptr<TensorBlocks> large, uint64_t block_bytes) {
  return std::make_unique<Splitter>(std::move(large), block_bytes);
}

}  // namespace tensorcask::rpc
