#include "tensorcask/serialize/checkpoint/read/piece_walk.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {
namespace {

// Compares as the keys of slices of one tensor do: the numbers in them are encoded so that their bytes compare as the
// numbers do.
bool Before(const TensorSlice& a, const TensorSlice& b) {
  for (int axis = 0; axis < a.rank() && axis < b.rank(); ++axis) {
    const TensorSlice::Extent& x = a.extent(axis);
    const TensorSlice::Extent& y = b.extent(axis);
    if (x != y) return std::tie(x.start, x.length) < std::tie(y.start, y.length);
  }
  return a.rank() < b.rank();
}

}  // namespace

absl::Status PieceWalk::Advance(const absl::string_view* key) {
  while (!at_end_ && (!has_current_ || key == nullptr || current_.key < *key)) {
    if (has_current_ && !is_listed_) orphan_(current_);
    has_current_ = false;
    CASK_ASSIGN_OR_RETURN(const bool found, cursor_->Next());
    if (found && cursor_->key().empty()) continue;  // the header
    at_end_ = !found || !IsPieceKey(cursor_->key());
    if (at_end_) break;
    current_ = {cursor_->key(), cursor_->value(), count_++};
    has_current_ = true;
    is_listed_ = false;
  }
  return absl::OkStatus();
}

absl::Status PieceWalk::Visit(const CheckpointEntry& tensor,
                              absl::FunctionRef<absl::Status(size_t i, const Piece* piece)> visit) {
  QuotaCharge charge(memory_);
  std::vector<uint32_t> order;
  const auto before = [&](uint32_t a, uint32_t b) { return Before(tensor.slices[a], tensor.slices[b]); };
  if (!std::is_sorted(tensor.slices.begin(), tensor.slices.end(), Before)) {
    CASK_RETURN_IF_ERROR(charge.Add(sizeof(uint32_t) * tensor.slices.size()));
    order.resize(tensor.slices.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), before);
  }
  const Piece* found = nullptr;
  const TensorSlice* last = nullptr;
  for (size_t n = 0; n < tensor.slices.size(); ++n) {
    const size_t i = order.empty() ? n : order[n];
    const TensorSlice& slice = tensor.slices[i];
    // A slice that is listed twice has one key. Encoding the key takes time with the length of the name.
    if (last == nullptr || *last != slice) {
      const std::string encoded = EncodeSliceKey(tensor.name, slice);
      const absl::string_view key = encoded;
      CASK_RETURN_IF_ERROR(Advance(&key));
      found = has_current_ && current_.key == key ? &current_ : nullptr;
      is_listed_ |= found != nullptr;
      last = &slice;
    }
    CASK_RETURN_IF_ERROR(visit(i, found));
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::checkpoint
