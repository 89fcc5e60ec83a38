#include "tensorcask/serialize/checkpoint/read/bundle_verify.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
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
#include "tensorcask/serialize/checkpoint/read/piece_walk.h"
#include "tensorcask/serialize/checkpoint/read/sliced_tensor.h"
#include "tensorcask/serialize/checkpoint/read/stored_ranges.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"

namespace tensorcask::checkpoint {
namespace {

// True if the error is about the files: they are damaged, or past a limit. All other errors prevented the check.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         (absl::IsResourceExhausted(status) && !IsResourceFailure(status));
}

// The state of a sliced tensor until all of its pieces have been read.
struct SlicedState {
  bool damaged = false;
  bool unchecked = false;
};

// Walks over the index twice. The first walk checks the index alone and keeps some 25 bytes an entry: the ranges in the
// data files, and which tensor each piece is of. The second walk reads the elements, batch by batch.
class Verification {
 public:
  using Report = absl::FunctionRef<void(const CheckpointDamage&)>;

  Verification(const BundleIndex& index, const StoredTensors& stored, const CheckpointReaderOptions& options,
               Report report)
      : index_(index),
        stored_(stored),
        options_(options),
        report_(report),
        memory_(index.NewQuota()),
        kept_(&memory_),
        ranges_(&memory_) {}

  absl::StatusOr<CheckpointCounts> Run();

 private:
  static constexpr uint32_t kNoOwner = std::numeric_limits<uint32_t>::max();

  // An entry of the index, of a tensor or a piece, of which the elements are read.
  struct Item {
    LocatedEntry located;
    uint32_t owner = kNoOwner;  // for a piece: the number of its sliced tensor
    bool is_piece = false;
    bool damaged = false;
    bool without_base = false;
  };
  // The payload that was verified last: entries that share a payload follow each other.
  struct LastEncoded {
    int32_t shard = 0;
    uint64_t offset = 0;
    uint64_t stored_bytes = 0;
    bool damaged = false;
    std::string label;
  };

  absl::Status Walk();
  absl::Status Take(uint32_t number, absl::string_view key, absl::string_view value, PieceWalk* pieces);
  void ReportInIndex(absl::string_view tensor, absl::string_view label, const absl::Status& status) {
    report_({std::string(tensor), index_.path(), 0, Annotate(status, absl::StrCat(index_.path(), ": ", label))});
  }
  absl::Status CheckSliced(const LocatedEntry& tensor, PieceWalk* pieces);
  absl::Status CheckCover(const LocatedEntry& tensor);
  void TakeOrphan(const PieceWalk::Piece& piece);
  void ReportMissingFiles();
  absl::Status ReportOverlaps();
  absl::Status VerifyAllElements();
  void VerifyBatch(std::vector<Item>* batch);
  absl::Status VerifyItem(Item* item);
  absl::Status VerifyElements(Item* item);
  absl::Status VerifyBase(Item* item);
  absl::Status NoteUnusedBytes();
  absl::StatusOr<bool> IsZero(const std::string& path, uint64_t offset) const;
  FileSystem* files() const { return options_.read.file_system; }
  absl::Status Keep(uint64_t bytes) {
    const absl::Status status = kept_.Add(bytes);
    return status.ok() ? status : Annotate(status, index_.path());
  }
  static bool IsMarked(const std::vector<bool>& marks, uint32_t number) {
    return number < marks.size() && marks[number];
  }
  static void Mark(uint32_t number, std::vector<bool>* marks) {
    if (marks->size() <= number) marks->resize(size_t{number} + 1);
    (*marks)[number] = true;
  }

  // What a data file holds.
  struct File {
    uint64_t end = 0;      // the end of the last tensor
    uint64_t offsets = 0;  // all offsets, or-ed: the lowest bit is the alignment
  };

