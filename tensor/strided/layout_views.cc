// Views that take parts of a layout or reorder its axes.

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/internal/layout_util.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask {

using internal::StrideTimes;
using internal::WrapAxis;

absl::Status Layout::BadAxis(absl::string_view operation, int64_t axis) const {
  return absl::InvalidArgumentError(absl::StrCat(operation, ": axis ", axis, " is outside [", -rank_, ", ", rank_ - 1,
                                                 "] of the layout ", ToString()));
}

absl::Status Layout::Refused(absl::string_view operation, absl::string_view why) const {
  return absl::InvalidArgumentError(absl::StrCat(operation, " of the layout ", ToString(), ": ", why));
}

absl::Status Layout::OutOfRange(absl::string_view operation, int axis, absl::string_view why) const {
  return absl::OutOfRangeError(absl::StrCat(operation, ": ", why, ", axis ", axis, " of the layout ", ToString()));
}

void Layout::MoveOffset(int64_t count, int64_t stride) {
  const std::optional<int64_t> distance = CheckedMul(count, stride);
  const std::optional<int64_t> moved = distance ? CheckedAdd(offset_, *distance) : std::nullopt;
  if (moved && *moved >= 0) offset_ = *moved;
}

void Layout::SetGeometry(int rank, const int64_t* dims, const int64_t* strides) {
  if (rank == rank_ || (is_inline() && rank <= kInlineRank)) {
    rank_ = rank;
  } else {
    Layout result(rank);
    result.offset_ = offset_;
    result.num_elements_ = num_elements_;
    *this = std::move(result);
  }
  int64_t* const sizes = mutable_dims();
  int64_t* const steps = mutable_strides();
  for (int i = 0; i < rank; ++i) {
    sizes[i] = dims[i];
    steps[i] = strides[i];
  }
}

void Layout::RemoveAxis(int axis) {
  if (is_inline()) {
    --rank_;
    for (int i = axis; i < rank_; ++i) {  // a loop is faster than memmove here
      inline_[i] = inline_[i + 1];
      inline_[kInlineRank + i] = inline_[kInlineRank + i + 1];
    }
    return;
  }
  const int behind = rank_ - 1 - axis;
  Layout result(rank_ - 1);
  result.offset_ = offset_;
  result.num_elements_ = num_elements_;
  const auto copy = [&](const int64_t* from, int64_t* to) {
    std::copy_n(from + axis + 1, behind, std::copy_n(from, axis, to));
  };
  copy(data(), result.mutable_dims());
  copy(data() + rank_, result.mutable_strides());
  *this = std::move(result);
}

void Layout::InsertAxis(int axis, int64_t size, int64_t stride) {
  if (rank_ < kInlineRank) {
    for (int i = rank_++; i > axis; --i) {
      inline_[i] = inline_[i - 1];
      inline_[kInlineRank + i] = inline_[kInlineRank + i - 1];
    }
  } else {
    Layout result(rank_ + 1);
    result.offset_ = offset_;
    result.num_elements_ = num_elements_;
    const auto copy = [&](const int64_t* from, int64_t* to) {
      std::copy_n(from + axis, rank_ - axis, std::copy_n(from, axis, to) + 1);
    };
    copy(data(), result.mutable_dims());
    copy(data() + strides_at(), result.mutable_strides());
    *this = std::move(result);
  }
  mutable_dims()[axis] = size;
  mutable_strides()[axis] = stride;
}

// ---- Parts ----------------------------------------------------------------------------------------------------------

absl::Status Layout::EditSlice(int64_t axis, const std::optional<int64_t>& start, const std::optional<int64_t>& end,
                               int64_t step) {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("Slice", axis);
  if (step == 0) return Refused("Slice", absl::StrCat("the step along axis ", at, " is 0"));
  const int64_t size = data()[at];
  const int64_t stride = data()[strides_at() + at];
  const auto wrapped = [size](int64_t index) { return index < 0 ? index + size : index; };
  int64_t first;
  int64_t count = 0;
  if (step > 0) {
    first = start ? std::clamp(wrapped(*start), int64_t{0}, size) : 0;
    const int64_t stop = end ? std::clamp(wrapped(*end), int64_t{0}, size) : size;
    if (stop > first) count = step == 1 ? stop - first : (stop - first - 1) / step + 1;
  } else {
    first = start ? std::clamp(wrapped(*start), int64_t{-1}, size - 1) : size - 1;
    const int64_t stop = end ? std::clamp(wrapped(*end), int64_t{-1}, size - 1) : -1;
    if (stop < first) count = (stop - first + 1) / step + 1;
  }
  mutable_dims()[at] = count;
  mutable_strides()[at] = StrideTimes(stride, step);
  CountElements();
  if (step > 0 || count > 0) MoveOffset(first, stride);
  return absl::OkStatus();
}

absl::Status Layout::EditSlice(const TensorSlice& slice) {
  CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(shape()));
  for (int axis = 0; axis < rank_; ++axis) {
    if (!slice.IsFullAt(axis)) CASK_RETURN_IF_ERROR(EditNarrow(axis, slice.extent(axis).start, part.dim(axis)));
  }
  return absl::OkStatus();
}

