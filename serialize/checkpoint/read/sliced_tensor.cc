#include "tensorcask/serialize/checkpoint/read/sliced_tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::checkpoint {

absl::StatusOr<TensorSliceSet> PiecesOf(const CheckpointEntry& tensor) {
  TensorSliceSet set(tensor.dtype, tensor.shape, tensor.slices.size());
  for (const TensorSlice& slice : tensor.slices) {
    const absl::Status status = set.Register(slice, "");
    if (absl::IsResourceExhausted(status)) return status;
    if (!status.ok()) return absl::DataLossError(status.message());
  }
  return set;
}

uint64_t PieceSetBytes(const CheckpointEntry& tensor) {
  const auto rank = static_cast<uint64_t>(tensor.shape.rank());
  constexpr uint64_t kInlineExtents = 4;
  constexpr uint64_t kAllocationBytes = 16;
  // A growing list holds each part twice. There are two boxes for eight parts, and twice as many while they are built.
  uint64_t part_bytes = 2 * sizeof(TensorSliceSet::Part) + 2 * (sizeof(uint32_t) + 2 * 2 * sizeof(int64_t) * rank / 8);
  if (rank > kInlineExtents) part_bytes += rank * sizeof(TensorSlice::Extent) + kAllocationBytes;
  return part_bytes * tensor.slices.size();
}

absl::StatusOr<std::shared_ptr<const TensorSliceSet>> SlicedTensors::SetOf(const LocatedEntry& tensor) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = sets_.find(tensor.id); found != sets_.end()) return found->second;
  }
  const absl::Status within = index_->table().memory()->Charge(PieceSetBytes(tensor.index.entry));  // kept in sets_
  CASK_ASSIGN_OR_ANNOTATE(TensorSliceSet set, within.ok() ? PiecesOf(tensor.index.entry) : within,
                          absl::StrCat(index_->path(), ": ", tensor.Label()));
  auto shared = std::make_shared<const TensorSliceSet>(std::move(set));
  std::lock_guard<std::mutex> lock(mutex_);
  return sets_.emplace(tensor.id, std::move(shared)).first->second;
}

absl::StatusOr<std::vector<TensorSlice>> SlicedTensors::Find(const LocatedEntry& tensor, const TensorSlice& slice,
                                                             DecodeQuota* decoded) const {
  const CheckpointEntry& entry = tensor.index.entry;
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const TensorSliceSet> set, SetOf(tensor));
  absl::StatusOr<std::vector<TensorSliceSet::Part>> parts = set->Query(slice);
  if (!parts.ok()) {
    const bool is_limit = absl::IsResourceExhausted(parts.status());
    return Annotate(is_limit ? parts.status() : absl::DataLossError(parts.status().message()),
                    absl::StrCat(index_->path(), ": ", tensor.Label()));
  }
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(entry.shape));
  if (stored_->files().are_planned()) {
    std::vector<int> shards;
    for (const TensorSliceSet::Part& part : *parts) {
      const absl::StatusOr<LocatedEntry> piece = index_->LocatePiece(tensor, part.slice);
      if (piece.ok()) shards.push_back(piece->index.entry.shard);
    }
    stored_->files().OpenTogether(shards);
  }
  uint64_t content_bytes = 0;
  std::vector<TensorSlice> found;
  found.reserve(parts->size());
  DecodeQuota memory = index_->NewQuota();
  StoredRanges ranges(&memory);
  for (TensorSliceSet::Part& part : *parts) {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry piece, index_->LocatePiece(tensor, part.slice));
    CASK_RETURN_IF_ERROR(stored_->OpenReadable(piece).status());
    DecodeQuota alone = DecodeQuota::ForFile(options_->limits);  // strings and variants are read whole, then copied
    CASK_RETURN_IF_ERROR(stored_->CheckLimit(piece, shape, &alone));
    const CheckpointEntry& stored = piece.index.entry;
    content_bytes = AddSizes(content_bytes, stored.content_bytes());
    CASK_ANNOTATE_IF_ERROR(ranges.Add(stored, static_cast<uint32_t>(found.size())),
                           absl::StrCat(index_->path(), ": ", tensor.Label()));
    found.push_back(std::move(part.slice));
  }
  // One range that many pieces share would be read many times, into a tensor that is larger than its files.
  absl::Status overlap;
  ranges.FindOverlaps(options_->limits, [&](const StoredRanges::Overlap& found_overlap) {
    if (!overlap.ok()) return;
    const absl::StatusOr<LocatedEntry> piece = index_->LocatePiece(tensor, found[found_overlap.latter]);
    overlap = !piece.ok() ? piece.status()
              : found_overlap.limit.ok()
                  ? absl::DataLossError(absl::StrCat(stored_->Place(*piece), ", overlaps slice ",
                                                     Quoted(found[found_overlap.former].ToString())))
                  : Annotate(found_overlap.limit, stored_->Place(*piece));
  });
  CASK_RETURN_IF_ERROR(overlap);
  CASK_ANNOTATE_IF_ERROR(decoded->Charge(DecodedSize(entry.dtype, shape.num_elements(), content_bytes)),
                         absl::StrCat(index_->path(), ": ", tensor.Label()));
  return found;
}

