// Dtypes of tensors as those of NumPy, and back.

#ifndef TENSORCASK_PYTHON_SRC_NUMPY_DTYPES_H_
#define TENSORCASK_PYTHON_SRC_NUMPY_DTYPES_H_

#include <nanobind/nanobind.h>

#include <optional>

#include "tensorcask/tensor/dtype.h"

namespace tensorcask::python {

// The module numpy.
nanobind::object Numpy();
// A module that the program has imported already, else None.
nanobind::object ImportedModule(const char* name);

// numpy.dtype for the elements: of bfloat16, float8 and integers below 8 bits that of ml_dtypes if the program has
// imported it, else an integer of the same width; of strings object. Throws UnimplementedError for resources and
// variants.
nanobind::object ToNumpyDType(DType dtype);

// What the elements of a numpy.ndarray are.
struct NumpyElements {
  std::optional<DType> dtype;     // of ours; empty: there is none
  bool is_text = false;           // kinds S, U, T and O: dtype is kString
  bool is_swapped = false;        // big-endian: must be converted
  const char* carrier = nullptr;  // numpy's name of the integers that have the same bytes, for dtypes of ml_dtypes
  DType carrier_dtype = DType::kInvalid;
};
NumpyElements FromNumpyDType(nanobind::handle dtype);

// Of a name ("bfloat16"), a numpy.dtype or a class of NumPy's. Throws InvalidArgumentError.
DType FromDTypeArgument(nanobind::handle dtype);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_NUMPY_DTYPES_H_