  const BundleIndex& index_;
  const StoredTensors& stored_;
  const CheckpointReaderOptions& options_;
  const Report report_;
  DecodeQuota memory_;
  QuotaCharge kept_;
  StoredRanges ranges_;
  std::deque<uint32_t> owners_;     // by the number of a piece: the number of its sliced tensor, or kNoOwner
  std::deque<SlicedState> sliced_;  // in the order of the index
  // By the number of an entry; numbers past the end are false.
  std::vector<bool> unreadable_;  // the first walk has reported it
  std::vector<bool> overlaps_;
  std::vector<bool> past_limit_;  // for those that overlap: because too many share a payload
  std::map<int32_t, File> used_;  // by shard
  std::string abandoned_;         // the last tensor with too many missing pieces
  uint32_t abandoned_owner_ = kNoOwner;
  uint32_t num_entries_ = 0;
  std::optional<LastEncoded> last_encoded_;
  absl::Status unseen_;  // what prevented it from reading an entry
  CheckpointCounts counts_;
};

absl::Status Verification::Take(uint32_t number, absl::string_view key, absl::string_view value, PieceWalk* pieces) {
  num_entries_ = number + 1;
  const bool is_piece = IsPieceKey(key);
  LocatedEntry located;
  absl::Status status = LocateAt(key, value, index_.header().num_shards, options_.limits, &located);
  const CheckpointEntry& entry = located.index.entry;
  if (status.ok() && entry.form != EntryForm::kUnknown) {
    status = DecodeMetadata(located.index, options_.limits).status();
  }
  if (is_piece) {
    CASK_RETURN_IF_ERROR(Keep(sizeof(owners_[0])));
    owners_.push_back(kNoOwner);
  }
  if (!status.ok()) {
    Mark(number, &unreadable_);
    ReportInIndex(key, absl::StrCat(is_piece ? "key " : "tensor ", Quoted(key)), status);
    return absl::OkStatus();
  }
  located.index.extension = std::string();
  status = ranges_.Add(entry, number);
  if (!status.ok()) return Annotate(status, absl::StrCat(index_.path(), ": entry ", number));
  if (entry.slices.empty()) {
    File& file = used_[entry.shard];
    file.end = std::max(file.end, entry.offset + entry.stored_bytes);
    file.offsets |= entry.offset;
  }
  return is_piece || entry.slices.empty() ? absl::OkStatus() : CheckSliced(located, pieces);
}

absl::Status Verification::Walk() {
  const auto orphan = [this](const PieceWalk::Piece& piece) { TakeOrphan(piece); };
  PieceWalk pieces(index_.table(), &memory_, orphan);
  CASK_RETURN_IF_ERROR(index_.ForEach(&memory_, [&](uint32_t number, absl::string_view key, absl::string_view value) {
    return Take(number, key, value, &pieces);
  }));
  return pieces.Finish();
}

// Checks that the slices of a tensor do not overlap. TensorFlow stores only parts of some tensors, such as slots of
// partitioned variables. Errors: ResourceExhausted past the quota.
absl::Status Verification::CheckCover(const LocatedEntry& tensor) {
  const CheckpointEntry& entry = tensor.index.entry;
  QuotaCharge charge(&memory_);
  absl::Status status = charge.Add(PieceSetBytes(entry));
  if (status.ok()) {
    const absl::StatusOr<TensorSliceSet> set = PiecesOf(entry);
    status = set.status();
  }
  if (status.ok()) return status;
  sliced_.back().damaged = true;
  ReportInIndex(entry.name, tensor.Label(), status);
  return absl::OkStatus();
}

// Checks that the pieces of a tensor exist, match it and cover it.
absl::Status Verification::CheckSliced(const LocatedEntry& tensor, PieceWalk* pieces) {
  const CheckpointEntry& entry = tensor.index.entry;
  const auto owner = static_cast<uint32_t>(sliced_.size());
  CASK_RETURN_IF_ERROR(Keep(sizeof(SlicedState)));
  sliced_.emplace_back();
  CASK_RETURN_IF_ERROR(CheckCover(tensor));
  // The search for a piece takes time in proportion to the name, so it ends after this many missing pieces.
  constexpr int kMaxMissing = 100;
  int missing = 0;
  const auto check = [&](size_t i, const PieceWalk::Piece* piece) -> absl::Status {
    const TensorSlice& slice = entry.slices[i];
    absl::Status status = MissingPiece();
    if (piece != nullptr && !IsMarked(unreadable_, piece->number)) {
      owners_[piece->number] = owner;
      IndexEntry index;
      status = DecodeEntry(piece->value, index_.header().num_shards, options_.limits, &index);
      if (status.ok()) status = CheckPiece(entry, slice, index.entry);
    } else {
      ++missing;
    }
    if (status.ok()) return status;
    LocatedEntry label;
    label.index.entry.name = entry.name;
    label.slice = slice.ToString();
    sliced_.back().damaged = true;
    ReportInIndex(entry.name, label.Label(), status);
    return missing < kMaxMissing ? absl::OkStatus() : absl::CancelledError("");
  };
  const absl::Status visited = pieces->Visit(entry, check);
  if (missing < kMaxMissing) return visited;
  ReportInIndex(entry.name, tensor.Label(),
                absl::DataLossError(
                    absl::StrCat(kMaxMissing, " of its pieces are missing; the search for further ones stopped here")));
  abandoned_ = entry.name;
  abandoned_owner_ = owner;
  return absl::OkStatus();
}

// Existing pieces of an abandoned tensor are not orphans.
void Verification::TakeOrphan(const PieceWalk::Piece& piece) {
  if (IsMarked(unreadable_, piece.number)) return;
  const absl::StatusOr<SliceKey> key = DecodeSliceKey(piece.key);
  if (!key.ok()) return;
  if (!abandoned_.empty() && key->name == abandoned_) {
    owners_[piece.number] = abandoned_owner_;
    return;
  }
  LocatedEntry located;
  located.index.entry.name = key->name;
  located.slice = key->slice.ToString();
  ReportInIndex(key->name, located.Label(), absl::DataLossError("no tensor lists this piece"));
}

// The index tells how many data files there are. A missing data file is reported even if it holds no tensor.
void Verification::ReportMissingFiles() {
  const int num_shards = index_.header().num_shards;
  int missing = 0;
  std::string first;
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::string path = stored_.files().Path(shard);
    if (!absl::IsNotFound(DescribeFile(path, files()).status())) continue;
    if (missing++ == 0) first = path;
  }
  if (missing == 0) return;
  report_(
      {"", first, 0,
       absl::DataLossError(absl::StrCat(first, ": is missing; the index names ", num_shards, " data files, of which ",
                                        missing, missing == 1 ? " is" : " are", " missing"))});
}

