// Views of a layout with other dims, or with elements of another size.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/internal/layout_util.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask {
namespace {

using internal::StrideTimes;
using internal::WrapAxis;

// Dims and strides of a new layout of any rank. Not initialised, because that would take longer than the rest of the
// work.
struct Geometry {
  int64_t dims[TensorShape::kMaxRank];
  int64_t strides[TensorShape::kMaxRank];
};

// Computes strides with which dims `to` show the elements of `from` in the same order; false if no such strides exist.
// Requires: as many elements, and at least one. Walks both from the last axis. Old axes that continue one another form
// a chunk, and new axes must fill each chunk exactly. The same steps as PyTorch's computeStride, so axes of size 1 get
// the same strides as there.
bool ViewStrides(absl::Span<const int64_t> from, absl::Span<const int64_t> from_strides, absl::Span<const int64_t> to,
                 int64_t* strides) {
  if (from.empty()) {
    std::fill_n(strides, to.size(), 1);
    return true;
  }
  int64_t chunk_stride = from_strides[from.size() - 1];
  int64_t chunk_elements = 1;
  int64_t done_elements = 1;  // elements of the chunk that the new axes have so far
  size_t next = to.size();    // new axes before this one are not done yet
  for (size_t axis = from.size(); axis-- > 0;) {
    chunk_elements *= from[axis];
    int64_t reach;
    const bool continues =
        axis > 0 && (from[axis - 1] == 1 || (!__builtin_mul_overflow(chunk_elements, chunk_stride, &reach) &&
                                             reach == from_strides[axis - 1]));
    if (continues) continue;
    while (next > 0 && (done_elements < chunk_elements || to[next - 1] == 1)) {
      --next;
      strides[next] = StrideTimes(chunk_stride, done_elements);
      done_elements *= to[next];
    }
    if (done_elements != chunk_elements) return false;
    if (axis > 0) chunk_stride = from_strides[axis - 1];
    chunk_elements = done_elements = 1;
  }
  return next == 0;
}

}  // namespace

// ---- Shape ----------------------------------------------------------------------------------------------------------

bool Layout::InferDims(absl::Span<const int64_t> dims, int64_t* result) const {
  int64_t* unknown = nullptr;
  int64_t elements = 1;
  int64_t nonzero_elements = 1;
  bool good = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim = dims[i];
    if (dim == -1 && unknown == nullptr) {
      unknown = result + i;
      dim = 1;
    }
    // As internal::CheckDims: the product of those that are not 0 must fit.
    good = good && dim >= 0 && !__builtin_mul_overflow(nonzero_elements, dim == 0 ? 1 : dim, &nonzero_elements);
    if (dim == 0) elements = 0;
    result[i] = dim;
  }
  elements *= nonzero_elements;
  if (!good) return false;
  if (unknown == nullptr) return elements == num_elements_;
  if (elements == 0) return false;
  *unknown = num_elements_ / elements;
  return *unknown * elements == num_elements_;
}

absl::Status Layout::CannotInfer(absl::Span<const int64_t> dims) const {
  const std::string wanted = absl::StrCat("the dims [", absl::StrJoin(dims, ","), "]");
  DimVector known(dims.begin(), dims.end());
  const auto unknown = std::find(known.begin(), known.end(), -1);
  const bool infers = unknown != known.end();
  if (infers) {
    if (std::find(unknown + 1, known.end(), -1) != known.end()) {
      return Refused("Reshape", absl::StrCat(wanted, " have more than one -1"));
    }
    *unknown = 1;
  }
  CASK_RETURN_IF_ERROR(internal::CheckDims(known));
  int64_t elements = 1;
  for (const int64_t dim : known) elements *= dim;
  if (!infers) {
    return Refused("Reshape", absl::StrCat(wanted, " have ", elements, " elements, not ", num_elements_));
  }
  if (elements == 0) {
    return Refused("Reshape", absl::StrCat(wanted, " do not determine -1, because another dim is 0"));
  }
  return Refused("Reshape", absl::StrCat(wanted, ": ", num_elements_, " elements are not a multiple of ", elements));
}

absl::StatusOr<TensorShape> Layout::InferShape(absl::Span<const int64_t> dims) const {
  if (dims.size() > size_t{TensorShape::kMaxRank}) return internal::CheckDims(dims);
  DimVector inferred(dims.size());
  if (!InferDims(dims, inferred.data())) return CannotInfer(dims);
  return TensorShape::Create(inferred);
}

