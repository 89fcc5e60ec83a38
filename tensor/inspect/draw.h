// Draws the positions of a layout's elements in memory as text.
//
//   DrawLayout(*TensorView(Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})).Transpose(0, 1))
//
//   float32 [3,2] strides [1,3] offset 0: 6 elements in 6 of 6 cells, 4 bytes each
//     +-----+-----+-----+
//   0 | 0,0 | 1,0 | 2,0 |
//     +-----+-----+-----+
//   3 | 0,1 | 1,1 | 2,1 |
//     +-----+-----+-----+
//
// A cell is the position of one element; the number before a row is the position of its first cell. A cell shows the
// index of its element: `1,0` is element (1, 0), `()` the element of a scalar. `0,1 x3` is a cell with three elements,
// of which (0, 1) has the smallest index; `.` is a cell without an element. Rows are as long as one of the strides if
// that fits the line, so that axes appear as columns. Rows without elements are left out, with a count of their cells:
// `: 8 cells`.
//
// Time and length are bounded for every layout: if there are more than max_elements positions, only the lowest ones are
// drawn, and a line says so.

#ifndef TENSORCASK_TENSOR_INSPECT_DRAW_H_
#define TENSORCASK_TENSOR_INSPECT_DRAW_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>

#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct DrawOptions {
  int max_elements = 256;  // elements drawn, at least 1; repetitions along an axis of stride 0 count as one
  int max_columns = 100;   // length of a line of cells, if one cell fits
};

// Without a trailing line end.
std::string DrawLayout(const Layout& layout, const DrawOptions& options = {});
// The same; the last row ends with the buffer and not with the last element.
std::string DrawLayout(const TensorView& view, const DrawOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INSPECT_DRAW_H_
