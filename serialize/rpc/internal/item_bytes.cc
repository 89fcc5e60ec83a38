#include "tensorcask/serialize/rpc/internal/item_bytes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/rpc/internal/beside_tensors.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/row_major_range.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::rpc {
namespace {

using Charge = std::unique_ptr<QuotaCharge>;

// Bytes that lie in memory one after the other.
class BytesInMemory final : public ItemBytes {
 public:
  BytesInMemory(absl::string_view bytes, std::shared_ptr<const void> held, uint64_t offset, Charge charge)
      : bytes_(bytes), held_(std::move(held)), offset_(offset), charge_(std::move(charge)) {}

  absl::StatusOr<Piece> Next() override {
    Piece piece{bytes_.substr(offset_, kPieceBytes), held_};
    offset_ += piece.bytes.size();
    return piece;
  }
  uint64_t total_bytes() const override { return bytes_.size(); }

 private:
  const absl::string_view bytes_;
  const std::shared_ptr<const void> held_;
  uint64_t offset_;
  const Charge charge_;
};

// Elements with strides, which are gathered.
class GatheredBytes final : public ItemBytes {
 public:
  GatheredBytes(TensorView view, uint64_t offset, Charge charge)
      : view_(std::move(view)),
        total_bytes_(static_cast<uint64_t>(view_.num_elements()) * view_.element_size()),
        offset_(offset),
        charge_(std::move(charge)) {}

  absl::StatusOr<Piece> Next() override {
    const uint64_t bytes = std::min(kPieceBytes, total_bytes_ - offset_);
    if (bytes == 0) return Piece();
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> block, TensorBuffer::Allocate(bytes));
    char* const data = static_cast<char*>(block->mutable_data());
    CopyRowMajorRange(view_, static_cast<int64_t>(offset_ / view_.element_size()), absl::MakeSpan(data, bytes));
    offset_ += bytes;
    return Piece{absl::string_view(data, bytes), std::make_shared<RefPtr<TensorBuffer>>(std::move(block))};
  }
  uint64_t total_bytes() const override { return total_bytes_; }

 private:
  const TensorView view_;
  const uint64_t total_bytes_;
  uint64_t offset_;
  const Charge charge_;
};

// A block that was read for this item alone. The archive uses the memory again once nothing refers to the buffer.
std::shared_ptr<const void> HoldBlock(const TensorView& block) {
  return std::make_shared<RefPtr<TensorBuffer>>(block.buffer());
}

// Elements that are in memory, of any strides.
absl::StatusOr<std::unique_ptr<ItemBytes>> OpenView(TensorView view, uint64_t offset, Charge charge) {
  if (view.num_elements() == 0) return std::make_unique<BytesInMemory>("", nullptr, 0, nullptr);
  if (!view.IsContiguous()) return std::make_unique<GatheredBytes>(std::move(view), offset, std::move(charge));
  // Before the address is asked for: it keeps that address.
  auto held = std::make_shared<RefPtr<RefCounted>>(view.buffer()->HoldMemory());
  return std::make_unique<BytesInMemory>(view.bytes(), std::move(held), offset, std::move(charge));
}

// All elements of a tensor in a file, in blocks, with the checksum at the end.
class FileBlocks final : public ItemBytes {
 public:
  FileBlocks(std::unique_ptr<TensorBlocks> blocks, uint64_t total_bytes, Charge charge)
      : blocks_(std::move(blocks)), total_bytes_(total_bytes), charge_(std::move(charge)) {}

  absl::StatusOr<Piece> Next() override {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block, blocks_->Next());
    if (!block.has_value()) return Piece();
    return Piece{block->elements.bytes(), HoldBlock(block->elements)};
  }
  uint64_t total_bytes() const override { return total_bytes_; }

 private:
  const std::unique_ptr<TensorBlocks> blocks_;
  const uint64_t total_bytes_;
  const Charge charge_;
};

// A part of a tensor in a file: slices of it that are read one after the other, each one row-major range of the part.
class FileSlices final : public ItemBytes {
 public:
  // `part` has an extent on each axis, and elements.
  FileSlices(std::shared_ptr<const ArchiveReader> archive, const ArchiveEntry& entry,
             std::vector<TensorSlice::Extent> part, uint64_t offset, Charge charge)
      : archive_(std::move(archive)),
        entry_(entry),
        part_(std::move(part)),
        next_(static_cast<int64_t>(offset / ElementSize(entry.dtype))),
        charge_(std::move(charge)) {
    inner_ = 1;
    // Axis split_ is the outermost one of which one index has no more than a piece.
    const auto most = static_cast<int64_t>(kPieceBytes / ElementSize(entry.dtype));
    split_ = static_cast<int>(part_.size());
    while (split_ > 0 && part_[static_cast<size_t>(split_ - 1)].length <= most / inner_) {
      inner_ *= part_[static_cast<size_t>(--split_)].length;
    }
    rows_ = most / inner_;
    total_ = 1;
    for (const TensorSlice::Extent& extent : part_) total_ *= extent.length;
  }

