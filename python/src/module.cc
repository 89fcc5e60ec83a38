// The module tensorcask._native: what `import tensorcask` brings, without the conveniences in Python.

#include <nanobind/nanobind.h>

#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/comparisons.h"
#include "tensorcask/python/src/devices.h"
#include "tensorcask/python/src/exchange.h"
#include "tensorcask/python/src/functions.h"
#include "tensorcask/python/src/interrupts.h"
#include "tensorcask/python/src/manager.h"
#include "tensorcask/python/src/object_graph.h"
#include "tensorcask/python/src/reader.h"
#include "tensorcask/python/src/remote.h"
#include "tensorcask/python/src/report.h"
#include "tensorcask/python/src/sharded.h"
#include "tensorcask/python/src/tensor_object.h"
#include "tensorcask/python/src/writer.h"
#include "tensorcask/tensor/version.h"

NB_MODULE(_native, m) {
  // Objects that are alive when the interpreter exits are no error: readers in global variables, for example.
  nanobind::set_leak_warnings(false);
  m.attr("version") = CASK_VERSION_STRING;
  tensorcask::python::WatchInterpreter(m);
  tensorcask::python::DefineArrays(m);
  tensorcask::python::DefineTensor(m);
  tensorcask::python::DefineDevices(m);
  tensorcask::python::DefineReader(m);
  tensorcask::python::DefineWriter(m);
  tensorcask::python::DefineManager(m);
  tensorcask::python::DefineFunctions(m);
  tensorcask::python::DefineComparisons(m);
  tensorcask::python::DefineReport(m);
  tensorcask::python::DefineExchange(m);
  tensorcask::python::DefineServer(m);
  tensorcask::python::DefineClient(m);
  tensorcask::python::DefineObjectGraph(m);
  tensorcask::python::DefineSharded(m);
}