// The usual case of EditReshape: all axes continue one another, so any dims are possible, with the strides that
// ViewStrides gives to one chunk.
bool Layout::ReshapeOneChunk(const int64_t* dims, int rank) {
  if (!is_inline() || rank > kInlineRank || rank_ == 0) return false;
  const int64_t* const steps = inline_ + kInlineRank;
  const int64_t step = steps[rank_ - 1];
  int64_t elements = inline_[rank_ - 1];
  for (int axis = rank_ - 2; axis >= 0; --axis) {
    int64_t reach;
    if (inline_[axis] != 1 && (__builtin_mul_overflow(elements, step, &reach) || reach != steps[axis])) return false;
    elements *= inline_[axis];
  }
  rank_ = rank;
  int64_t inner = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    inline_[axis] = dims[axis];
    inline_[kInlineRank + axis] = StrideTimes(step, inner);
    inner *= dims[axis];
  }
  return true;
}

absl::Status Layout::EditReshape(absl::Span<const int64_t> dims) {
  if (dims.size() > size_t{TensorShape::kMaxRank}) return internal::CheckDims(dims);
  Geometry to;
  if (!InferDims(dims, to.dims)) return CannotInfer(dims);
  const absl::Span<const int64_t> inferred(to.dims, dims.size());
  if (num_elements_ == 0) {
    if (inferred == this->dims()) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(const DimVector strides, CanonicalStrides(inferred, MemoryFormat::kContiguous));
    std::copy(strides.begin(), strides.end(), to.strides);
  } else if (ReshapeOneChunk(to.dims, static_cast<int>(dims.size()))) {
    return absl::OkStatus();
  } else if (!ViewStrides(this->dims(), strides(), inferred, to.strides)) {
    return Refused("Reshape", absl::StrCat("no strides give this order with the dims [", absl::StrJoin(inferred, ","),
                                           "]; only a copy (ReshapeOrCopy) does"));
  }
  SetGeometry(static_cast<int>(dims.size()), to.dims, to.strides);
  return absl::OkStatus();
}

// The usual case of EditFlatten: each axis continues the one after it. EditReshape handles axes of size 1, whose
// strides it chooses.
bool Layout::FlattenDense(int begin, int end) {
  if (!is_inline() || num_elements_ == 0) return false;
  int64_t* const sizes = inline_;
  int64_t* const steps = inline_ + kInlineRank;
  for (int axis = 0; axis < rank_; ++axis) {
    if (sizes[axis] == 1) return false;
    // Both sides are numbers of elements, or less, where they are equal.
    if (axis >= begin && axis < end && steps[axis] / sizes[axis + 1] != steps[axis + 1]) return false;
    if (axis >= begin && axis < end && steps[axis] % sizes[axis + 1] != 0) return false;
  }
  for (int axis = begin + 1; axis <= end; ++axis) sizes[begin] *= sizes[axis];
  steps[begin] = steps[end];
  const int dropped = end - begin;
  rank_ -= dropped;
  for (int axis = begin + 1; axis < rank_; ++axis) {
    sizes[axis] = sizes[axis + dropped];
    steps[axis] = steps[axis + dropped];
  }
  return true;
}

absl::Status Layout::EditFlatten(int64_t first, int64_t last) {
  const int begin = WrapAxis(first, std::max(rank_, 1));
  const int end = WrapAxis(last, std::max(rank_, 1));
  if (begin < 0) return BadAxis("Flatten", first);
  if (end < 0) return BadAxis("Flatten", last);
  if (begin > end) return Refused("Flatten", absl::StrCat("the first axis, ", begin, ", comes after the last, ", end));
  if (rank_ == 0) return EditReshape({1});
  if (begin == end) return absl::OkStatus();
  if (FlattenDense(begin, end)) return absl::OkStatus();
  int64_t flat[TensorShape::kMaxRank];
  int rank = 0;
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > begin && axis <= end) {
      flat[rank - 1] *= data()[axis];
    } else {
      flat[rank++] = data()[axis];
    }
  }
  return EditReshape(absl::MakeConstSpan(flat, static_cast<size_t>(rank)));
}

absl::Status Layout::EditSqueeze(int64_t axis) {
  const int at = WrapAxis(axis, std::max(rank_, 1));
  if (at < 0) return BadAxis("Squeeze", axis);
  if (rank_ > 0 && dim(at) == 1) RemoveAxis(at);
  return absl::OkStatus();
}

