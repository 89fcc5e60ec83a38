// A picture of where the elements of a layout lie in memory, for people.
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
// A cell is the place of one element; the number in front of a row is that of its first cell. A cell shows the index of
// its element: `1,0` is element (1, 0), `()` the one of a scalar. `0,1 x3` is a cell with three elements, of which
// (0, 1) has the smallest index; `.` a cell without. Rows are as long as one of the strides if that fits the line, so
// that axes stand as columns. Rows without elements are left out, with a count of their cells: `: 8 cells`.
//
// The time and the length of the text are bounded whatever the layout: of one with more than max_elements places, the
// ones in the lowest memory are drawn, and a line says which.

#ifndef TENSORCASK_TENSOR_STRIDED_DRAW_H_
#define TENSORCASK_TENSOR_STRIDED_DRAW_H_

#include <string>

#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct DrawOptions {
  int max_elements = 256;  // drawn; those that repeat one along an axis of stride 0 count as one. At least 1
  int max_columns = 100;   // of a line of cells, if one cell fits
};

// Without a trailing line end.
std::string DrawLayout(const Layout& layout, const DrawOptions& options = {});
// The same; the last row ends with the buffer and not with the last element.
std::string DrawLayout(const TensorView& view, const DrawOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_DRAW_H_
