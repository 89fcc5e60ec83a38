// Views of a layout under other dims, and of its elements as others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/layout_internal.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask {
namespace {

using internal::StrideTimes;
using internal::WrapAxis;

// The strides with which `to`, of as many elements as `from` and more than none, has from's elements in from's order;
// false if there are none. Walks both from the last axis: runs of old axes that continue one another are chunks, and
// each must be made up of new axes exactly. PyTorch's computeStride, so that axes of size 1 get its strides, too.
bool ViewStrides(const Layout& from, absl::Span<const int64_t> to, int64_t* strides) {
  if (from.rank() == 0) {
    std::fill_n(strides, to.size(), 1);
    return true;
  }
  int64_t chunk_stride = from.stride(from.rank() - 1);
  int64_t chunk_elements = 1;
  int64_t done_elements = 1;  // of the chunk, in new axes
  size_t next = to.size();    // new axes before this one are to do
  for (int axis = from.rank() - 1; axis >= 0; --axis) {
    chunk_elements *= from.dim(axis);
    const bool continues =
        axis > 0 && (from.dim(axis - 1) == 1 || CheckedMul(chunk_elements, chunk_stride) == from.stride(axis - 1));
    if (continues) continue;
    while (next > 0 && (done_elements < chunk_elements || to[next - 1] == 1)) {
      --next;
      strides[next] = StrideTimes(chunk_stride, done_elements);
      done_elements *= to[next];
    }
    if (done_elements != chunk_elements) return false;
    if (axis > 0) chunk_stride = from.stride(axis - 1);
    chunk_elements = done_elements = 1;
  }
  return next == 0;
}

// Multiplies the first strides of `layout`, which `strides` holds; false if one overflows along which elements lie.
bool ScaleStrides(const Layout& layout, int64_t factor, DimVector* strides) {
  for (size_t i = 0; i < strides->size(); ++i) {
    const std::optional<int64_t> scaled = CheckedMul((*strides)[i], factor);
    if (!scaled && layout.num_elements() > 0 && layout.dims()[i] > 1) return false;
    if (scaled) (*strides)[i] = *scaled;
  }
  return true;
}

}  // namespace

// ---- Shape ----------------------------------------------------------------------------------------------------------

absl::Status Layout::InferDims(absl::Span<const int64_t> dims, DimVector* result) const {
  const auto wanted = [&] { return absl::StrCat("the dims [", absl::StrJoin(dims, ","), "]"); };
  if (dims.size() > size_t{TensorShape::kMaxRank}) return internal::CheckDims(dims);
  result->assign(dims.begin(), dims.end());
  const auto unknown = std::find(result->begin(), result->end(), -1);
  const bool infers = unknown != result->end();
  if (infers) *unknown = 1;
  if (infers && std::find(unknown + 1, result->end(), -1) != result->end()) {
    return Refused("Reshape", absl::StrCat(wanted(), " leave more than one open"));
  }
  CASK_RETURN_IF_ERROR(internal::CheckDims(*result));
  int64_t elements = 1;
  for (const int64_t dim : *result) elements *= dim;
  if (!infers) {
    if (elements == num_elements_) return absl::OkStatus();
    return Refused("Reshape", absl::StrCat(wanted(), " have ", elements, " elements, not ", num_elements_));
  }
  if (elements == 0) {
    return Refused("Reshape", absl::StrCat(wanted(), " leave open what -1 is, as a 0 stands beside it"));
  }
  *unknown = num_elements_ / elements;
  if (*unknown * elements == num_elements_) return absl::OkStatus();
  return Refused("Reshape", absl::StrCat(wanted(), ": ", num_elements_, " elements are no multiple of ", elements));
}

absl::StatusOr<TensorShape> Layout::InferShape(absl::Span<const int64_t> dims) const {
  DimVector inferred;
  CASK_RETURN_IF_ERROR(InferDims(dims, &inferred));
  return TensorShape::Create(inferred);
}

