// Unpredictable random bytes from the operating system.

#ifndef TENSORCASK_TENSOR_BASE_RANDOM_BYTES_H_
#define TENSORCASK_TENSOR_BASE_RANDOM_BYTES_H_

#include <cstddef>

namespace tensorcask::internal {

// False if the system refuses: an old kernel, or a filter of system calls. Requires: bytes <= 256.
bool FillWithRandomBytes(void* out, size_t bytes);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_RANDOM_BYTES_H_
