// madvise(2), for advice that must be followed.

#ifndef TENSORCASK_TENSOR_BASE_MEMORY_ADVICE_H_
#define TENSORCASK_TENSOR_BASE_MEMORY_ADVICE_H_

#include <cstddef>

namespace tensorcask::internal {

// As madvise, but fails with EINVAL on a system that accepts even advice that does not exist: it may follow none (so do
// emulators).
int AdviseMemory(void* start, size_t bytes, int advice);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_MEMORY_ADVICE_H_
