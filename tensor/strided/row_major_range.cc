#include "tensorcask/tensor/strided/row_major_range.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"

namespace tensorcask {
namespace {

// A slice of a window: `count` indices of `axis` from `index` on, and all of the axes after it.
template <typename Byte>
struct Box {
  Layout layout;
  Byte* base;
};

template <typename Byte>
Box<Byte> BoxOf(const ElementWindow<Byte>& window, size_t element_bytes, const DimVector& index, int axis,
                int64_t count) {
  int64_t number = window.layout.offset();
  for (size_t i = 0; i < index.size(); ++i) number += index[i] * window.layout.strides()[i];
  DimVector dims(window.layout.dims().begin() + axis, window.layout.dims().end());
  const absl::Span<const int64_t> strides = window.layout.strides().subspan(static_cast<size_t>(axis));
  dims[0] = count;
  // With negative steps there are elements before the first one. The base is the lowest address, since memory before it
  // may not exist.
  int64_t back = 0;
  for (size_t i = 0; i < dims.size(); ++i) back -= std::min<int64_t>(0, (dims[i] - 1) * strides[i]);
  absl::StatusOr<Layout> layout = Layout::Create(dims, strides, back);
  CASK_CHECK(layout.ok(), "CopyRange: a box of a layout is a layout");
  const int64_t lowest = number - back - window.first_number;
  return {*std::move(layout), window.data + lowest * static_cast<int64_t>(element_bytes)};
}

}  // namespace

int64_t ElementNumber(const Layout& layout, int64_t position) {
  int64_t number = layout.offset();
  for (int axis = layout.rank(); axis-- > 0;) {
    number += position % layout.dim(axis) * layout.stride(axis);
    position /= layout.dim(axis);
  }
  return number;
}

void CopyRange(DType dtype, const ElementWindow<const char>& from, const ElementWindow<char>& to, int64_t begin,
               int64_t end) {
  CASK_CHECK(from.layout.dims() == to.layout.dims(), "CopyRange: the dims differ");
  CASK_CHECK(begin >= 0 && begin <= end && end <= to.layout.num_elements(), "CopyRange: the range is outside");
  if (begin == end) return;
  const auto element_bytes = static_cast<int64_t>(ElementSize(dtype));
  const int rank = to.layout.rank();
  if (rank == 0) {
    const char* const source = from.data + (from.layout.offset() - from.first_number) * element_bytes;
    std::memcpy(to.data + (to.layout.offset() - to.first_number) * element_bytes, source, ElementSize(dtype));
    return;
  }
  internal::CopyStridedOptions options;
  options.fresh = false;
  const absl::Span<const int64_t> dims = to.layout.dims();
  DimVector index(dims.size());
  for (int64_t axis = rank, rest = begin; axis-- > 0; rest /= dims[axis]) index[axis] = rest % dims[axis];
  for (int64_t position = begin; position < end;) {
    // The outermost axis of which a whole step begins here and fits into the rest.
    int axis = rank - 1;
    int64_t step = 1;
    while (axis > 0 && index[axis] == 0 && step * dims[axis] <= end - position) step *= dims[axis--];
    const int64_t count = std::min(dims[axis] - index[axis], (end - position) / step);
    const Box<const char> source = BoxOf(from, ElementSize(dtype), index, axis, count);
    const Box<char> target = BoxOf(to, ElementSize(dtype), index, axis, count);
    internal::CopyStrided(dtype, source.base, source.layout, target.base, target.layout, options);
    position += count * step;
    index[axis] += count;
    for (; axis > 0 && index[axis] == dims[axis]; --axis) {
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

void CopyRowMajorRange(const TensorView& view, int64_t first, absl::Span<char> out) {
  if (out.empty()) return;
  const Layout dense = Layout::RowMajor(view.shape());
  CopyRange(view.dtype(), {view.layout(), static_cast<const char*>(view.buffer()->data())}, {dense, out.data(), first},
            first, first + static_cast<int64_t>(out.size() / view.element_size()));
}

}  // namespace tensorcask
