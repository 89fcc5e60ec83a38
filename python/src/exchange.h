// tensorcask.Channel, Listener, Message and SharedMemory.

#ifndef TENSORCASK_PYTHON_SRC_EXCHANGE_H_
#define TENSORCASK_PYTHON_SRC_EXCHANGE_H_

#include <nanobind/nanobind.h>

namespace tensorcask::python {

void DefineExchange(nanobind::module_& m);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_EXCHANGE_H_
