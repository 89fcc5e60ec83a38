// tensorcask.report, and the tables of readers in notebooks.

#ifndef TENSORCASK_PYTHON_SRC_REPORT_H_
#define TENSORCASK_PYTHON_SRC_REPORT_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineReport(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_REPORT_H_
