#include "tensorcask/serialize/checkpoint/read/bundle_index.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/read/piece_walk.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::checkpoint {
namespace {

std::string TensorLabel(absl::string_view name) { return absl::StrCat("tensor ", Quoted(name)); }
std::string PieceLabel(absl::string_view name, absl::string_view slice) {
  return absl::StrCat("slice ", Quoted(slice), " of tensor ", Quoted(name));
}

// Sums up the pieces of a sliced tensor: sets its shard and offset to those of its first piece, and its size to the sum
// of all.
class PieceSum {
 public:
  explicit PieceSum(CheckpointEntry* tensor) : tensor_(tensor) {
    tensor->stored_bytes = 0;
    tensor->masked_crc32c = 0;
  }

  // Adds the entry of tensor->slices[i].
  absl::Status Add(size_t i, const CheckpointEntry& piece) {
    if (i == 0) {
      tensor_->shard = piece.shard;
      tensor_->offset = piece.offset;
    }
    const std::optional<uint64_t> sum = CheckedAdd(tensor_->stored_bytes, piece.stored_bytes);
    if (!sum.has_value())
      return absl::DataLossError(absl::StrCat(TensorLabel(tensor_->name), ": more than 2^64 bytes"));
    tensor_->stored_bytes = *sum;
    return absl::OkStatus();
  }

 private:
  CheckpointEntry* const tensor_;
};

// The memory that an entry takes in a list of entries.
uint64_t ListedBytes(const CheckpointEntry& entry) {
  constexpr uint64_t kAllocationBytes = 16;
  constexpr size_t kInlineNameBytes = 15;
  constexpr int kInlineDims = 3;  // dims of any size; more, if they are small
  constexpr int kInlineExtents = 4;
  const auto allocated = [](uint64_t bytes) { return bytes > 0 ? bytes + kAllocationBytes : 0; };
  uint64_t bytes = sizeof(CheckpointEntry);
  if (entry.name.size() > kInlineNameBytes) bytes += allocated(entry.name.size() + 1);
  const auto rank = static_cast<uint64_t>(entry.shape.rank());
  if (rank > kInlineDims) bytes += allocated(rank * sizeof(int64_t));
  bytes += allocated(entry.strides.size() * sizeof(int64_t));
  const uint64_t extents = rank > kInlineExtents ? allocated(rank * sizeof(TensorSlice::Extent)) : 0;
  bytes += allocated(entry.slices.size() * (sizeof(TensorSlice) + extents));
  if (entry.payload != nullptr) bytes += allocated(2 * sizeof(PayloadHeader));
  return bytes;
}

// A list may take this many bytes for each byte of the index, besides max_memory_beyond_input. An entry takes about 200
// bytes in a list, and 20 or more in an index that is not compressed.
constexpr uint64_t kListExpansion = 16;

constexpr absl::string_view kFirstName = "\1";  // no name is less: the keys before are the header's and those of pieces

}  // namespace

absl::Status MissingPiece() { return absl::DataLossError("is missing, though the tensor lists it"); }

std::string LocatedEntry::Label() const {
  return slice.empty() ? TensorLabel(index.entry.name) : PieceLabel(index.entry.name, slice);
}

absl::Status CheckPiece(const CheckpointEntry& tensor, const TensorSlice& slice, const CheckpointEntry& piece) {
  if (!piece.slices.empty()) return absl::DataLossError("is in slices itself");
  if (piece.payload != nullptr && piece.payload->is_delta) return absl::DataLossError("is a delta");
  CASK_ASSIGN_OR_RETURN(const TensorShape wanted, slice.Apply(tensor.shape));
  if (piece.dtype == tensor.dtype && piece.shape == wanted) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is ", DTypeName(piece.dtype), " ", piece.shape.ToString(), "; wanted ",
                                          DTypeName(tensor.dtype), " ", wanted.ToString()));
}

// Writers write every sixteenth key whole, so all keys together have at most 16 times the bytes of the file. In a
// malicious file of n bytes they can have n^2.
IndexQuota::IndexQuota(std::string path, uint64_t index_bytes, const DecodeLimits& limits)
    : path_(std::move(path)),
      // Entries are numbered in 32 bits.
      max_entries_(std::min<int64_t>(limits.max_entries, std::numeric_limits<uint32_t>::max() - 1)),
      keys_(DecodeQuota::ForUnbacked(limits, 16 * index_bytes)) {}

absl::Status IndexQuota::Charge(absl::string_view key) {
  if (++num_entries_ > LimitOf(max_entries_)) {
    return PastLimit(absl::StrCat(path_, ": has more entries"), "max_entries", max_entries_);
  }
  const absl::Status status = keys_.Charge(key.size());
  return status.ok() ? status : Annotate(status, absl::StrCat(path_, ": the names of ", num_entries_, " entries"));
}

