// A mapping of names to arrays, as an argument.

#ifndef TENSORCASK_PYTHON_SRC_NAMED_ARRAYS_H_
#define TENSORCASK_PYTHON_SRC_NAMED_ARRAYS_H_

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/copy_memory.h"
#include "tensorcask/python/src/writer.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::python {

struct NamedArray {
  std::string name;
  PinnedTensor tensor;
};

// Throws TypeError for another object than a mapping of names to arrays.
std::vector<NamedArray> FromNamedArrays(nanobind::handle tensors, Access access);

// Memory for the copies that AsItIsNow makes of these arrays.
RefPtr<Allocator> MemoryForCopies(const std::vector<NamedArray>& arrays, const CopyMemory& memory);

// The elements for work that goes on when the call of Python has returned: a copy of memory of Python, which may change
// then. Tensors of the library need no copy before they are written to. Needs no GIL. Errors: those of a copy.
absl::StatusOr<TensorView> AsItIsNow(const NamedArray& array, const RefPtr<Allocator>& memory);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_NAMED_ARRAYS_H_