absl::Status Layout::EditNarrow(int64_t axis, int64_t start, int64_t length) {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("Narrow", axis);
  const int64_t size = data()[at];
  if (start < -size || start > size) {
    return OutOfRange("Narrow", at, absl::StrCat("start ", start, " is outside [", -size, ", ", size, "]"));
  }
  if (start < 0) start += size;
  if (length < 0 || length > size - start) {
    return OutOfRange("Narrow", at,
                      absl::StrCat("length ", length, " from ", start, "; at most ", size - start, " elements remain"));
  }
  mutable_dims()[at] = length;
  CountElements();
  MoveOffset(start, data()[strides_at() + at]);
  return absl::OkStatus();
}

absl::Status Layout::EditSelect(int64_t axis, int64_t index) {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("Select", axis);
  const int64_t size = data()[at];
  if (index < -size || index >= size) {
    return OutOfRange("Select", at, absl::StrCat("index ", index, " is outside [", -size, ", ", size - 1, "]"));
  }
  MoveOffset(index < 0 ? index + size : index, data()[strides_at() + at]);
  RemoveAxis(at);
  CountElements();
  return absl::OkStatus();
}

absl::Status Layout::EditDiagonal(int64_t diagonal, int64_t axis1, int64_t axis2) {
  const int row = WrapAxis(axis1, rank_);
  const int column = WrapAxis(axis2, rank_);
  if (row < 0) return BadAxis("Diagonal", axis1);
  if (column < 0) return BadAxis("Diagonal", axis2);
  if (row == column) return Refused("Diagonal", absl::StrCat("both axes are ", row));
  const int64_t* const sizes = data();
  const int64_t* const steps = sizes + strides_at();
  const int64_t rows = sizes[row];
  const int64_t columns = sizes[column];
  const int64_t length = diagonal >= 0 ? std::max(std::min(rows, columns - diagonal), int64_t{0})
                                       : std::max(std::min(rows + diagonal, columns), int64_t{0});
  const int64_t stride = CheckedAdd(steps[row], steps[column]).value_or(steps[row]);
  if (length > 0) MoveOffset(std::abs(diagonal), diagonal >= 0 ? steps[column] : steps[row]);
  RemoveAxis(std::max(row, column));
  RemoveAxis(std::min(row, column));
  InsertAxis(rank_, length, stride);
  CountElements();
  return absl::OkStatus();
}

