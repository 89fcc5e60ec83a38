// Construction, copies and properties of layouts. Views of them are in layout_views.cc and layout_shape_views.cc.

#include "tensorcask/tensor/strided/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/internal/layout_util.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask {
namespace {

constexpr int64_t kLargest = INT64_MAX;

std::string InBrackets(absl::Span<const int64_t> numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
}

std::string Describe(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset) {
  return absl::StrCat(InBrackets(dims), " strides ", InBrackets(strides), " offset ", offset);
}

// True for strides of a channels-last layout, also with sizes of 1. Breaks ties as PyTorch's is_channels_last_strides
// does, so that the answer is the same from one operation to the next.
bool LooksLikeChannelsLast(const Layout& layout, MemoryFormat format) {
  const absl::Span<const int> order = ChannelsLastOrder(format);
  if (layout.rank() != static_cast<int>(order.size()) || layout.stride(1) == 0) return false;
  int64_t least = 0;
  for (const int axis : order) {
    if (layout.dim(axis) == 0 || layout.stride(axis) < least) return false;
    // [N,1,1,1] with equal strides: row-major, or a slice of it along the last axis.
    if (axis == 0 && least == layout.stride(1)) return false;
    least = CheckedMul(layout.stride(axis), layout.dim(axis)).value_or(kLargest);
  }
  return true;
}

}  // namespace

// ---- Making ---------------------------------------------------------------------------------------------------------

Layout::Layout(int rank) {
  BecomeEmptyVector();
  inline_[kInlineRank] = 0;
  rank_ = rank;
  if (!is_inline()) heap_ = new int64_t[2 * static_cast<size_t>(rank)]();
}

void Layout::CloneHeap() {
  const size_t words = 2 * static_cast<size_t>(rank_);
  const int64_t* const other = heap_;
  heap_ = new int64_t[words];
  std::copy_n(other, words, heap_);
}

void Layout::FreeHeap() { delete[] heap_; }

Layout& Layout::operator=(const Layout& other) {
  if (is_inline() && other.is_inline()) {
    CopyFrom(other);
  } else if (this != &other) {
    *this = Layout(other);
  }
  return *this;
}

Layout Layout::RowMajor(const TensorShape& shape) {
  Layout layout(shape.rank());
  int64_t* const dims = layout.mutable_dims();
  int64_t* const strides = layout.mutable_strides();
  int64_t inner = 1;  // does not overflow: TensorShape checks the product
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    dims[axis] = shape.dim(axis);
    strides[axis] = inner;
    inner *= std::max(dims[axis], int64_t{1});
  }
  layout.num_elements_ = shape.num_elements();
  return layout;
}

absl::Status Layout::CheckGeometry(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset) {
  bool good = dims.size() == strides.size() && dims.size() <= size_t{TensorShape::kMaxRank} && offset >= 0;
  int64_t nonzero_elements = 1;
  bool empty = false;
  for (size_t axis = 0; good && axis < dims.size(); ++axis) {
    const int64_t dim = dims[axis];
    good = dim >= 0 && !__builtin_mul_overflow(nonzero_elements, dim == 0 ? 1 : dim, &nonzero_elements);
    empty = empty || dim == 0;
  }
  // Two sums, for negative and for positive strides: steps back on one axis do not compensate for steps forward on
  // another.
  int64_t lowest = offset;
  int64_t highest = offset;
  for (size_t axis = 0; good && !empty && axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    int64_t& side = strides[axis] < 0 ? lowest : highest;
    int64_t reach;
    good =
        !__builtin_mul_overflow(strides[axis], dims[axis] - 1, &reach) && !__builtin_add_overflow(side, reach, &side);
  }
  good = good && (empty || (lowest >= 0 && highest < kLargest));
  return good ? absl::OkStatus() : BadGeometry(dims, strides, offset);
}

