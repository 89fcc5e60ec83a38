#include "tensorcask/serialize/checkpoint/read/bundle_verify.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/read/sliced_tensor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"

namespace tensorcask::checkpoint {
namespace {

// What is wrong with the files, or too large to look at; the rest is what keeps us from looking.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         (absl::IsResourceExhausted(status) && !IsProcessError(status));
}

class Verification {
 public:
  using Report = absl::FunctionRef<void(const CheckpointDamage&)>;

  Verification(const BundleIndex& index, const StoredTensors& stored, const CheckpointReaderOptions& options,
               Report report)
      : index_(index), stored_(stored), options_(options), report_(report) {}

  absl::StatusOr<CheckpointCensus> Run();

 private:
  static constexpr size_t kNoOwner = std::numeric_limits<size_t>::max();

  // An entry of the index, of a tensor or a piece.
  struct Item {
    LocatedEntry located;
    std::string key;          // of a piece
    size_t owner = kNoOwner;  // of a piece: the sliced tensor that it is of
    bool overlaps = false;
    // Of a sliced tensor: what its pieces are; of others: once it was verified.
    bool damaged = false;
    bool unchecked = false;
    bool without_base = false;
  };

  absl::Status Walk();
  absl::Status Take(absl::string_view key, absl::string_view value);
  void ReportInIndex(absl::string_view tensor, absl::string_view label, const absl::Status& status) {
    report_({std::string(tensor), index_.path(), 0, Annotate(status, absl::StrCat(index_.path(), ": ", label))});
  }
  void CheckSliced(size_t tensor);
  void ReportOrphans();
  void ReportMissingFiles();
  void ReportOverlaps();
  absl::Status VerifyItem(Item* item);
  absl::Status VerifyElements(Item* item);
  absl::Status VerifyBase(Item* item);
  absl::Status NoteUnusedBytes();
  absl::StatusOr<bool> IsZero(const std::string& path, uint64_t offset) const;
  FileSystem* files() const { return options_.read.file_system; }