// Reports the overlaps in the order of the data files, the first thousand with the names of both entries. Sets
// overlaps_.
absl::Status Verification::ReportOverlaps() {
  constexpr size_t kMaxNamed = 1000;
  std::vector<StoredRanges::Overlap> named;
  std::set<uint32_t> numbers;
  ranges_.FindOverlaps(options_.limits, [&](const StoredRanges::Overlap& overlap) {
    Mark(overlap.latter, &overlaps_);
    if (!overlap.limit.ok()) Mark(overlap.latter, &past_limit_);
    if (overlap.latter < owners_.size() && owners_[overlap.latter] < sliced_.size()) {
      sliced_[owners_[overlap.latter]].damaged = true;
    }
    if (named.size() >= kMaxNamed) return;
    named.push_back(overlap);
    numbers.insert({overlap.former, overlap.latter});
  });
  if (named.empty()) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const auto located, index_.EntriesOf(numbers));
  for (const StoredRanges::Overlap& overlap : named) {
    const auto former = located.find(overlap.former);
    const auto latter = located.find(overlap.latter);
    if (former == located.end() || latter == located.end()) continue;  // the index was changed meanwhile
    const CheckpointEntry& entry = latter->second.index.entry;
    const std::string place = stored_.Place(latter->second);
    report_({entry.name, stored_.files().Path(entry.shard), entry.offset,
             overlap.limit.ok() ? absl::DataLossError(absl::StrCat(place, ", overlaps ", former->second.Label(),
                                                                   " at offset ", overlap.former_offset))
                                : Annotate(overlap.limit, place)});
  }
  if (named.size() < kMaxNamed) return absl::OkStatus();
  std::set<uint32_t> reported;
  for (const StoredRanges::Overlap& overlap : named) reported.insert(overlap.latter);
  return index_.ForEach(&memory_, [&](uint32_t number, absl::string_view key, absl::string_view value) {
    LocatedEntry later;
    if (!IsMarked(overlaps_, number) || reported.count(number) != 0) return absl::OkStatus();
    if (!LocateAt(key, value, index_.header().num_shards, options_.limits, &later).ok()) return absl::OkStatus();
    const CheckpointEntry& entry = later.index.entry;
    const absl::Status status =
        IsMarked(past_limit_, number)
            ? PastLimit(absl::StrCat(stored_.Place(later), ": too many entries share these bytes"), "max_expansion",
                        options_.limits.max_expansion)
            : absl::DataLossError(absl::StrCat(stored_.Place(later), ", overlaps another entry"));
    report_({entry.name, stored_.files().Path(entry.shard), entry.offset, status});
    return absl::OkStatus();
  });
}

