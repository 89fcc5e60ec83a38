#include "tensorcask/serialize/hdf5/internal/fractal_heap.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/hdf5/internal/btree2.h"
#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

// floor(log2(value)). Requires: value > 0.
uint64_t Log2(uint64_t value) {
  uint64_t bits = 0;
  while ((value >>= 1) != 0) ++bits;
  return bits;
}

bool IsPowerOfTwo(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

absl::StatusOr<FractalHeap> FractalHeap::Open(uint64_t address, File* file) {
  FractalHeap heap(address, file);
  const auto size = static_cast<uint64_t>(26 + 3 * file->address_bytes() + 12 * file->length_bytes());
  CASK_ASSIGN_OR_RETURN(const std::string bytes, file->Read(address, size));
  Cursor in(bytes);
  CASK_RETURN_IF_ERROR(heap.ParseHeader(&in));
  CASK_RETURN_IF_ERROR(CheckMetadataChecksum(bytes));
  return heap;
}

absl::Status FractalHeap::ParseHeader(Cursor* in) {
  if (in->Bytes(4) != "FRHP" || in->Uint(1) != 0) {
    return absl::DataLossError(absl::StrCat("the heap at ", address_, " has not its signature"));
  }
  in->Skip(2);  // bytes of an id
  if (in->Uint(2) != 0) return absl::UnimplementedError("is in a heap with filters, which is not read");
  has_checksums_ = (in->Uint(1) & 2) != 0;
  const uint64_t most_managed = in->Uint(4);
  file_->Length(in);  // the next number of a huge object
  huge_tree_ = file_->Address(in);
  file_->Length(in);                              // free space
  file_->Address(in);                             // the address of its manager
  for (int i = 0; i < 8; ++i) file_->Length(in);  // numbers of bytes and objects
  width_ = in->Uint(2);
  first_bytes_ = file_->Length(in);
  most_direct_bytes_ = file_->Length(in);
  const uint64_t bits = in->Uint(2);
  in->Skip(2);  // rows at the start
  root_ = file_->Address(in);
  root_rows_ = in->Uint(2);
  constexpr uint64_t kMostBits = 64;
  constexpr uint64_t kMostDirectBytes = uint64_t{1} << 31;
  const bool fits = in->ok() && IsPowerOfTwo(width_) && IsPowerOfTwo(first_bytes_) &&
                    IsPowerOfTwo(most_direct_bytes_) && first_bytes_ <= most_direct_bytes_ &&
                    most_direct_bytes_ <= kMostDirectBytes && bits > 0 && bits <= kMostBits &&
                    Log2(first_bytes_) + Log2(width_) <= bits && most_managed > 0 && root_rows_ <= kMostBits;
  if (!fits) return absl::DataLossError(absl::StrCat("the heap at ", address_, " has sizes that do not fit"));
  offset_bytes_ = static_cast<int>((bits + 7) / 8);
  length_bytes_ = static_cast<int>(std::min((Log2(most_direct_bytes_) + 7) / 8, Log2(most_managed) / 8 + 1));
  return absl::OkStatus();
}

absl::StatusOr<std::string> FractalHeap::Get(absl::string_view id) {
  constexpr uint64_t kVersionBits = 0xc0;
  Cursor in(id);
  const uint64_t kind = in.Uint(1);
  if (!in.ok() || (kind & kVersionBits) != 0) return absl::DataLossError("has an id of a heap of another version");
  switch (kind >> 4) {
    case 0:
      return GetManaged(&in);
    case 1:
      return GetHuge(&in);
    case 2:
      return absl::UnimplementedError("is so small that it is in the id of a heap, which is not read");
    default:
      return absl::DataLossError("has an id of a heap of no kind");
  }
}

// The first two rows have blocks of first_bytes_; those of each row after are twice as large.
uint64_t FractalHeap::RowBytes(uint64_t row) const { return row == 0 ? first_bytes_ : first_bytes_ << (row - 1); }

absl::StatusOr<std::string> FractalHeap::GetManaged(Cursor* in) {
  const uint64_t offset = in->Uint(offset_bytes_);
  const uint64_t length = in->Uint(length_bytes_);
  if (!in->ok()) return CutShort("an id of a heap");
  const auto outside = [&] {
    return absl::DataLossError(
        absl::StrCat("is at ", offset, " of the heap at ", address_, ", which has no such place"));
  };
  const uint64_t direct_rows = Log2(most_direct_bytes_) - Log2(first_bytes_) + 2;
  uint64_t address = root_;
  uint64_t rows = root_rows_;  // 0: the block is a direct one
  uint64_t start = 0;          // where the block starts, in the heap
  uint64_t size = first_bytes_;
  while (rows > 0) {
    const uint64_t first_row = width_ * first_bytes_;
    const uint64_t inside = offset - start;
    const uint64_t row = inside < first_row ? 0 : Log2(inside / first_row) + 1;
    if (row >= rows) return outside();
    const uint64_t row_start = row == 0 ? 0 : first_row << (row - 1);
    const uint64_t column = (inside - row_start) / RowBytes(row);
    // Each entry is an address: heaps with filters are refused.
    const auto address_bytes = static_cast<uint64_t>(file_->address_bytes());
    const uint64_t head = 4 + 1 + address_bytes + static_cast<uint64_t>(offset_bytes_);
    CASK_ASSIGN_OR_RETURN(const absl::string_view block,
                          Block(address, head + rows * width_ * address_bytes + kChecksumBytes, "FHIB", start));
    Cursor entries(block.substr(static_cast<size_t>(head + (row * width_ + column) * address_bytes)));
    address = file_->Address(&entries);
    start += row_start + column * RowBytes(row);
    size = RowBytes(row);
    if (row >= direct_rows && size < first_row) return outside();
    rows = row < direct_rows ? 0 : Log2(size) - Log2(first_row) + 1;
  }
  if (address == kUndefined) return outside();
  CASK_ASSIGN_OR_RETURN(const absl::string_view block, Block(address, size, "FHDB", start));
  if (!RangeFits(offset - start, length, block.size())) return outside();
  return std::string(block.substr(static_cast<size_t>(offset - start), static_cast<size_t>(length)));
}

absl::StatusOr<absl::string_view> FractalHeap::Block(uint64_t address, uint64_t size, absl::string_view signature,
                                                     uint64_t start) {
  const auto known = blocks_.find(address);
  if (known != blocks_.end() && known->second.size() == size) return absl::string_view(known->second);
  const auto broken = [&] {
    return absl::DataLossError(absl::StrCat("the block at ", address, " of a heap is no ", signature, " of it"));
  };
  if (known != blocks_.end()) return broken();
  CASK_ASSIGN_OR_RETURN(std::string bytes, file_->Read(address, size));
  Cursor in(bytes);
  const bool is_it = in.Bytes(4) == signature && in.Uint(1) == 0 && file_->Address(&in) == address_ &&
                     in.Uint(offset_bytes_) == start && in.ok();
  if (!is_it) return broken();
  if (signature == "FHIB") {
    CASK_RETURN_IF_ERROR(CheckMetadataChecksum(bytes));
  } else if (has_checksums_) {
    // It stands after the head and counts as 0 in itself.
    const size_t at = in.position();
    const uint64_t wanted = in.Uint(kChecksumBytes);
    if (!in.ok()) return broken();
    std::string cleared = bytes;
    cleared.replace(at, kChecksumBytes, kChecksumBytes, '\0');
    if (MetadataChecksum(cleared) != wanted) {
      return absl::DataLossError(absl::StrCat("the block at ", address, " of a heap has not its checksum"));
    }
  }
  return absl::string_view(blocks_.emplace(address, std::move(bytes)).first->second);
}

absl::StatusOr<std::string> FractalHeap::GetHuge(Cursor* in) {
  if (!has_huge_ && huge_tree_ != kUndefined) {
    CASK_RETURN_IF_ERROR(ForEachRecord(huge_tree_, RecordKind::kHugeObject, file_, [&](absl::string_view record) {
      Cursor of(record);
      const uint64_t address = file_->Address(&of);
      const uint64_t size = file_->Length(&of);
      const uint64_t number = file_->Length(&of);
      if (!of.ok()) return CutShort("a record of a heap");
      huge_.emplace(number, std::make_pair(address, size));
      return absl::OkStatus();
    }));
  }
  has_huge_ = true;
  const uint64_t number = in->Uint(static_cast<int>(std::min<size_t>(in->left(), sizeof(uint64_t))));
  const auto found = huge_.find(number);
  if (found == huge_.end()) {
    return absl::DataLossError(
        absl::StrCat("is the huge object ", number, " of the heap at ", address_, ", which has none"));
  }
  return file_->Read(found->second.first, found->second.second);
}

}  // namespace tensorcask::hdf5