absl::Status Layout::EditUnfold(int64_t axis, int64_t size, int64_t step) {
  const int at = WrapAxis(axis, std::max(rank_, 1));
  if (at < 0) return BadAxis("Unfold", axis);
  const int64_t whole = rank_ == 0 ? 1 : dim(at);
  if (size < 0 || size > whole) {
    return OutOfRange("Unfold", at, absl::StrCat("window size ", size, " is outside [0, ", whole, "]"));
  }
  if (step <= 0) return Refused("Unfold", absl::StrCat("the step along axis ", at, " is ", step, ", not positive"));
  if (rank_ == TensorShape::kMaxRank) return Refused("Unfold", "the rank is already the highest possible");
  if (rank_ == 0) {
    InsertAxis(0, size, 1);
  } else {
    const int64_t steps = (whole - size) / step;
    if (steps == INT64_MAX) return Refused("Unfold", "there are 2^63 windows");
    const int64_t stride = data()[strides_at() + at];
    mutable_dims()[at] = steps + 1;
    mutable_strides()[at] = StrideTimes(stride, step);
    InsertAxis(rank_, size, stride);
  }
  CASK_RETURN_IF_ERROR(internal::CheckDims(dims()));  // windows overlap: there may be too many
  CountElements();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Layout>> Layout::Pieces(int axis, absl::Span<const int64_t> starts,
                                                   absl::Span<const int64_t> ends) const {
  std::vector<Layout> pieces;
  pieces.reserve(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    CASK_ASSIGN_OR_RETURN(Layout piece, Slice(axis, starts[i], ends[i]));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

namespace {

absl::Status TooManyPieces(absl::string_view operation, int64_t count, int axis, const Layout& layout) {
  return absl::ResourceExhaustedError(absl::StrCat(operation, ": ", count, " pieces of axis ", axis, " of the layout ",
                                                   layout.ToString(), "; at most ", Layout::kMaxPieces));
}

}  // namespace

absl::StatusOr<std::vector<Layout>> Layout::Split(int64_t axis, int64_t size) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("Split", axis);
  const int64_t whole = dim(at);
  if (size < 0 || (size == 0 && whole != 0)) {
    return Refused("Split", absl::StrCat("pieces of size ", size, " along axis ", at));
  }
  const int64_t count = whole == 0 ? 1 : (whole - 1) / size + 1;
  if (count > kMaxPieces) return TooManyPieces("Split", count, at, *this);
  std::vector<int64_t> starts(static_cast<size_t>(count));
  std::vector<int64_t> ends(starts.size(), whole);
  for (size_t i = 1; i < starts.size(); ++i) ends[i - 1] = starts[i] = static_cast<int64_t>(i) * size;
  return Pieces(at, starts, ends);
}

absl::StatusOr<std::vector<Layout>> Layout::SplitSizes(int64_t axis, absl::Span<const int64_t> sizes) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("SplitSizes", axis);
  if (sizes.size() > size_t{kMaxPieces}) {
    return TooManyPieces("SplitSizes", static_cast<int64_t>(sizes.size()), at, *this);
  }
  const int64_t whole = dim(at);
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  int64_t done = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > whole - done) {
      return Refused("SplitSizes", absl::StrCat("a piece of size ", size, " from ", done, " along axis ", at));
    }
    starts.push_back(done);
    ends.push_back(done += size);
  }
  if (done != whole) {
    return Refused("SplitSizes", absl::StrCat("the sizes add up to ", done, ", not ", whole, ", along axis ", at));
  }
  return Pieces(at, starts, ends);
}

absl::StatusOr<std::vector<Layout>> Layout::Chunk(int64_t axis, int64_t count) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("Chunk", axis);
  if (count <= 0) return Refused("Chunk", absl::StrCat(count, " pieces of axis ", at));
  if (dim(at) == 0) return TensorSplit(at, count);
  return Split(at, (dim(at) - 1) / count + 1);
}

absl::StatusOr<std::vector<Layout>> Layout::TensorSplit(int64_t axis, int64_t count) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("TensorSplit", axis);
  if (count <= 0) return Refused("TensorSplit", absl::StrCat(count, " pieces of axis ", at));
  if (count > kMaxPieces) return TooManyPieces("TensorSplit", count, at, *this);
  std::vector<int64_t> starts(static_cast<size_t>(count));
  std::vector<int64_t> ends(starts.size());
  const int64_t longer = dim(at) % count;
  int64_t done = 0;
  for (int64_t i = 0; i < count; ++i) {
    starts[static_cast<size_t>(i)] = done;
    done += dim(at) / count + (i < longer ? 1 : 0);
    ends[static_cast<size_t>(i)] = done;
  }
  return Pieces(at, starts, ends);
}

