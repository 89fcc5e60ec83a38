// The parts of the module tensorcask._native. Each function adds its part to the module `m`.

#ifndef TENSORCASK_PYTHON_SRC_BINDINGS_H_
#define TENSORCASK_PYTHON_SRC_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineArrays(nanobind::module_& m);       // the memory of tensors, as NumPy sees it
void DefineTensor(nanobind::module_& m);       // Tensor: the strided view engine
void DefineDevices(nanobind::module_& m);      // memory of GPUs
void DefineReader(nanobind::module_& m);       // Reader: the tensors of one file as a read-only mapping
void DefineWriter(nanobind::module_& m);       // save, Writer
void DefineManager(nanobind::module_& m);      // CheckpointManager, BackgroundSave
void DefineFunctions(nanobind::module_& m);    // verify, convert, salvage
void DefineComparisons(nanobind::module_& m);  // diff, stats
void DefineReport(nanobind::module_& m);       // report, and the tables of readers in notebooks
void DefineExchange(nanobind::module_& m);     // Channel, Listener, Message, SharedMemory
void DefineServer(nanobind::module_& m);       // serve
void DefineClient(nanobind::module_& m);       // follow, push
void DefineObjectGraph(nanobind::module_& m);  // decode_object_graph, for tensorcask.keras
void DefineSharded(nanobind::module_& m);      // sharded_save, sharded_load, merge

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BINDINGS_H_
