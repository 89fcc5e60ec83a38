#include "tensorcask/tensor/slice.h"

#include <algorithm>
#include <limits>
#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask {
namespace {

using Extent = TensorSlice::Extent;

// kMaxRank times START,LENGTH of 19 digits each, joined by colons.
constexpr size_t kMaxTextBytes = size_t{TensorShape::kMaxRank} * (19 + 1 + 19 + 1) - 1;

int64_t End(const Extent& extent) {
  return extent.start + extent.length;
}  // does not overflow: an invariant of TensorSlice

// Says which invariant `extent` breaks; null if it breaks none.
const char* Broken(const Extent& extent) {
  if (extent == Extent()) return nullptr;
  if (extent.start < 0) return "the start is negative";
  if (extent.length <= 0) return "the length is not positive";
  if (!CheckedAdd(extent.start, extent.length)) return "start + length does not fit 63 bits";
  return nullptr;
}

// Reads one text from left to right; every error names the position.
class SliceParser {
 public:
  explicit SliceParser(absl::string_view text) : text_(text) {}

  bool AtEnd() const { return position_ == text_.size(); }

  bool Consume(char c) {
    if (AtEnd() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  // Decimal digits without leading zeros, of a number below 2^63.
  absl::Status ConsumeNumber(int64_t* number) {
    const size_t start = position_;
    *number = 0;
    while (!AtEnd() && text_[position_] >= '0' && text_[position_] <= '9') {
      const int64_t digit = text_[position_] - '0';
      if (position_ > start && *number == 0) return Error(start, "a number with a leading zero");
      if (*number > (std::numeric_limits<int64_t>::max() - digit) / 10) {
        return Error(start, "a number that does not fit 63 bits");
      }
      *number = *number * 10 + digit;
      ++position_;
    }
    if (position_ == start) return Error(start, "a number is missing");
    return absl::OkStatus();
  }

  absl::Status ConsumeExtent(Extent* extent) {
    if (Consume('-')) {
      *extent = Extent();
      return absl::OkStatus();
    }
    const size_t start = position_;
    if (absl::Status status = ConsumeNumber(&extent->start); !status.ok()) return status;
    if (!Consume(',')) return Error(position_, "',' is missing after the start");
    if (absl::Status status = ConsumeNumber(&extent->length); !status.ok()) return status;
    if (const char* const why = Broken(*extent)) return Error(start, why);
    return absl::OkStatus();
  }

  absl::Status ErrorHere(absl::string_view what) const { return Error(position_, what); }

 private:
  absl::Status Error(size_t position, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("slice ", Quoted(text_), ", position ", position, ": ", what));
  }

  absl::string_view text_;
  size_t position_ = 0;
};

absl::Status RanksDiffer(absl::string_view what, const TensorSlice& slice, absl::string_view other, int other_rank) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": slice ", Quoted(slice.ToString()), " has rank ", slice.rank(),
                                                 ", ", other, " has rank ", other_rank));
}

}  // namespace

TensorSlice TensorSlice::Full(int rank) {
  CASK_CHECK(rank >= 0 && rank <= TensorShape::kMaxRank, "TensorSlice::Full: rank outside 0 to 254");
  TensorSlice slice;
  slice.extents_.resize(static_cast<size_t>(rank));
  return slice;
}

absl::StatusOr<TensorSlice> TensorSlice::Create(absl::Span<const Extent> extents) {
  if (extents.size() > size_t{TensorShape::kMaxRank}) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice of rank ", extents.size(), "; at most ", TensorShape::kMaxRank, " is possible"));
  }
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (const char* const why = Broken(extents[axis])) {
      return absl::InvalidArgumentError(absl::StrCat("slice, axis ", axis, ": start ", extents[axis].start, ", length ",
                                                     extents[axis].length, ": ", why));
    }
  }
  TensorSlice slice = Full(static_cast<int>(extents.size()));
  std::copy(extents.begin(), extents.end(), slice.extents_.begin());
  return slice;
}

