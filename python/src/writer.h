// tensorcask.save and tensorcask.Writer.

#ifndef TENSORCASK_PYTHON_SRC_WRITER_H_
#define TENSORCASK_PYTHON_SRC_WRITER_H_

#include <nanobind/nanobind.h>

#include <string>

#include "tensorcask/python/src/arrays.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::python {

// An argument that is a tensor, kept where it is while it is written without the GIL.
struct PinnedTensor {
  TensorView view;
  RefPtr<RefCounted> pin;
};
PinnedTensor FromTensorArgument(nanobind::handle object, const std::string& name, Access access = Access::kRead);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_WRITER_H_
