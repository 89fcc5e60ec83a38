#include "tensorcask/serialize/checkpoint/read/bundle_index.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/io/internal/decode_quota.h"
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

// A piece as it is remembered while the index is walked.
struct Piece {
  std::string key;
  CheckpointEntry entry;
};

// Both encoded, with equal headers and one range.
bool IsSamePayload(const StoredRange& a, const StoredRange& b) {
  return a.payload != nullptr && b.payload != nullptr && a.shard == b.shard && a.offset == b.offset &&
         a.size_bytes == b.size_bytes && a.masked_crc32c == b.masked_crc32c && *a.payload == *b.payload;
}

// Sets shard and offset of a sliced tensor to those of its first piece, and its size to the sum of all.
absl::Status AddPieces(CheckpointEntry* tensor,
                       absl::FunctionRef<absl::StatusOr<StoredRange>(const TensorSlice&)> find) {
  uint64_t stored_bytes = 0;
  for (const TensorSlice& slice : tensor->slices) {
    CASK_ASSIGN_OR_RETURN(const StoredRange piece, find(slice));
    if (&slice == &tensor->slices.front()) {
      tensor->shard = piece.shard;
      tensor->offset = piece.offset;
    }
    const std::optional<uint64_t> sum = CheckedAdd(stored_bytes, piece.size_bytes);
    if (!sum.has_value()) return absl::DataLossError(absl::StrCat(TensorLabel(tensor->name), ": more than 2^64 bytes"));
    stored_bytes = *sum;
  }
  tensor->stored_bytes = stored_bytes;
  tensor->masked_crc32c = 0;
  return absl::OkStatus();
}

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

StoredRange RangeOf(const CheckpointEntry& entry, size_t number) {
  return {entry.shard, entry.offset, entry.stored_bytes, number, entry.masked_crc32c, entry.payload};
}

void FindOverlaps(std::vector<StoredRange> ranges, const DecodeLimits& limits,
                  absl::FunctionRef<void(size_t, size_t, const absl::Status& limit)> fn) {
  const auto before = [](const StoredRange& a, const StoredRange& b) {
    return std::tie(a.shard, a.offset, a.entry) < std::tie(b.shard, b.offset, b.entry);
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), before)) std::sort(ranges.begin(), ranges.end(), before);
  const StoredRange* furthest = nullptr;  // of those so far, the one that ends last
  uint64_t shares = 1;                    // how many entries share that range
  for (const StoredRange& range : ranges) {
    if (furthest == nullptr || furthest->shard != range.shard) {
      furthest = &range;
      shares = 1;
      continue;
    }
    if (IsSamePayload(*furthest, range)) {
      if (range.payload->decoded_bytes() <= MaxDecodedBytes(range.size_bytes, limits) / (shares + 1)) {
        ++shares;
      } else {
        fn(furthest->entry, range.entry,
           PastLimit(absl::StrCat(shares + 1, " entries share these ", range.size_bytes, " bytes, each decodes to ",
                                  range.payload->decoded_bytes(),
                                  ", and together they pass max_expansion times what is stored"),
                     "max_expansion", limits.max_expansion));
      }
      continue;
    }
    const uint64_t end = furthest->offset + furthest->size_bytes;  // below 2^63, DecodeEntry has seen to that
    if (range.offset < end) fn(furthest->entry, range.entry, absl::OkStatus());
    if (range.offset + range.size_bytes <= end) continue;
    furthest = &range;
    shares = 1;
  }
}

// A byte of the file stands for 16 of memory in each quota. Writers write every sixteenth key whole, so that all keys
// together have at most 16 times the bytes of the file; in a file made for the purpose they have its square. An entry
// takes some 128 bytes in memory, and 8 or more in a file that is not compressed.
IndexQuota::IndexQuota(std::string path, uint64_t index_bytes, const DecodeLimits& limits)
    : path_(std::move(path)),
      max_entries_(limits.max_entries),
      entries_(DecodeQuota::ForUnbacked(limits, 16 * index_bytes)),
      keys_(DecodeQuota::ForUnbacked(limits, 16 * index_bytes)) {}

absl::Status IndexQuota::Charge(absl::string_view key) {
  constexpr uint64_t kEntryBytes = 128;
  if (++num_entries_ > LimitOf(max_entries_)) {
    return PastLimit(absl::StrCat(path_, ": has more entries"), "max_entries", max_entries_);
  }
  absl::Status status = entries_.Charge(kEntryBytes);
  if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": entry ", num_entries_));
  status = keys_.Charge(key.size());
  return status.ok() ? status : Annotate(status, absl::StrCat(path_, ": the names of ", num_entries_, " entries"));
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
  const absl::StatusOr<IndexHeader> header = DecodeHeader(*value, limits);
  if (!header.ok()) return Annotate(header.status(), path);
  return std::unique_ptr<const BundleIndex>(
      new BundleIndex(std::move(prefix), std::move(path), index_bytes, *header, std::move(table), limits));
}

