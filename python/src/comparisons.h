// tensorcask.diff and stats.

#ifndef TENSORCASK_PYTHON_SRC_COMPARISONS_H_
#define TENSORCASK_PYTHON_SRC_COMPARISONS_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineComparisons(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_COMPARISONS_H_