void Layout::EditSqueeze() {
  Geometry kept;
  int rank = 0;
  for (int axis = 0; axis < rank_; ++axis) {
    if (data()[axis] == 1) continue;
    kept.dims[rank] = data()[axis];
    kept.strides[rank++] = data()[strides_at() + axis];
  }
  SetGeometry(rank, kept.dims, kept.strides);
}

absl::Status Layout::EditUnsqueeze(int64_t axis) {
  const int at = WrapAxis(axis, rank_ + 1);
  if (at < 0) {
    return Refused("Unsqueeze", absl::StrCat("axis ", axis, " is outside [", -rank_ - 1, ", ", rank_, "]"));
  }
  if (rank_ == TensorShape::kMaxRank) return Refused("Unsqueeze", "the rank is already the highest possible");
  InsertAxis(at, 1, at == rank_ ? 1 : StrideTimes(stride(at), dim(at)));
  return absl::OkStatus();
}

absl::Status Layout::EditExpand(absl::Span<const int64_t> dims) {
  const int more = static_cast<int>(std::min(dims.size(), size_t{TensorShape::kMaxRank} + 1)) - rank_;
  const auto wanted = [&] { return absl::StrCat("to the dims [", absl::StrJoin(dims, ","), "]"); };
  if (dims.size() > size_t{TensorShape::kMaxRank} || more < 0) {
    return Refused("Expand",
                   absl::StrCat("to rank ", dims.size(), "; ", rank_, " to ", TensorShape::kMaxRank, " are possible"));
  }
  Geometry to;
  const int rank = more + rank_;
  const int64_t* const old_sizes = data();
  const int64_t* const old_steps = old_sizes + strides_at();
  int64_t elements = 1;
  int64_t nonzero_elements = 1;
  bool fits = true;
  for (int i = rank - 1; i >= 0; --i) {
    const int axis = i - more;
    const int64_t target = dims[static_cast<size_t>(i)];
    if (axis < 0) {
      if (target < 0) {
        return Refused("Expand", absl::StrCat(wanted(), ": ", target, " for the new axis ", i));
      }
      to.dims[i] = target;
      // A new axis of size 1 continues the axes after it, as Unsqueeze does; for a scalar PyTorch uses stride 0.
      to.strides[i] = target == 1 && rank_ > 0 ? CheckedMul(to.dims[i + 1], to.strides[i + 1]).value_or(0) : 0;
    } else {
      const int64_t size = old_sizes[axis];
      if (target != -1 && target != size && (size != 1 || target < 0)) {
        return Refused("Expand",
                       absl::StrCat(wanted(), ": ", target, " for axis ", i, " of the result, which has ", size));
      }
      const bool repeats = target != -1 && target != size;
      to.dims[i] = repeats ? target : size;
      to.strides[i] = repeats ? 0 : old_steps[axis];
    }
    // As internal::CheckDims: the product of those that are not 0 must fit.
    fits = fits && !__builtin_mul_overflow(nonzero_elements, to.dims[i] == 0 ? 1 : to.dims[i], &nonzero_elements);
    if (to.dims[i] == 0) elements = 0;
  }
  if (!fits) return internal::CheckDims({to.dims, static_cast<size_t>(rank)});
  SetGeometry(rank, to.dims, to.strides);
  num_elements_ = elements * nonzero_elements;
  return absl::OkStatus();
}

// ---- Geometry of other elements, or any -----------------------------------------------------------------------------

