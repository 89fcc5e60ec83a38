// tensorcask._native.decode_object_graph, for tensorcask.keras.

#ifndef TENSORCASK_PYTHON_SRC_OBJECT_GRAPH_H_
#define TENSORCASK_PYTHON_SRC_OBJECT_GRAPH_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineObjectGraph(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_OBJECT_GRAPH_H_