  const BundleIndex& index_;
  const StoredTensors& stored_;
  const CheckpointReaderOptions& options_;
  const Report report_;
  std::vector<Item> items_;  // pieces first, by key
  size_t num_pieces_ = 0;
  const Item* last_encoded_ = nullptr;  // that was verified
  CheckpointCensus census_;
};

absl::Status Verification::Take(absl::string_view key, absl::string_view value) {
  Item item;
  LocatedEntry& located = item.located;
  CASK_RETURN_IF_ERROR(DecodeEntry(value, index_.header().num_shards, options_.limits, &located.index));
  if (IsPieceKey(key)) {
    CASK_ASSIGN_OR_RETURN(SliceKey slice_key, DecodeSliceKey(key));
    located.index.entry.name = std::move(slice_key.name);
    located.slice = slice_key.slice.ToString();
    item.key.assign(key.data(), key.size());
    ++num_pieces_;
  } else {
    located.index.entry.name.assign(key.data(), key.size());
  }
  if (located.index.entry.form != EntryForm::kUnknown) {
    CASK_RETURN_IF_ERROR(DecodeMetadata(located.index, options_.limits).status());
  }
  located.index.extension = std::string();
  items_.push_back(std::move(item));
  return absl::OkStatus();
}

absl::Status Verification::Walk() {
  return index_.ForEach([&](absl::string_view key, absl::string_view value) {
    const absl::Status status = Take(key, value);
    if (!status.ok()) ReportInIndex(key, absl::StrCat(IsPieceKey(key) ? "key " : "tensor ", Quoted(key)), status);
    return absl::OkStatus();
  });
}

// That the pieces of a tensor are there, are what they should, and make it up.
void Verification::CheckSliced(size_t tensor) {
  Item& item = items_[tensor];
  const CheckpointEntry& entry = item.located.index.entry;
  const auto damaged = [&](const std::string& label, const absl::Status& status) {
    item.damaged = true;
    ReportInIndex(entry.name, label, status);
  };
  const absl::StatusOr<TensorSliceSet> set = PiecesOf(entry);
  if (!set.ok()) {
    damaged(item.located.Label(), set.status());
  } else if (!set->IsComplete()) {
    damaged(item.located.Label(),
            absl::DataLossError(set->Query(TensorSlice::Full(entry.shape.rank())).status().message()));
  }
  const auto pieces_end = items_.begin() + static_cast<std::ptrdiff_t>(num_pieces_);
  const auto find = [&](const std::string& key) {
    return std::lower_bound(items_.begin(), pieces_end, key,
                            [](const Item& a, const std::string& b) { return a.key < b; });
  };
  // Looking for a piece takes time with the length of the name, so that pieces that are not there are not looked for
  // without end.
  constexpr int kMaxMissing = 100;
  int missing = 0;
  for (const TensorSlice& slice : entry.slices) {
    LocatedEntry piece;
    piece.index.entry.name = entry.name;
    piece.slice = slice.ToString();
    const std::string key = EncodeSliceKey(entry.name, slice);
    const auto found = find(key);
    if (found == pieces_end || found->key != key) {
      damaged(piece.Label(), MissingPiece());
      if (++missing < kMaxMissing) continue;
      damaged(item.located.Label(), absl::DataLossError(absl::StrCat(kMaxMissing,
                                                                     " of its pieces are not there; the "
                                                                     "others were not looked for")));
      break;
    }
    found->owner = tensor;
    const absl::Status status = CheckPiece(entry, slice, found->located.index.entry);
    if (!status.ok()) damaged(piece.Label(), status);
  }
  if (missing < kMaxMissing) return;
  // Those that are there stand together, behind the key of rank 0, and are no orphans.
  for (auto piece = find(EncodeSliceKey(entry.name, TensorSlice::Full(0)));
       piece != pieces_end && piece->located.index.entry.name == entry.name; ++piece) {
    piece->owner = tensor;
  }
}

void Verification::ReportOrphans() {
  for (size_t i = 0; i < num_pieces_; ++i) {
    if (items_[i].owner != kNoOwner) continue;
    const LocatedEntry& located = items_[i].located;
    ReportInIndex(located.index.entry.name, located.Label(), absl::DataLossError("is of no tensor that names it"));
  }
}

// The index tells how many data files there are. That one is missing matters even if no tensor is in it.
void Verification::ReportMissingFiles() {
  const int num_shards = index_.header().num_shards;
  int missing = 0;
  std::string first;
  for (int shard = 0; shard < num_shards; ++shard) {
    FileInfo info;
    const std::string path = stored_.files().Path(shard);
    if (files()->Describe(path, &info) != -ENOENT) continue;
    if (missing++ == 0) first = path;
  }
  if (missing == 0) return;
  report_({"", first, 0,
           absl::DataLossError(absl::StrCat(first, ": is missing; of ", num_shards,
                                            " data files that the index tells of, ", missing, " are"))});
}

void Verification::ReportOverlaps() {
  std::vector<StoredRange> ranges;
  for (size_t i = 0; i < items_.size(); ++i) {
    const CheckpointEntry& entry = items_[i].located.index.entry;
    if (entry.stored_bytes > 0 && entry.slices.empty()) ranges.push_back(RangeOf(entry, i));
  }
  FindOverlaps(std::move(ranges), options_.limits, [&](size_t former, size_t latter, const absl::Status& limit) {
    Item& item = items_[latter];
    const LocatedEntry& other = items_[former].located;
    const CheckpointEntry& entry = item.located.index.entry;
    item.overlaps = true;
    if (item.owner != kNoOwner) items_[item.owner].damaged = true;
    report_({entry.name, stored_.files().Path(entry.shard), entry.offset,
             limit.ok() ? absl::DataLossError(absl::StrCat(stored_.Place(item.located), ", overlaps ", other.Label(),
                                                           " at offset ", other.index.entry.offset))
                        : Annotate(limit, stored_.Place(item.located))});
  });
}

// One payload that many entries have is looked at once.
absl::Status Verification::VerifyElements(Item* item) {
  const CheckpointEntry& entry = item->located.index.entry;
  if (entry.payload == nullptr) return stored_.Verify(item->located, [](const absl::Status&) {});
  if (last_encoded_ != nullptr) {
    const CheckpointEntry& last = last_encoded_->located.index.entry;
    if (last.shard == entry.shard && last.offset == entry.offset && last.stored_bytes == entry.stored_bytes) {
      if (!last_encoded_->damaged) return absl::OkStatus();
      return absl::DataLossError(
          absl::StrCat(stored_.Place(item->located), ": damaged, as it is for ", last_encoded_->located.Label()));
    }
  }
  absl::Status status = stored_.Verify(item->located, [&](const absl::Status& damage) {
    item->damaged = true;
    report_({entry.name, stored_.files().Path(entry.shard), entry.offset, damage});
  });
  item->damaged |= !status.ok();
  last_encoded_ = item;
  return status;
}

// Entries that share a payload have a base each: that of their name.
absl::Status Verification::VerifyBase(Item* item) {
  CASK_ASSIGN_OR_RETURN(const bool has_base, stored_.CheckBase(item->located));
  item->without_base = !has_base;
  return absl::OkStatus();
}

// Of each data file that is there: the bytes behind the last tensor, unless they can be the padding of a writer.
absl::Status Verification::NoteUnusedBytes() {
  struct File {
    uint64_t end = 0;      // of the last tensor
    uint64_t offsets = 0;  // of all tensors, or-ed: its lowest bit is their alignment
  };
  std::map<int32_t, File> used;
  for (const Item& item : items_) {
    const CheckpointEntry& entry = item.located.index.entry;
    if (!entry.slices.empty()) continue;
    File& file = used[entry.shard];
    file.end = std::max(file.end, entry.offset + entry.stored_bytes);
    file.offsets |= entry.offset;
  }
  for (int shard = 0; shard < index_.header().num_shards; ++shard) {
    const auto found = used.find(shard);
    const File file = found != used.end() ? found->second : File();
    const std::string path = stored_.files().Path(shard);
    FileInfo info;
    const IoResult described = internal::RetryInterrupted([&] { return files()->Describe(path, &info); });
    if (described < 0 || info.type != FileInfo::Type::kRegular || info.size_bytes <= file.end) continue;
    const uint64_t unused = info.size_bytes - file.end;
    const uint64_t common = file.offsets | info.size_bytes;
    CASK_ASSIGN_OR_RETURN(const bool is_padding,
                          unused < (common & (~common + 1)) ? IsZero(path, file.end) : absl::StatusOr<bool>(false));
    if (is_padding) continue;
    census_.notes.push_back(absl::StrCat(path, ": ", unused, unused == 1 ? " byte" : " bytes",
                                         " behind the last tensor, from offset ", file.end, " on, belong",
                                         unused == 1 ? "s" : "", " to no tensor"));
  }
  return absl::OkStatus();
}

// Whether the file has zeros only from `offset` on.
absl::StatusOr<bool> Verification::IsZero(const std::string& path, uint64_t offset) const {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options_.read));
  constexpr size_t kBlockBytes = size_t{64} << 10;
  std::vector<char> block;
  for (uint64_t size = file->size_bytes(); offset < size; offset += block.size()) {
    block.resize(static_cast<size_t>(std::min<uint64_t>(size - offset, kBlockBytes)));
    CASK_RETURN_IF_ERROR(file->ReadAt(offset, absl::MakeSpan(block)));
    if (std::any_of(block.begin(), block.end(), [](char byte) { return byte != 0; })) return false;
  }
  return true;
}

