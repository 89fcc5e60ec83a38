// tensorcask.CheckpointManager and BackgroundSave.

#ifndef TENSORCASK_PYTHON_SRC_MANAGER_H_
#define TENSORCASK_PYTHON_SRC_MANAGER_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineManager(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_MANAGER_H_