ReadPlan::Step SlicedTensors::StepOf(const LocatedEntry& tensor, const TensorSlice& piece) const {
  const absl::StatusOr<LocatedEntry> located = index_->LocatePiece(tensor, piece);
  if (!located.ok()) return {};  // reading it tells why
  const CheckpointEntry& entry = located->index.entry;
  return {stored_->files().FileToPlan(entry.shard), entry.offset, entry.stored_bytes};
}

ReadPlan::Step SlicedTensors::ToPlan(const LocatedEntry& tensor, const std::vector<TensorSlice>& pieces) const {
  ReadPlan::Step step;
  for (const TensorSlice& piece : pieces) step.more.push_back(StepOf(tensor, piece));
  std::sort(step.more.begin(), step.more.end(), [](const ReadPlan::Step& a, const ReadPlan::Step& b) {
    return std::tie(a.source, a.offset) < std::tie(b.source, b.offset);
  });
  if (!step.more.empty()) {  // the first one gives the place of all
    step.source = step.more[0].source;
    step.offset = step.more[0].offset;
  }
  return step;
}

absl::Status SlicedTensors::ReadInto(const LocatedEntry& tensor, const std::vector<TensorSlice>& pieces,
                                     const TensorSlice& slice, bool verify_whole, DecodeQuota* decoded,
                                     TensorView* out) const {
  ReadPlan plan;
  StepOrder order(pieces.size());
  if (stored_->files().are_planned()) {
    order = plan.StartSteps(pieces.size(), [&](size_t number) -> ReadPlan::Step {
      const bool is_whole = verify_whole || pieces[number].Intersect(slice) == pieces[number];
      return is_whole ? StepOf(tensor, pieces[number]) : ReadPlan::Step();
    });
  }
  for (size_t position = 0; position < order.size(); ++position) {
    const TensorSlice& piece_slice = pieces[order[position]];
    CASK_ASSIGN_OR_RETURN(const LocatedEntry piece, index_->LocatePiece(tensor, piece_slice));
    const std::optional<TensorSlice> common = piece_slice.Intersect(slice);
    if (!common.has_value()) return absl::InternalError("SlicedTensors: a piece without the elements it was found for");
    CASK_ASSIGN_OR_RETURN(const TensorSlice from, common->ComputeRelative(piece_slice));
    CASK_ASSIGN_OR_RETURN(const TensorSlice to, common->ComputeRelative(slice));
    CASK_ASSIGN_OR_RETURN(TensorView target, out->Slice(to));
    CASK_RETURN_IF_ERROR(stored_->ReadSliceInto(piece, from, verify_whole, decoded, &target));
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::checkpoint