absl::Status LocateAt(absl::string_view key, absl::string_view value, int num_shards, const DecodeLimits& limits,
                      LocatedEntry* located) {
  *located = LocatedEntry();
  CASK_RETURN_IF_ERROR(DecodeEntry(value, num_shards, limits, &located->index));
  if (!IsPieceKey(key)) {
    located->index.entry.name.assign(key.data(), key.size());
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(SliceKey slice_key, DecodeSliceKey(key));
  located->index.entry.name = std::move(slice_key.name);
  located->slice = slice_key.slice.ToString();
  return absl::OkStatus();
}

BundleIndex::BundleIndex(std::string prefix, std::string path, uint64_t index_bytes, const IndexHeader& header,
                         std::unique_ptr<TableReader> table, const DecodeLimits& limits)
    : prefix_(std::move(prefix)),
      path_(std::move(path)),
      index_bytes_(index_bytes),
      header_(header),
      table_(std::move(table)),
      limits_(limits) {}

absl::StatusOr<std::unique_ptr<const BundleIndex>> BundleIndex::Open(std::shared_ptr<const ByteSource> file,
                                                                     const DecodeLimits& limits) {
  const uint64_t index_bytes = file->size_bytes();
  std::string path = file->name();
  CASK_ASSIGN_OR_RETURN(std::string prefix, PrefixOfPath(path));
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table, TableReader::Open(std::move(file), limits));
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> value, table->Find(""));
  if (!value.has_value()) return absl::DataLossError(absl::StrCat(path, ": has no header"));
  CASK_ASSIGN_OR_ANNOTATE(const IndexHeader header, DecodeHeader(*value, limits), path);
  return std::unique_ptr<const BundleIndex>(
      new BundleIndex(std::move(prefix), std::move(path), index_bytes, header, std::move(table), limits));
}

absl::StatusOr<LocatedEntry> BundleIndex::Locate(absl::string_view name) const {
  std::optional<absl::string_view> value;
  if (!name.empty() && !IsPieceKey(name)) {
    CASK_ASSIGN_OR_RETURN(value, table_->Find(name));
  }
  if (!value.has_value()) return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", Quoted(name)));
  LocatedEntry located;
  CASK_ANNOTATE_IF_ERROR(DecodeEntry(*value, header_.num_shards, limits_, &located.index),
                         absl::StrCat(path_, ": ", TensorLabel(name)));
  located.index.entry.name.assign(name.data(), name.size());
  located.id = value->data();
  return located;
}

absl::StatusOr<LocatedEntry> BundleIndex::LocatePiece(const LocatedEntry& tensor, const TensorSlice& slice) const {
  const std::string& name = tensor.index.entry.name;
  LocatedEntry located;
  located.slice = slice.ToString();
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> value, table_->Find(EncodeSliceKey(name, slice)));
  const absl::Status status = [&]() -> absl::Status {
    if (!value.has_value()) return MissingPiece();
    CASK_RETURN_IF_ERROR(DecodeEntry(*value, header_.num_shards, limits_, &located.index));
    return CheckPiece(tensor.index.entry, slice, located.index.entry);
  }();
  if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": ", PieceLabel(name, located.slice)));
  located.index.entry.name = name;
  located.id = value->data();
  return located;
}

absl::StatusOr<CheckpointEntry> BundleIndex::Describe(LocatedEntry tensor) const {
  CheckpointEntry& entry = tensor.index.entry;
  if (entry.form == EntryForm::kSliced) {
    PieceSum sum(&entry);
    for (size_t i = 0; i < entry.slices.size(); ++i) {
      CASK_ASSIGN_OR_RETURN(const LocatedEntry piece, LocatePiece(tensor, entry.slices[i]));
      CASK_RETURN_IF_ERROR(sum.Add(i, piece.index.entry));
    }
  }
  return std::move(entry);
}

absl::Status BundleIndex::ForEach(DecodeQuota* memory, Visitor fn) const {
  IndexQuota quota(path_, index_bytes_, limits_);
  uint32_t number = 0;
  return table_->ForEach(
      [&](absl::string_view name, absl::string_view value) -> absl::Status {
        if (name.empty()) return absl::OkStatus();  // the header
        const bool is_piece = IsPieceKey(name);
        if (!is_piece && name.size() > LimitOf(limits_.max_name_bytes)) {
          return PastLimit(absl::StrCat(path_, ": the name of tensor ", Quoted(name), " has ", name.size(), " bytes"),
                           "max_name_bytes", limits_.max_name_bytes);
        }
        CASK_RETURN_IF_ERROR(quota.Charge(name));
        QuotaCharge decoded(memory);
        const uint64_t decoded_bytes = LargeEntryBytes(value);
        const absl::Status status = decoded_bytes > 0 ? decoded.Add(decoded_bytes) : absl::OkStatus();
        if (!status.ok()) {
          return Annotate(status, absl::StrCat(path_, ": ", is_piece ? "key " : "tensor ", Quoted(name)));
        }
        return fn(number++, name, value);
      },
      memory);
}

