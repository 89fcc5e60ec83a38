// The values of a file as objects of Python, with the tensors among them.

#ifndef TENSORCASK_PYTHON_SRC_NESTED_OBJECTS_H_
#define TENSORCASK_PYTHON_SRC_NESTED_OBJECTS_H_

#include <nanobind/nanobind.h>

#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask::python {

// What ArchiveReader::Values() has, nested as in the file: dict, list, tuple, set, str, bytes, numbers and None. A
// tensor is what read(name) returns. Tensors that are not among the values are entries of the dict that is returned. An
// object of a class that is not known is a tensorcask.OpaqueObject. Throws what `read` throws; InvalidArgumentError if
// a tensor and a value have one name.
nanobind::object NestedValues(const ArchiveReader& archive, nanobind::handle read);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_NESTED_OBJECTS_H_