// A payload that many entries share is verified once.
absl::Status Verification::VerifyElements(Item* item) {
  const CheckpointEntry& entry = item->located.index.entry;
  if (entry.payload == nullptr) return stored_.Verify(item->located, [](const absl::Status&) {});
  if (last_encoded_.has_value() && last_encoded_->shard == entry.shard && last_encoded_->offset == entry.offset &&
      last_encoded_->stored_bytes == entry.stored_bytes) {
    if (!last_encoded_->damaged) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(stored_.Place(item->located), ": damaged, as it is for ", last_encoded_->label));
  }
  absl::Status status = stored_.Verify(item->located, [&](const absl::Status& damage) {
    item->damaged = true;
    report_({entry.name, stored_.files().Path(entry.shard), entry.offset, damage});
  });
  item->damaged |= !status.ok();
  last_encoded_ = LastEncoded{entry.shard, entry.offset, entry.stored_bytes, item->damaged, item->located.Label()};
  return status;
}

// Entries that share a payload still have different bases: each that of its own name.
absl::Status Verification::VerifyBase(Item* item) {
  CASK_ASSIGN_OR_RETURN(const bool has_base, stored_.CheckBase(item->located));
  item->without_base = !has_base;
  return absl::OkStatus();
}

// Notes for each existing data file the bytes after the last tensor, unless they can be padding.
absl::Status Verification::NoteUnusedBytes() {
  for (int shard = 0; shard < index_.header().num_shards; ++shard) {
    const auto found = used_.find(shard);
    const File file = found != used_.end() ? found->second : File();
    const std::string path = stored_.files().Path(shard);
    const absl::StatusOr<FileInfo> info = DescribeFile(path, files());
    if (!info.ok() || info->type != FileInfo::Type::kRegular || info->size_bytes <= file.end) continue;
    const uint64_t unused = info->size_bytes - file.end;
    const uint64_t common = file.offsets | info->size_bytes;
    CASK_ASSIGN_OR_RETURN(const bool is_padding,
                          unused < (common & (~common + 1)) ? IsZero(path, file.end) : absl::StatusOr<bool>(false));
    if (is_padding) continue;
    counts_.notes.push_back(absl::StrCat(path, ": ", unused, unused == 1 ? " byte" : " bytes",
                                         " behind the last tensor, from offset ", file.end, " on, belong",
                                         unused == 1 ? "s" : "", " to no tensor"));
  }
  return absl::OkStatus();
}