absl::Status Layout::EditBitcast(int64_t from_bytes, int64_t to_bytes) {
  const auto refused = [&](const auto&... why) {
    return Refused("Bitcast", absl::StrCat("from ", from_bytes, " to ", to_bytes, " bytes: ", why...));
  };
  if (from_bytes <= 0 || to_bytes <= 0) return refused("elements have at least 1");
  if (from_bytes == to_bytes) return absl::OkStatus();
  if (from_bytes % to_bytes != 0 && to_bytes % from_bytes != 0) return refused("neither is a multiple of the other");
  if (rank_ == 0) return refused("a scalar has no axis to grow or shrink");
  const int last = rank_ - 1;
  const int64_t* const sizes = data();
  const int64_t* const steps = sizes + strides_at();
  if (steps[last] != 1) return refused("the stride of the last axis is ", steps[last], ", not 1");
  Geometry to;
  std::copy_n(sizes, rank_, to.dims);
  to.strides[last] = 1;
  if (from_bytes > to_bytes) {
    const int64_t ratio = from_bytes / to_bytes;
    const std::optional<int64_t> size = CheckedMul(sizes[last], ratio);
    const std::optional<int64_t> offset = CheckedMul(offset_, ratio);
    if (!size || !offset) return refused("its size exceeds 2^63-1");
    to.dims[last] = *size;
    for (int axis = 0; axis < last; ++axis) {
      const std::optional<int64_t> scaled = CheckedMul(steps[axis], ratio);
      if (!scaled && num_elements_ > 0 && sizes[axis] > 1) return refused("a stride exceeds 2^63-1");
      to.strides[axis] = scaled.value_or(steps[axis]);
    }
    return EditAsStrided({to.dims, static_cast<size_t>(rank_)}, {to.strides, static_cast<size_t>(rank_)}, *offset);
  }
  const int64_t ratio = to_bytes / from_bytes;
  if (sizes[last] % ratio != 0)
    return refused("the size of the last axis, ", sizes[last], ", is not a multiple of ", ratio);
  if (offset_ % ratio != 0) return refused("the offset, ", offset_, ", is not a multiple of ", ratio);
  to.dims[last] = sizes[last] / ratio;
  for (int axis = 0; axis < last; ++axis) {
    if (steps[axis] % ratio != 0)
      return refused("the stride of axis ", axis, ", ", steps[axis], ", is not a multiple of ", ratio);
    to.strides[axis] = steps[axis] / ratio;
  }
  return EditAsStrided({to.dims, static_cast<size_t>(rank_)}, {to.strides, static_cast<size_t>(rank_)},
                       offset_ / ratio);
}

absl::StatusOr<Layout> Layout::ViewAsReal() const {
  // A pair becomes one element of twice the size.
  CASK_ASSIGN_OR_RETURN(const Layout pairs, Unsqueeze(rank_));
  absl::StatusOr<Layout> result = pairs.Bitcast(2, 1);
  if (!result.ok()) return Refused("ViewAsReal", "its offset or a stride exceeds 2^63-1");
  return result;
}

absl::StatusOr<Layout> Layout::ViewAsComplex() const {
  if (rank_ == 0) return Refused("ViewAsComplex", "a scalar has no axis of real and imaginary parts");
  const int last = rank_ - 1;
  if (dim(last) != 2 || stride(last) != 1) {
    return Refused("ViewAsComplex",
                   absl::StrCat("the last axis has size ", dim(last), " and stride ", stride(last), ", not 2 and 1"));
  }
  if (offset_ % 2 != 0) return Refused("ViewAsComplex", "the offset is odd");
  Layout result = *this;
  result.RemoveAxis(last);
  result.offset_ = offset_ / 2;
  for (int axis = 0; axis < last; ++axis) {
    if (stride(axis) % 2 != 0) return Refused("ViewAsComplex", absl::StrCat("the stride of axis ", axis, " is odd"));
    result.mutable_strides()[axis] = stride(axis) / 2;
  }
  result.CountElements();
  return result;
}

absl::StatusOr<Layout> Layout::SetDimsAndStrides(absl::Span<const int64_t> dims,
                                                 absl::Span<const int64_t> strides) const {
  CASK_ASSIGN_OR_RETURN(const DimVector filled, FillStrides(dims, strides));
  return Create(dims, filled, offset_);
}

absl::StatusOr<Layout> Layout::SetDim(int axis, int64_t dim) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("SetDim", axis);
  DimVector sizes(dims().begin(), dims().end());
  sizes[static_cast<size_t>(at)] = dim;
  return Create(sizes, strides(), offset_);
}

absl::StatusOr<Layout> Layout::SetStride(int axis, int64_t stride) const {
  const int at = WrapAxis(axis, rank_);
  if (at < 0) return BadAxis("SetStride", axis);
  DimVector steps(strides().begin(), strides().end());
  steps[static_cast<size_t>(at)] = stride;
  return Create(dims(), steps, offset_);
}

absl::StatusOr<Layout> Layout::ResizeDim(int rank) const {
  if (rank < 0 || rank > TensorShape::kMaxRank) {
    return Refused("ResizeDim", absl::StrCat("to rank ", rank, "; 0 to ", TensorShape::kMaxRank, " are possible"));
  }
  DimVector sizes(dims().begin(), dims().end());
  DimVector steps(strides().begin(), strides().end());
  sizes.resize(static_cast<size_t>(rank));
  steps.resize(static_cast<size_t>(rank));
  return Create(sizes, steps, offset_);
}

}  // namespace tensorcask
