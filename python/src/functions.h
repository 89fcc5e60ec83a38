// tensorcask.verify, convert, diff, stats and salvage.

#ifndef TENSORCASK_PYTHON_SRC_FUNCTIONS_H_
#define TENSORCASK_PYTHON_SRC_FUNCTIONS_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineFunctions(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_FUNCTIONS_H_