absl::Status Layout::BadGeometry(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset) {
  if (dims.size() != strides.size()) {
    return absl::InvalidArgumentError(absl::StrCat("layout: ", dims.size(), " dims and ", strides.size(), " strides"));
  }
  CASK_RETURN_IF_ERROR(internal::CheckDims(dims));
  if (offset < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout ", Describe(dims, strides, offset), ": the offset is negative"));
  }
  std::optional<int64_t> lowest = offset;
  std::optional<int64_t> highest = offset;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    const std::optional<int64_t> reach = CheckedMul(strides[axis], dims[axis] - 1);
    std::optional<int64_t>& side = strides[axis] < 0 ? lowest : highest;
    side = reach && side ? CheckedAdd(*side, *reach) : std::nullopt;
    if (!side || *side == kLargest) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout ", Describe(dims, strides, offset), ": at axis ", axis, " positions exceed 2^63-1"));
    }
    if (*side < 0) {
      return absl::InvalidArgumentError(absl::StrCat("layout ", Describe(dims, strides, offset), ": at axis ", axis,
                                                     " an element is at position ", *side));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("layout ", Describe(dims, strides, offset), ": an element is at position 2^63-1"));
}

absl::StatusOr<Layout> Layout::Create(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                      int64_t offset) {
  return Edited(Layout(), [&](Layout& layout) { return layout.EditAsStrided(dims, strides, offset); });
}

absl::Status Layout::EditAsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset) {
  CASK_RETURN_IF_ERROR(CheckGeometry(dims, strides, offset));
  SetGeometry(static_cast<int>(dims.size()), dims.data(), strides.data());
  offset_ = offset;
  CountElements();
  return absl::OkStatus();
}

absl::StatusOr<DimVector> Layout::FillStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides) {
  if (dims.size() != strides.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("FillStrides: ", dims.size(), " dims and ", strides.size(), " strides"));
  }
  DimVector filled(strides.begin(), strides.end());
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (filled[axis] >= 0) continue;
    const bool last = axis + 1 == dims.size();
    const std::optional<int64_t> dense =
        last ? int64_t{1} : CheckedMul(filled[axis + 1], std::max(dims[axis + 1], int64_t{1}));
    if (!dense) {
      return absl::InvalidArgumentError(absl::StrCat("FillStrides: the stride of axis ", axis,
                                                     " exceeds 2^63-1 in dims ", InBrackets(dims), " strides ",
                                                     InBrackets(strides)));
    }
    filled[axis] = *dense;
  }
  return filled;
}

// ---- What it is -----------------------------------------------------------------------------------------------------

void Layout::NoSuchAxis(int axis) const {
  const std::string message = absl::StrCat("dim or stride: axis ", axis, " is outside the layout ", ToString());
  internal::CheckFailed(__FILE__, __LINE__, "-rank() <= axis && axis < rank()", message.c_str());
}

TensorShape Layout::shape() const { return TensorShape(internal::TensorShapeRep(dims(), num_elements_)); }

Layout::Range Layout::bounds() const {
  if (num_elements_ == 0) return {0, 0};
  Range range = {offset_, offset_ + 1};
  const absl::Span<const int64_t> sizes = dims();
  const absl::Span<const int64_t> steps = strides();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    (steps[axis] < 0 ? range.begin : range.end) += (sizes[axis] - 1) * steps[axis];
  }
  return range;
}

bool Layout::IsContiguous(MemoryFormat format) const {
  const int64_t* const sizes = data();
  const int64_t* const steps = sizes + strides_at();
  int64_t inner = 1;
  if (format == MemoryFormat::kContiguous) {
    if (num_elements_ == 0) return true;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      if (sizes[axis] == 1) continue;
      if (steps[axis] != inner) return false;
      inner *= sizes[axis];
    }
    return true;
  }
  if (format == MemoryFormat::kPreserve) return IsNonOverlappingAndDense();
  const absl::Span<const int> order = ChannelsLastOrder(format);
  if (static_cast<int>(order.size()) != rank_) return false;
  for (const int axis : order) {  // also without elements, as in PyTorch
    if (sizes[axis] == 1) continue;
    if (steps[axis] != inner) return false;
    inner *= sizes[axis];
  }
  return true;
}

