// Bytes from outside that are to become bools. A bool with any other value than 0 and 1 is undefined behaviour in C++.

#ifndef TENSORCASK_TENSOR_BASE_BOOL_BYTES_H_
#define TENSORCASK_TENSOR_BASE_BOOL_BYTES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

// True if each byte is 0 or 1. Reads all bytes, at the speed of memory.
bool AreBools(absl::string_view bytes);

// Errors: InvalidArgument, "byte 7 is 2; a bool is 0 or 1", for the first byte that is another value.
absl::Status CheckBools(absl::string_view bytes);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_BOOL_BYTES_H_