absl::StatusOr<Layout> Layout::Reshape(absl::Span<const int64_t> dims) const {
  DimVector inferred;
  CASK_RETURN_IF_ERROR(InferDims(dims, &inferred));
  if (num_elements_ == 0 && absl::MakeConstSpan(inferred) == this->dims()) return *this;
  Layout result(static_cast<int>(inferred.size()));
  std::copy(inferred.begin(), inferred.end(), result.mutable_dims());
  result.offset_ = offset_;
  result.num_elements_ = num_elements_;
  if (num_elements_ == 0) {
    CASK_ASSIGN_OR_RETURN(const DimVector strides, CanonicalStrides(inferred, MemoryFormat::kContiguous));
    std::copy(strides.begin(), strides.end(), result.mutable_strides());
  } else if (!ViewStrides(*this, inferred, result.mutable_strides())) {
    return Refused("Reshape", absl::StrCat("no strides give its order to the dims [", absl::StrJoin(inferred, ","),
                                           "], only a copy can"));
  }
  return result;
}

absl::StatusOr<Layout> Layout::Flatten(int64_t first, int64_t last) const {
  const int begin = WrapAxis(first, std::max(rank_, 1));
  const int end = WrapAxis(last, std::max(rank_, 1));
  if (begin < 0) return BadAxis("Flatten", first);
  if (end < 0) return BadAxis("Flatten", last);
  if (begin > end) return Refused("Flatten", absl::StrCat("the first axis, ", begin, ", comes after the last, ", end));
  if (rank_ == 0) return Reshape({1});
  if (begin == end) return *this;
  DimVector shape(dims().begin(), dims().begin() + begin + 1);
  for (int axis = begin + 1; axis <= end; ++axis) shape.back() *= dim(axis);
  shape.insert(shape.end(), dims().begin() + end + 1, dims().end());
  return Reshape(shape);
}

absl::Status Layout::EditSqueeze(int64_t axis) {
  const int at = WrapAxis(axis, std::max(rank_, 1));
  if (at < 0) return BadAxis("Squeeze", axis);
  if (rank_ > 0 && dim(at) == 1) RemoveAxis(at);
  return absl::OkStatus();
}

Layout Layout::Squeeze() const {
  const auto kept = std::count_if(dims().begin(), dims().end(), [](int64_t size) { return size != 1; });
  Layout result(static_cast<int>(kept));
  result.offset_ = offset_;
  result.num_elements_ = num_elements_;
  int next = 0;
  for (int axis = 0; axis < rank_; ++axis) {
    if (dim(axis) == 1) continue;
    result.mutable_dims()[next] = dim(axis);
    result.mutable_strides()[next++] = stride(axis);
  }
  return result;
}

absl::Status Layout::EditUnsqueeze(int64_t axis) {
  const int at = WrapAxis(axis, rank_ + 1);
  if (at < 0) {
    return Refused("Unsqueeze", absl::StrCat("axis ", axis, " is outside [", -rank_ - 1, ", ", rank_, "]"));
  }
  if (rank_ == TensorShape::kMaxRank) return Refused("Unsqueeze", "no rank is left");
  InsertAxis(at, 1, at == rank_ ? 1 : StrideTimes(stride(at), dim(at)));
  return absl::OkStatus();
}

absl::StatusOr<Layout> Layout::Expand(absl::Span<const int64_t> dims) const {
  const int more = static_cast<int>(std::min(dims.size(), size_t{TensorShape::kMaxRank} + 1)) - rank_;
  const auto wanted = [&] { return absl::StrCat("to the dims [", absl::StrJoin(dims, ","), "]"); };
  if (dims.size() > size_t{TensorShape::kMaxRank} || more < 0) {
    return Refused("Expand",
                   absl::StrCat("to rank ", dims.size(), "; ", rank_, " to ", TensorShape::kMaxRank, " are possible"));
  }
  Layout result(more + rank_);
  result.offset_ = offset_;
  int64_t* const sizes = result.mutable_dims();
  int64_t* const steps = result.mutable_strides();
  for (int i = result.rank_ - 1; i >= 0; --i) {
    const int axis = i - more;
    const int64_t target = dims[static_cast<size_t>(i)];
    if (axis < 0) {
      if (target < 0) {
        return Refused("Expand", absl::StrCat(wanted(), ": ", target, " for the new axis ", i));
      }
      sizes[i] = target;
      // A new axis of size 1 continues those behind it, as Unsqueeze would; of a scalar PyTorch makes it 0.
      steps[i] = target == 1 && rank_ > 0 ? CheckedMul(sizes[i + 1], steps[i + 1]).value_or(0) : 0;
      continue;
    }
    const int64_t size = dim(axis);
    if (target != -1 && target != size && (size != 1 || target < 0)) {
      return Refused("Expand",
                     absl::StrCat(wanted(), ": ", target, " for axis ", i, " of the result, which has ", size));
    }
    const bool repeats = target != -1 && target != size;
    sizes[i] = repeats ? target : size;
    steps[i] = repeats ? 0 : stride(axis);
  }
  CASK_RETURN_IF_ERROR(internal::CheckDims(result.dims()));
  result.CountElements();
  return result;
}