absl::StatusOr<std::vector<Layout>> Layout::TensorSplitAt(int64_t axis, absl::Span<const int64_t> indices) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("TensorSplitAt", axis);
  if (indices.size() >= size_t{kMaxPieces}) {
    return TooManyPieces("TensorSplitAt", static_cast<int64_t>(indices.size()) + 1, at, *this);
  }
  std::vector<int64_t> starts(indices.begin(), indices.end());
  std::vector<int64_t> ends = starts;
  starts.insert(starts.begin(), 0);
  ends.push_back(dim(at));
  return Pieces(at, starts, ends);
}

// ---- Order ----------------------------------------------------------------------------------------------------------

absl::Status Layout::EditTranspose(int64_t axis1, int64_t axis2) {
  const int a = WrapAxis(axis1, std::max(rank_, 1));
  const int b = WrapAxis(axis2, std::max(rank_, 1));
  if (a < 0) return BadAxis("Transpose", axis1);
  if (b < 0) return BadAxis("Transpose", axis2);
  if (rank_ == 0) return absl::OkStatus();
  std::swap(mutable_dims()[a], mutable_dims()[b]);
  std::swap(mutable_strides()[a], mutable_strides()[b]);
  return absl::OkStatus();
}

absl::Status Layout::EditPermute(absl::Span<const int64_t> axes) {
  if (axes.size() != static_cast<size_t>(rank_)) {
    return Refused("Permute", absl::StrCat(axes.size(), " axes for rank ", rank_));
  }
  std::bitset<TensorShape::kMaxRank> used;
  int64_t sizes[TensorShape::kMaxRank];
  int64_t steps[TensorShape::kMaxRank];
  const int64_t* const old_sizes = data();
  const int64_t* const old_steps = old_sizes + strides_at();
  for (int i = 0; i < rank_; ++i) {
    const int64_t axis = axes[static_cast<size_t>(i)];
    const int from = WrapAxis(axis, rank_);
    if (from < 0) return BadAxis("Permute", axis);
    if (used[static_cast<size_t>(from)]) return Refused("Permute", absl::StrCat("axis ", from, " appears twice"));
    used.set(static_cast<size_t>(from));
    sizes[i] = old_sizes[from];
    steps[i] = old_steps[from];
  }
  SetGeometry(rank_, sizes, steps);
  return absl::OkStatus();
}

absl::Status Layout::EditMoveAxis(int64_t from, int64_t to) {
  const int source = WrapAxis(from, std::max(rank_, 1));
  const int target = WrapAxis(to, std::max(rank_, 1));
  if (source < 0) return BadAxis("MoveAxis", from);
  if (target < 0) return BadAxis("MoveAxis", to);
  if (rank_ == 0) return absl::OkStatus();
  for (int64_t* const words : {mutable_dims(), mutable_strides()}) {
    if (source < target) {
      std::rotate(words + source, words + source + 1, words + target + 1);
    } else {
      std::rotate(words + target, words + source, words + source + 1);
    }
  }
  return absl::OkStatus();
}

absl::Status Layout::EditFlip(absl::Span<const int64_t> axes) {
  std::bitset<TensorShape::kMaxRank> flipped;
  for (const int64_t axis : axes) {
    const int at = WrapAxis(axis, rank_);
    if (at < 0) return BadAxis("Flip", axis);
    if (flipped[static_cast<size_t>(at)]) return Refused("Flip", absl::StrCat("axis ", at, " appears twice"));
    flipped.set(static_cast<size_t>(at));
  }
  if (num_elements_ == 0) return absl::OkStatus();
  for (int axis = 0; axis < rank_; ++axis) {
    if (!flipped[static_cast<size_t>(axis)] || dim(axis) == 1) continue;
    // Every partial move leads to an element.
    MoveOffset(dim(axis) - 1, stride(axis));
    mutable_strides()[axis] = -stride(axis);
  }
  return absl::OkStatus();
}

}  // namespace tensorcask