absl::StatusOr<LocatedEntry> BundleIndex::Locate(absl::string_view name) const {
  std::optional<absl::string_view> value;
  if (!name.empty() && !IsPieceKey(name)) {
    CASK_ASSIGN_OR_RETURN(value, table_->Find(name));
  }
  if (!value.has_value()) return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", Quoted(name)));
  LocatedEntry located;
  const absl::Status status = DecodeEntry(*value, header_.num_shards, limits_, &located.index);
  if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": ", TensorLabel(name)));
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
    CASK_RETURN_IF_ERROR(AddPieces(&entry, [&](const TensorSlice& slice) -> absl::StatusOr<StoredRange> {
      CASK_ASSIGN_OR_RETURN(const LocatedEntry piece, LocatePiece(tensor, slice));
      return RangeOf(piece.index.entry, 0);
    }));
  }
  return std::move(entry);
}

absl::Status BundleIndex::ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn) const {
  IndexQuota quota(path_, index_bytes_, limits_);
  return table_->ForEach([&](absl::string_view name, absl::string_view value) -> absl::Status {
    if (name.empty()) return absl::OkStatus();  // the header
    if (!IsPieceKey(name) && name.size() > LimitOf(limits_.max_name_bytes)) {
      return PastLimit(absl::StrCat(path_, ": the name of tensor ", Quoted(name), " has ", name.size(), " bytes"),
                       "max_name_bytes", limits_.max_name_bytes);
    }
    CASK_RETURN_IF_ERROR(quota.Charge(name));
    return fn(name, value);
  });
}

absl::StatusOr<std::vector<CheckpointEntry>> BundleIndex::entries() const {
  std::vector<CheckpointEntry> found;
  std::vector<Piece> pieces;  // by key; they stand before all names, so that all are known when a sliced tensor comes
  std::vector<StoredRange> ranges;
  const auto find_piece = [&](const CheckpointEntry& tensor, const TensorSlice& slice) -> absl::StatusOr<StoredRange> {
    const std::string key = EncodeSliceKey(tensor.name, slice);
    const auto piece = std::lower_bound(pieces.begin(), pieces.end(), key,
                                        [](const Piece& a, const std::string& b) { return a.key < b; });
    const bool is_there = piece != pieces.end() && piece->key == key;
    const absl::Status status = is_there ? CheckPiece(tensor, slice, piece->entry) : MissingPiece();
    if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": ", PieceLabel(tensor.name, slice.ToString())));
    return RangeOf(piece->entry, 0);
  };
  IndexEntry index;
  CASK_RETURN_IF_ERROR(ForEach([&](absl::string_view key, absl::string_view value) -> absl::Status {
    absl::Status status = DecodeEntry(value, header_.num_shards, limits_, &index);
    if (IsPieceKey(key)) {
      if (status.ok()) status = DecodeSliceKey(key).status();
      if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": key ", Quoted(key)));
      if (index.entry.stored_bytes > 0) ranges.push_back(RangeOf(index.entry, pieces.size()));
      pieces.push_back({std::string(key), std::move(index.entry)});
      return absl::OkStatus();
    }
    if (!status.ok()) return Annotate(status, absl::StrCat(path_, ": ", TensorLabel(key)));
    CheckpointEntry& entry = index.entry;
    entry.name.assign(key.data(), key.size());
    if (entry.form == EntryForm::kSliced) {
      CASK_RETURN_IF_ERROR(AddPieces(&entry, [&](const TensorSlice& slice) { return find_piece(entry, slice); }));
    } else if (entry.stored_bytes > 0) {
      ranges.push_back(RangeOf(entry, pieces.size() + found.size()));
    }
    found.push_back(std::move(entry));
    return absl::OkStatus();
  }));
  absl::Status overlap;
  FindOverlaps(std::move(ranges), limits_, [&](size_t former, size_t latter, const absl::Status& limit) {
    if (!overlap.ok()) return;
    const auto label = [&](size_t number) {
      if (number >= pieces.size()) return TensorLabel(found[number - pieces.size()].name);
      const absl::StatusOr<SliceKey> key = DecodeSliceKey(pieces[number].key);
      return key.ok() ? PieceLabel(key->name, key->slice.ToString()) : Quoted(pieces[number].key);
    };
    const auto entry = [&](size_t number) -> const CheckpointEntry& {
      return number < pieces.size() ? pieces[number].entry : found[number - pieces.size()];
    };
    const CheckpointEntry& later = entry(latter);
    const std::string place = absl::StrCat(DataPath(prefix_, later.shard, header_.num_shards), ": ", label(latter),
                                           " at offset ", later.offset, ", ", later.stored_bytes, " bytes");
    overlap = limit.ok() ? absl::DataLossError(
                               absl::StrCat(place, ", overlaps ", label(former), " at offset ", entry(former).offset))
                         : Annotate(limit, place);
  });
  CASK_RETURN_IF_ERROR(overlap);
  return found;
}

}  // namespace tensorcask::checkpoint