  absl::StatusOr<Piece> Next() override {
    if (next_ == total_) return Piece();
    // The rows on axis split_ - 1 that the next element is in, from its own row on.
    std::vector<TensorSlice::Extent> extents = part_;
    int64_t row = next_ / inner_;
    const int64_t skipped = next_ % inner_;
    for (int axis = split_ - 1; axis >= 0; --axis) {
      const TensorSlice::Extent& whole = part_[static_cast<size_t>(axis)];
      TensorSlice::Extent& extent = extents[static_cast<size_t>(axis)];
      const int64_t index = row % whole.length;
      row /= whole.length;
      extent.start = whole.start + index;
      extent.length = axis == split_ - 1 ? std::min(rows_, whole.length - index) : 1;
    }
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Create(extents));
    CASK_ASSIGN_OR_RETURN(const Tensor block, archive_->ReadSlice(entry_.name, slice));
    const TensorView view = block;
    next_ += view.num_elements() - skipped;
    const auto skipped_bytes = static_cast<size_t>(skipped) * view.element_size();
    return Piece{view.bytes().substr(skipped_bytes), HoldBlock(view)};
  }
  uint64_t total_bytes() const override { return static_cast<uint64_t>(total_) * ElementSize(entry_.dtype); }

 private:
  const std::shared_ptr<const ArchiveReader> archive_;
  const ArchiveEntry& entry_;
  const std::vector<TensorSlice::Extent> part_;
  int split_ = 0;
  int64_t inner_ = 1;  // elements of one index of axis split_ - 1
  int64_t rows_ = 1;   // indices of that axis in a piece
  int64_t total_ = 0;
  int64_t next_;
  const Charge charge_;
};

absl::StatusOr<Charge> Take(uint64_t bytes, DecodeQuota* memory) {
  auto charge = std::make_unique<QuotaCharge>(memory);
  CASK_RETURN_IF_ERROR(charge->Add(bytes));
  return charge;
}

std::unique_ptr<ItemBytes> MessageInMemory(std::string message, uint64_t offset, Charge charge) {
  auto held = std::make_shared<const std::string>(std::move(message));
  const absl::string_view bytes = *held;
  return std::make_unique<BytesInMemory>(bytes, std::move(held), offset, std::move(charge));
}

// A message that was made for this item alone.
absl::StatusOr<std::unique_ptr<ItemBytes>> OpenOwnMessage(std::string message, uint64_t offset, DecodeQuota* memory) {
  if (offset > message.size()) {
    return absl::OutOfRangeError(absl::StrCat("offset ", offset, " of ", message.size(), " bytes"));
  }
  CASK_ASSIGN_OR_RETURN(Charge charge, Take(message.size(), memory));
  return MessageInMemory(std::move(message), offset, std::move(charge));
}

absl::StatusOr<std::unique_ptr<ItemBytes>> OpenFileMetadata(const ArchiveReader& archive, uint64_t offset,
                                                            DecodeQuota* memory) {
  const std::vector<std::string> notes = archive.notes();
  uint64_t bytes = 0;
  for (const auto& [key, value] : archive.file_metadata()) bytes += key.size() + value.size();
  for (const std::string& note : notes) bytes += note.size();
  CASK_ASSIGN_OR_RETURN(const Charge object, Take(bytes, memory));  // from which the message is made
  return OpenOwnMessage(ToMessage(archive.file_metadata(), notes), offset, memory);
}

absl::StatusOr<std::unique_ptr<ItemBytes>> OpenMetadata(const ArchiveReader& archive, const ArchiveEntry& entry,
                                                        uint64_t offset, DecodeQuota* memory) {
  CASK_ASSIGN_OR_RETURN(const TensorMetadata metadata, archive.Metadata(entry.name));
  CASK_ASSIGN_OR_RETURN(std::string message, EncodeMetadataAlone(entry.dtype, entry.shape.rank(), metadata));
  return OpenOwnMessage(std::move(message), offset, memory);
}

absl::StatusOr<std::unique_ptr<ItemBytes>> OpenMessage(const TensorSnapshot& snapshot, const ArchiveEntry& entry,
                                                       const ItemRequest& item, DecodeQuota* memory) {
  CASK_ASSIGN_OR_RETURN(Charge charge, Take(snapshot.in_memory ? 0 : ElementBytes(entry), memory));
  DecodedTensor tensor;
  EncodeOptions options;
  if (!item.slice.has_value()) {
    CASK_ASSIGN_OR_RETURN(tensor, ReadForCopy(*snapshot.tensors, entry, /*allow_loss=*/false));
    options.layout = StoredLayout::kPreserve;
  } else if (snapshot.in_memory) {  // a view of memory that is there; ReadSlice would copy it
    CASK_ASSIGN_OR_RETURN(const DecodedTensor whole, snapshot.tensors->ReadIgnoringBadMetadata(entry.name));
    CASK_ASSIGN_OR_RETURN(tensor.view, whole.view.Slice(*item.slice));
  } else {
    CASK_ASSIGN_OR_RETURN(tensor.view, snapshot.tensors->ReadSlice(entry.name, *item.slice));
  }
  CASK_ASSIGN_OR_RETURN(const uint64_t size, EncodedSize(tensor.view, tensor.metadata, options));
  CASK_RETURN_IF_ERROR(charge->Add(size));
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> message, TensorBuffer::Allocate(size));
  char* const data = static_cast<char*>(message->mutable_data());
  CASK_RETURN_IF_ERROR(EncodeTensorTo(tensor.view, tensor.metadata, options, absl::MakeSpan(data, size)));
  if (item.offset > size) return absl::OutOfRangeError(absl::StrCat("offset ", item.offset, " of ", size, " bytes"));
  return std::make_unique<BytesInMemory>(absl::string_view(data, size),
                                         std::make_shared<RefPtr<TensorBuffer>>(std::move(message)), item.offset,
                                         std::move(charge));
}

