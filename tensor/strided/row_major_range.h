// Copies elements [begin, end) of a tensor, counted in row-major order, for any strides.
//
//   CopyRowMajorRange(view, 1000, out);          // elements 1000, 1001, ... of any view, dense, as many as fill `out`
//   CopyRange(dtype, {part, chunk, 4096}, {out->layout(), data}, 10, 20);
//
// The second is for who has only a window of the elements: a chunk whose first element is number 4096 of the whole, of
// which `part` is a slice. A range is a few boxes (at most two for each axis), and each is copied as copy_strided.h
// does it, so that neither rank nor steps cost anything for each element.

#ifndef TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_RANGE_H_
#define TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_RANGE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// The number, in memory, of the element that row-major order has at `position`. Requires: 0 <= position < elements.
int64_t ElementNumber(const Layout& layout, int64_t position);

// A layout over memory that starts with its element number `first_number`; `Byte` is char or const char.
template <typename Byte>
struct ElementWindow {
  const Layout& layout;
  Byte* data;
  int64_t first_number = 0;
};

// Assigns elements [begin, end) of `to`, counted in row-major order, from those of equal index of `from`. Requires: a
// dtype of fixed size; equal dims; 0 <= begin <= end <= elements; the numbers of these elements are in both windows;
// no two indices of `to` name one element; no element of one side lies in one of the other.
void CopyRange(DType dtype, const ElementWindow<const char>& from, const ElementWindow<char>& to, int64_t begin,
               int64_t end);

// Elements of `view` from `first` on, counted in row-major order. Requires: a dtype of fixed size; a buffer with data;
// the elements are there; out.size() is a multiple of the element's.
void CopyRowMajorRange(const TensorView& view, int64_t first, absl::Span<char> out);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_RANGE_H_