// True if the file has only zeros from `offset` on.
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
  absl::Status status = stored_.OpenReadable(item->located).status();
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
  if (item->owner < sliced_.size()) {
    sliced_[item->owner].damaged |= !is_whole;
    sliced_[item->owner].unchecked |= listed_only;
  } else if (is_whole && !item->is_piece) {
    ++(listed_only ? counts_.not_checked : item->without_base ? counts_.without_base : counts_.whole);
  }
  return IsDamage(status) ? absl::OkStatus() : status;
}

// In the order of the data files.
void Verification::VerifyBatch(std::vector<Item>* batch) {
  std::vector<uint32_t> order(batch->size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const CheckpointEntry& first = (*batch)[a].located.index.entry;
    const CheckpointEntry& second = (*batch)[b].located.index.entry;
    return std::tie(first.shard, first.offset, a) < std::tie(second.shard, second.offset, b);
  });
  if (stored_.files().are_planned()) {
    std::vector<int> shards;
    for (const uint32_t i : order) shards.push_back((*batch)[i].located.index.entry.shard);
    stored_.files().OpenTogether(shards);
  }
  ReadPlan plan;
  for (const uint32_t i : order) {
    const CheckpointEntry& entry = (*batch)[i].located.index.entry;
    plan.Add(stored_.files().FileToPlan(entry.shard), entry.offset, entry.stored_bytes);
  }
  plan.Start();
  for (const uint32_t i : order) unseen_.Update(VerifyItem(&(*batch)[i]));  // the others are verified anyway
  batch->clear();
}

absl::Status Verification::VerifyAllElements() {
  constexpr size_t kBatchEntries = 16384;
  constexpr uint64_t kBatchBytes = uint64_t{12} << 20;
  std::vector<Item> batch;
  batch.reserve(std::min<size_t>(kBatchEntries, num_entries_));
  QuotaCharge charge(&memory_);
  CASK_RETURN_IF_ERROR(
      index_.ForEach(&memory_, [&](uint32_t number, absl::string_view key, absl::string_view value) -> absl::Status {
        // Reading one range that entries share a million times would take a day.
        if (IsMarked(unreadable_, number) || IsMarked(overlaps_, number)) return absl::OkStatus();
        Item item;
        item.is_piece = IsPieceKey(key);
        if (item.is_piece && number < owners_.size()) item.owner = owners_[number];
        CASK_RETURN_IF_ERROR(
            LocateAt(key, value, index_.header().num_shards, options_.limits, &item.located));  // as in the first walk
        if (!item.located.index.entry.slices.empty()) return absl::OkStatus();
        item.located.index.extension = std::string();
        CASK_RETURN_IF_ERROR(charge.Add(sizeof(Item) + key.size()));
        batch.push_back(std::move(item));
        if (batch.size() < kBatchEntries && charge.amount() < kBatchBytes) return absl::OkStatus();
        VerifyBatch(&batch);
        charge.Clear();
        return absl::OkStatus();
      }));
  VerifyBatch(&batch);
  return absl::OkStatus();
}

absl::StatusOr<CheckpointCounts> Verification::Run() {
  const absl::Status walked = Walk();
  if (IsDamage(walked)) {
    report_({"", index_.path(), 0, walked});
    return CheckpointCounts();
  }
  CASK_RETURN_IF_ERROR(walked);
  ReportMissingFiles();
  CASK_RETURN_IF_ERROR(ReportOverlaps());
  CASK_RETURN_IF_ERROR(VerifyAllElements());
  CASK_RETURN_IF_ERROR(unseen_);
  CASK_RETURN_IF_ERROR(NoteUnusedBytes());
  for (const SlicedState& tensor : sliced_) {
    if (!tensor.damaged) ++(tensor.unchecked ? counts_.not_checked : counts_.whole);
  }
  return counts_;
}

}  // namespace

absl::StatusOr<CheckpointCounts> VerifyBundle(const BundleIndex& index, const StoredTensors& stored,
                                              const CheckpointReaderOptions& options,
                                              absl::FunctionRef<void(const CheckpointDamage&)> report) {
  return Verification(index, stored, options, report).Run();
}

}  // namespace tensorcask::checkpoint