absl::StatusOr<Layout> Layout::BroadcastTo(const TensorShape& shape) const { return Expand(shape.dims()); }

// ---- Geometry of other elements, or any -----------------------------------------------------------------------------

absl::StatusOr<Layout> Layout::Bitcast(int64_t from_bytes, int64_t to_bytes) const {
  const auto refused = [&](const auto&... why) {
    return Refused("Bitcast", absl::StrCat("from ", from_bytes, " to ", to_bytes, " bytes: ", why...));
  };
  if (from_bytes <= 0 || to_bytes <= 0) return refused("elements have at least 1");
  if (from_bytes == to_bytes) return *this;
  if (from_bytes % to_bytes != 0 && to_bytes % from_bytes != 0) return refused("neither is a multiple of the other");
  if (rank_ == 0) return refused("a scalar has no axis to grow or shrink");
  const int last = rank_ - 1;
  if (stride(last) != 1) return refused("the stride of the last axis is ", stride(last), ", not 1");
  DimVector sizes(dims().begin(), dims().end());
  DimVector steps(strides().begin(), strides().end());
  if (from_bytes > to_bytes) {
    const int64_t ratio = from_bytes / to_bytes;
    const std::optional<int64_t> size = CheckedMul(sizes.back(), ratio);
    const std::optional<int64_t> offset = CheckedMul(offset_, ratio);
    if (!size || !offset) return refused("its size passes 2^63-1");
    sizes.back() = *size;
    steps.pop_back();
    if (!ScaleStrides(*this, ratio, &steps)) return refused("a stride passes 2^63-1");
    steps.push_back(1);
    return Create(sizes, steps, *offset);
  }
  const int64_t ratio = to_bytes / from_bytes;
  if (sizes.back() % ratio != 0)
    return refused("the size of the last axis, ", sizes.back(), ", is no multiple of ", ratio);
  if (offset_ % ratio != 0) return refused("the offset, ", offset_, ", is no multiple of ", ratio);
  sizes.back() /= ratio;
  for (int axis = 0; axis < last; ++axis) {
    int64_t& step = steps[static_cast<size_t>(axis)];
    if (step % ratio != 0) return refused("the stride of axis ", axis, ", ", step, ", is no multiple of ", ratio);
    step /= ratio;
  }
  return Create(sizes, steps, offset_ / ratio);
}

absl::StatusOr<Layout> Layout::ViewAsReal() const {
  const std::optional<int64_t> offset = CheckedMul(offset_, 2);
  DimVector sizes(dims().begin(), dims().end());
  DimVector steps(strides().begin(), strides().end());
  if (!offset || !ScaleStrides(*this, 2, &steps)) return Refused("ViewAsReal", "its offset or a stride passes 2^63-1");
  sizes.push_back(2);
  steps.push_back(1);
  return Create(sizes, steps, *offset);
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

absl::StatusOr<Layout> Layout::AsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                         std::optional<int64_t> offset) const {
  return Create(dims, strides, offset.value_or(offset_));
}

absl::StatusOr<Layout> Layout::SetDimsAndStrides(absl::Span<const int64_t> dims,
                                                 absl::Span<const int64_t> strides) const {
  CASK_ASSIGN_OR_RETURN(const DimVector filled, FillStrides(dims, strides));
  return Create(dims, filled, offset_);
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