absl::StatusOr<TensorSlice> TensorSlice::Parse(absl::string_view text) {
  if (text.empty()) return Full(0);
  if (text.size() > kMaxTextBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("slice text of ", text.size(), " bytes; one of ",
                                                     TensorShape::kMaxRank, " axes has at most ", kMaxTextBytes));
  }
  const auto num_axes = std::count(text.begin(), text.end(), ':') + 1;
  if (num_axes > TensorShape::kMaxRank) {
    return absl::ResourceExhaustedError(
        absl::StrCat("slice ", Quoted(text), " has ", num_axes, " axes; at most ", TensorShape::kMaxRank));
  }
  TensorSlice slice = Full(static_cast<int>(num_axes));
  SliceParser parser(text);
  for (Extent& extent : slice.extents_) {
    if (absl::Status status = parser.ConsumeExtent(&extent); !status.ok()) return status;
    if (!parser.Consume(':') && !parser.AtEnd()) return parser.ErrorHere("':' or the end is missing after an axis");
  }
  return slice;
}

std::string TensorSlice::ToString() const {
  std::string text;
  for (const Extent& extent : extents_) {
    if (&extent != extents_.data()) text += ':';
    if (extent.full()) {
      text += '-';
    } else {
      absl::StrAppend(&text, extent.start, ",", extent.length);
    }
  }
  return text;
}

const TensorSlice::Extent& TensorSlice::extent(int axis) const {
  CASK_CHECK(axis >= 0 && axis < rank(), "TensorSlice::extent: axis outside the slice");
  return extents_[static_cast<size_t>(axis)];
}

bool TensorSlice::IsFull() const {
  return std::all_of(extents_.begin(), extents_.end(), [](const Extent& extent) { return extent.full(); });
}

std::optional<TensorSlice> TensorSlice::Intersect(const TensorSlice& other) const {
  if (rank() != other.rank()) return std::nullopt;
  TensorSlice common = *this;
  for (size_t axis = 0; axis < extents_.size(); ++axis) {
    Extent& mine = common.extents_[axis];
    const Extent& theirs = other.extents_[axis];
    if (theirs.full()) continue;
    if (mine.full()) {
      mine = theirs;
      continue;
    }
    const int64_t start = std::max(mine.start, theirs.start);
    const int64_t end = std::min(End(mine), End(theirs));
    if (start >= end) return std::nullopt;
    mine = {start, end - start};
  }
  return common;
}

absl::StatusOr<TensorShape> TensorSlice::Apply(const TensorShape& shape) const {
  if (shape.rank() != rank()) return RanksDiffer("Apply", *this, "the shape", shape.rank());
  DimVector dims = shape.dims();
  for (int axis = 0; axis < rank(); ++axis) {
    const Extent& part = extent(axis);
    if (part.full()) continue;
    int64_t& dim = dims[static_cast<size_t>(axis)];
    if (part.start > dim || part.length > dim - part.start) {
      return absl::OutOfRangeError(absl::StrCat("slice ", Quoted(ToString()), ", axis ", axis, ": ", part.start, " + ",
                                                part.length, " reaches past ", dim, " in shape ", shape.ToString()));
    }
    dim = part.length;
  }
  return TensorShape::Create(dims);
}

absl::StatusOr<TensorSlice> TensorSlice::ComputeRelative(const TensorSlice& base) const {
  if (base.rank() != rank()) return RanksDiffer("ComputeRelative", *this, "the base", base.rank());
  TensorSlice relative = *this;
  for (int axis = 0; axis < rank(); ++axis) {
    const Extent& outer = base.extent(axis);
    if (outer.full()) continue;
    const Extent& inner = extent(axis);
    if (inner.full() || inner.start < outer.start || End(inner) > End(outer)) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", Quoted(base.ToString()), " does not contain ", Quoted(ToString()), " on axis ", axis));
    }
    relative.extents_[static_cast<size_t>(axis)].start -= outer.start;
  }
  return relative;
}

void TensorSlice::UpdateToCover(const TensorSlice& other) {
  CASK_CHECK(rank() == other.rank(), "TensorSlice::UpdateToCover: ranks differ");
  for (size_t axis = 0; axis < extents_.size(); ++axis) {
    Extent& mine = extents_[axis];
    const Extent& theirs = other.extents_[axis];
    if (mine.full()) continue;
    if (theirs.full()) {
      mine = theirs;
      continue;
    }
    const int64_t start = std::min(mine.start, theirs.start);
    mine = {start, std::max(End(mine), End(theirs)) - start};
  }
}

std::ostream& operator<<(std::ostream& out, const TensorSlice& slice) { return out << slice.ToString(); }

}  // namespace tensorcask