absl::Status Verification::VerifyItem(Item* item) {
  const CheckpointEntry& entry = item->located.index.entry;
  if (!entry.slices.empty() || item->overlaps) return absl::OkStatus();  // reading a range a million times takes a day
  absl::Status status = stored_.CheckReadable(item->located);
  const bool listed_only = absl::IsUnimplemented(status);
  if (listed_only) {
    status = stored_.files().FileOf(entry).status();
    if (!status.ok()) status = Annotate(status, stored_.Place(item->located));
  } else if (status.ok()) {
    status = VerifyElements(item);
    if (status.ok() && !item->damaged) status = VerifyBase(item);
  }
  if (IsDamage(status)) report_({entry.name, stored_.files().Path(entry.shard), entry.offset, status});
  const bool is_whole = status.ok() && !item->damaged;
  if (item->owner != kNoOwner) {
    items_[item->owner].damaged |= !is_whole;
    items_[item->owner].unchecked |= listed_only;
  } else if (is_whole && item->key.empty()) {
    ++(listed_only ? census_.not_checked : item->without_base ? census_.without_base : census_.whole);
  }
  return IsDamage(status) ? absl::OkStatus() : status;
}

absl::StatusOr<CheckpointCensus> Verification::Run() {
  const absl::Status walked = Walk();
  if (IsDamage(walked)) {
    report_({"", index_.path(), 0, walked});
    return CheckpointCensus();
  }
  CASK_RETURN_IF_ERROR(walked);
  for (size_t i = num_pieces_; i < items_.size(); ++i) {
    if (!items_[i].located.index.entry.slices.empty()) CheckSliced(i);
  }
  ReportOrphans();
  ReportMissingFiles();
  ReportOverlaps();

  std::vector<size_t> order(items_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const CheckpointEntry& first = items_[a].located.index.entry;
    const CheckpointEntry& second = items_[b].located.index.entry;
    return std::tie(first.shard, first.offset, a) < std::tie(second.shard, second.offset, b);
  });
  absl::Status unseen;
  for (const size_t i : order) unseen.Update(VerifyItem(&items_[i]));  // the others are looked at all the same
  CASK_RETURN_IF_ERROR(unseen);
  CASK_RETURN_IF_ERROR(NoteUnusedBytes());
  for (const Item& item : items_) {
    if (item.located.index.entry.slices.empty() || !item.key.empty() || item.damaged) continue;
    ++(item.unchecked ? census_.not_checked : census_.whole);
  }
  return census_;
}

}  // namespace

absl::StatusOr<CheckpointCensus> VerifyBundle(const BundleIndex& index, const StoredTensors& stored,
                                              const CheckpointReaderOptions& options,
                                              absl::FunctionRef<void(const CheckpointDamage&)> report) {
  return Verification(index, stored, options, report).Run();
}

}  // namespace tensorcask::checkpoint
