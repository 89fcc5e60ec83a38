// The module tensorcask._native: what `import tensorcask` brings, without the conveniences in Python.

#include <nanobind/nanobind.h>

#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/bindings.h"
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
