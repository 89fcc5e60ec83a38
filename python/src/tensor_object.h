// tensorcask.Tensor: the strided view engine in Python.

#ifndef TENSORCASK_PYTHON_SRC_TENSOR_OBJECT_H_
#define TENSORCASK_PYTHON_SRC_TENSOR_OBJECT_H_

#include <nanobind/nanobind.h>

#include <vector>

#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/compat/axis_index.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::python {

// The view of a tensorcask.Tensor; null for other objects.
const TensorView* TensorOf(nanobind::handle object);

// Keeps the elements readable where they are now, if the view moves to other memory meanwhile.
RefPtr<RefCounted> PinMemory(const TensorView& view);

nanobind::object ToTensorObject(const TensorView& view);

// The index between brackets: integers, slices and one ellipsis, for a tensor of this rank. Throws TypeError and
// IndexError.
std::vector<AxisIndex> FromIndex(nanobind::handle index, int rank);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_TENSOR_OBJECT_H_