absl::StatusOr<std::unique_ptr<ItemBytes>> OpenElements(const TensorSnapshot& snapshot, const ArchiveEntry& entry,
                                                        const ItemRequest& item, DecodeQuota* memory) {
  const size_t element_size = ElementSize(entry.dtype);
  if (element_size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements of dtype ", DTypeName(entry.dtype), " have no fixed size; ask for them as a message"));
  }
  TensorShape shape = entry.shape;
  if (item.slice.has_value()) {
    CASK_ASSIGN_OR_RETURN(shape, item.slice->Apply(entry.shape));
  }
  const std::optional<uint64_t> total = CheckedMul<uint64_t>(static_cast<uint64_t>(shape.num_elements()), element_size);
  if (!total.has_value() || item.offset > *total || item.offset % element_size != 0) {
    return absl::OutOfRangeError(absl::StrCat("offset ", item.offset, "; wanted a multiple of ", element_size,
                                              " up to ", total.value_or(UINT64_MAX)));
  }
  if (*total == item.offset) return std::make_unique<BytesInMemory>("", nullptr, 0, nullptr);
  // Blocks are read into memory that is used again: one of them is in flight, the other is read.
  const uint64_t block_bytes = 2 * kPieceBytes;
  if (snapshot.in_memory) {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, snapshot.tensors->ReadIgnoringBadMetadata(entry.name));
    TensorView view = tensor.view;
    if (item.slice.has_value()) {
      CASK_ASSIGN_OR_RETURN(view, view.Slice(*item.slice));
    }
    Charge charge;
    if (!view.IsContiguous()) {
      CASK_ASSIGN_OR_RETURN(charge, Take(block_bytes, memory));
    }
    return OpenView(std::move(view), item.offset, std::move(charge));
  }
  if (!entry.reads_in_blocks) {
    CASK_ASSIGN_OR_RETURN(Charge charge, Take(ElementBytes(entry), memory));
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, snapshot.tensors->Read(entry.name));
    TensorView view = tensor;
    if (item.slice.has_value()) {
      CASK_ASSIGN_OR_RETURN(view, view.Slice(*item.slice));
    }
    return OpenView(std::move(view), item.offset, std::move(charge));
  }
  CASK_ASSIGN_OR_RETURN(Charge charge, Take(block_bytes, memory));
  if (!item.slice.has_value() && item.offset == 0) {
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<TensorBlocks> blocks, snapshot.tensors->ReadBlocks(entry, kPieceBytes));
    return std::make_unique<FileBlocks>(std::move(blocks), *total, std::move(charge));
  }
  std::vector<TensorSlice::Extent> part;
  for (int axis = 0; axis < entry.shape.rank(); ++axis) {
    TensorSlice::Extent extent{0, entry.shape.dim(axis)};
    if (item.slice.has_value() && !item.slice->IsFullAt(axis)) extent = item.slice->extent(axis);
    part.push_back(extent);
  }
  return std::make_unique<FileSlices>(snapshot.tensors, entry, std::move(part), item.offset, std::move(charge));
}

}  // namespace

std::unique_ptr<ItemBytes> MessageItem(std::string message) { return MessageInMemory(std::move(message), 0, nullptr); }

absl::StatusOr<std::unique_ptr<ItemBytes>> OpenItem(const TensorSnapshot& snapshot, const ItemRequest& item,
                                                    DecodeQuota* memory) {
  if (item.file_metadata) return OpenFileMetadata(*snapshot.tensors, item.offset, memory);
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, snapshot.tensors->Find(item.name));
  CASK_RETURN_IF_ERROR(snapshot.tensors->CheckReadable(*entry));
  absl::StatusOr<std::unique_ptr<ItemBytes>> bytes = item.metadata_alone
                                                         ? OpenMetadata(*snapshot.tensors, *entry, item.offset, memory)
                                                     : item.as_message ? OpenMessage(snapshot, *entry, item, memory)
                                                                       : OpenElements(snapshot, *entry, item, memory);
  if (bytes.ok()) return bytes;
  return Annotate(bytes.status(), absl::StrCat("tensor ", Quoted(item.name)));
}

}  // namespace tensorcask::rpc