absl::Status BundleIndex::ForEachEntry(absl::FunctionRef<absl::Status(CheckpointEntry)> fn) const {
  DecodeQuota memory = NewQuota();
  StoredRanges ranges(&memory);
  const auto ignore = [](const PieceWalk::Piece&) {};
  PieceWalk pieces(*table_, &memory, ignore);
  IndexEntry index;
  IndexEntry piece_index;
  const auto add_pieces = [&](CheckpointEntry* tensor) {
    PieceSum sum(tensor);
    return pieces.Visit(*tensor, [&](size_t i, const PieceWalk::Piece* piece) -> absl::Status {
      const TensorSlice& slice = tensor->slices[i];
      absl::Status status = MissingPiece();
      if (piece != nullptr) status = DecodeEntry(piece->value, header_.num_shards, limits_, &piece_index);
      if (status.ok()) status = CheckPiece(*tensor, slice, piece_index.entry);
      if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": ", PieceLabel(tensor->name, slice.ToString())));
      return sum.Add(i, piece_index.entry);
    });
  };
  CASK_RETURN_IF_ERROR(
      ForEach(&memory, [&](uint32_t number, absl::string_view key, absl::string_view value) -> absl::Status {
        absl::Status status = DecodeEntry(value, header_.num_shards, limits_, &index);
        if (IsPieceKey(key)) {
          if (status.ok()) status = DecodeSliceKey(key).status();
          if (status.ok()) status = ranges.Add(index.entry, number);
          return status.ok() ? status : Annotate(status, absl::StrCat(path_, ": key ", Quoted(key)));
        }
        if (status.ok()) status = ranges.Add(index.entry, number);
        if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": ", TensorLabel(key)));
        index.entry.name.assign(key.data(), key.size());
        if (index.entry.form == EntryForm::kSliced) CASK_RETURN_IF_ERROR(add_pieces(&index.entry));
        return fn(std::move(index.entry));
      }));
  return CheckOverlaps(&ranges);
}

absl::Status BundleIndex::CheckOverlaps(StoredRanges* ranges) const {
  std::optional<StoredRanges::Overlap> first;
  ranges->FindOverlaps(limits_, [&](const StoredRanges::Overlap& overlap) {
    if (!first.has_value()) first = overlap;
  });
  if (!first.has_value()) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const auto located, EntriesOf({first->former, first->latter}));
  if (located.size() != 2) return absl::DataLossError(absl::StrCat(path_, ": changed while it was read"));
  const LocatedEntry& latter = located.at(first->latter);
  const CheckpointEntry& entry = latter.index.entry;
  const std::string place =
      absl::StrCat(DataPath(prefix_, entry.shard, header_.num_shards), ": ", latter.Label(), " at offset ",
                   entry.offset, ", ", entry.stored_bytes, entry.stored_bytes == 1 ? " byte" : " bytes");
  if (!first->limit.ok()) return Annotate(first->limit, place);
  return absl::DataLossError(
      absl::StrCat(place, ", overlaps ", located.at(first->former).Label(), " at offset ", first->former_offset));
}

absl::StatusOr<std::map<uint32_t, LocatedEntry>> BundleIndex::EntriesOf(const std::set<uint32_t>& numbers) const {
  std::map<uint32_t, LocatedEntry> found;
  DecodeQuota memory = NewQuota();
  CASK_RETURN_IF_ERROR(
      ForEach(&memory, [&](uint32_t number, absl::string_view key, absl::string_view value) -> absl::Status {
        if (numbers.count(number) == 0) return absl::OkStatus();
        LocatedEntry located;
        if (LocateAt(key, value, header_.num_shards, limits_, &located).ok()) found[number] = std::move(located);
        return absl::OkStatus();
      }));
  return found;
}

absl::StatusOr<std::vector<CheckpointEntry>> BundleIndex::entries() const {
  // Counted first, so that the list does not take twice its memory while it grows.
  DecodeQuota memory = NewQuota();
  CASK_ASSIGN_OR_RETURN(uint64_t count, table_->CountFrom(kFirstName, &memory));
  count = std::min(count, LimitOf(limits_.max_entries));  // the walk below refuses more
  DecodeQuota list = DecodeQuota::ForUnbacked(limits_, kListExpansion * index_bytes_);
  absl::Status within = list.Charge(count * sizeof(CheckpointEntry));
  std::vector<CheckpointEntry> found;
  if (within.ok()) found.reserve(count);
  const auto add = [&](CheckpointEntry entry) {
    within = list.Charge(ListedBytes(entry) - sizeof(CheckpointEntry));
    if (within.ok()) found.push_back(std::move(entry));
    return within;
  };
  if (within.ok()) {
    const absl::Status walked = ForEachEntry(add);
    if (within.ok() && !walked.ok()) return walked;
  }
  if (!within.ok()) return Annotate(within, absl::StrCat(path_, ": the list of ", count, " tensors"));
  return found;
}

}  // namespace tensorcask::checkpoint
