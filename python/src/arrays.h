// Tensors as arrays of NumPy and back, without a copy.

#ifndef TENSORCASK_PYTHON_SRC_ARRAYS_H_
#define TENSORCASK_PYTHON_SRC_ARRAYS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::python {

// A numpy.ndarray on the memory of `view`, which it keeps alive: read-only if the memory must not be written in place
// (a mapped file, memory that other tensors share). Strings become an array of bytes objects, which is a copy.
nanobind::object ToNumpy(const TensorView& view);

enum class Access {
  kRead,      // elements on a GPU are copied to the host
  kReadHere,  // elements on a GPU of NVIDIA stay there, row-major
  kSnapshot,  // the same, as they are now: the array may change afterwards. Those of the host are not copied
  kWrite,     // on the host or a GPU of NVIDIA. All elements will be written before one is read
};

// The elements of any object that has DLPack, the buffer protocol or __array__, or of a tensorcask.Tensor. The view
// keeps the object alive. Copies only what no strides express: big-endian and misaligned elements, text, and booleans
// with other bytes than 0 and 1. `what` names the object in errors: tensor "w". Copies on a GPU are made by the array's
// library, in its own memory; what does not fit there is copied to the host.
// Throws TypeError for an object of another kind or with a dtype that tensors cannot have; with kWrite ValueError for
// read-only memory, and for elements that would have to be copied.
TensorView FromPython(nanobind::handle object, const std::string& what, Access access = Access::kRead);

// The same for an array that ToNumpy made, or a part of one, as a view of the tensor's own buffer: its memory can be
// shared with another process (TensorBuffer::file_range). Empty for all other objects.
std::optional<TensorView> OwnMemoryOf(nanobind::handle array);

nanobind::tuple ToTuple(absl::Span<const int64_t> numbers);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_ARRAYS_H_
