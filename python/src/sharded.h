// What the processes of a job do together: tensorcask._native.sharded_save and sharded_load; and tensorcask.merge.

#ifndef TENSORCASK_PYTHON_SRC_SHARDED_H_
#define TENSORCASK_PYTHON_SRC_SHARDED_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineSharded(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_SHARDED_H_