MemoryFormat Layout::SuggestMemoryFormat() const {
  for (const MemoryFormat format : {MemoryFormat::kChannelsLast2d, MemoryFormat::kChannelsLast3d}) {
    if (LooksLikeChannelsLast(*this, format)) return format;
  }
  return MemoryFormat::kContiguous;
}

absl::StatusOr<Layout> Layout::Dense(MemoryFormat format) const {
  if (format == MemoryFormat::kPreserve && !IsNonOverlappingAndDense()) return DenseInSameOrder();
  Layout dense = *this;
  dense.offset_ = 0;
  int64_t* const steps = dense.mutable_strides();
  if (format == MemoryFormat::kPreserve) {
    // The analyzer loses sight of the destructor. NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
    for (int axis = 0; axis < rank_; ++axis) {
      if (data()[axis] > 1 && num_elements_ > 0) steps[axis] = std::abs(steps[axis]);
    }
    return dense;
  }
  CASK_ASSIGN_OR_RETURN(const DimVector strides, CanonicalStrides(dims(), format));
  std::copy(strides.begin(), strides.end(), steps);
  return dense;
}

// The same steps as PyTorch's infer_dense_strides: of two axes of equal stride, or of stride 0, its sorting algorithm
// decides which one is inside.
Layout Layout::DenseInSameOrder() const {
  const auto magnitude = [this](int axis) { return std::abs(std::max(stride(axis), -kLargest)); };
  absl::InlinedVector<int, 8> order(static_cast<size_t>(rank_));  // innermost first
  for (size_t i = 0; i < order.size(); ++i) order[i] = rank_ - 1 - static_cast<int>(i);
  const auto goes_outside = [&](int a, int b) {  // > 0: axis a lies outside axis b; 0: cannot tell
    const int64_t step_a = magnitude(a);
    const int64_t step_b = magnitude(b);
    if (step_a == 0 || step_b == 0) return 0;
    if (step_a != step_b) return step_a < step_b ? -1 : 1;
    return dim(a) > dim(b) ? 1 : 0;
  };
  for (size_t i = 1; i < order.size(); ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int comparison = goes_outside(order[j], order[moving]);
      if (comparison < 0) break;
      if (comparison > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      }
    }
  }
  Layout dense = *this;
  dense.offset_ = 0;
  int64_t inner = 1;
  for (const int axis : order) {
    dense.mutable_strides()[axis] = inner;
    inner *= std::max(dim(axis), int64_t{1});
  }
  return dense;
}

bool Layout::IsDenseRowMajor(MemoryFormat format) const {
  if (format != MemoryFormat::kPreserve) return format == MemoryFormat::kContiguous;
  bool is_row_major = true;
  bool is_in_order = true;
  int64_t inner = 1;
  int64_t least = 0;
  for (int axis = rank_ - 1; axis >= 0; --axis) {
    const int64_t step = data()[strides_at() + axis];
    is_row_major = is_row_major && step == inner;
    inner *= std::max(data()[axis], int64_t{1});
    is_in_order = is_in_order && step > least;
    least = step;
  }
  return is_row_major || (is_in_order && !IsNonOverlappingAndDense());
}

std::string Layout::ToString() const { return Describe(dims(), strides(), offset_); }

std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.ToString(); }

bool operator==(const Layout& a, const Layout& b) {
  return a.offset_ == b.offset_ && a.dims() == b.dims() && a.strides() == b.strides();
}

absl::StatusOr<TensorShape> BroadcastShapes(const TensorShape& a, const TensorShape& b) {
  const int rank = std::max(a.rank(), b.rank());
  DimVector dims(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank());
    const int in_b = axis - (rank - b.rank());
    const int64_t size_a = in_a < 0 ? 1 : a.dim(in_a);
    const int64_t size_b = in_b < 0 ? 1 : b.dim(in_b);
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      return absl::InvalidArgumentError(absl::StrCat("broadcast of ", a.ToString(), " and ", b.ToString(), ": at axis ",
                                                     axis, " of the result one has ", size_a, ", the other ", size_b));
    }
    dims[static_cast<size_t>(axis)] = size_a == 1 ? size_b : size_a;
  }
  return TensorShape::Create(dims);
}

}  // namespace tensorcask
