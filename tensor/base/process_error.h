// Errors that are about this process, not about what it was given: it has no memory or no file descriptors left.
//
//   if (memory == nullptr) return internal::ProcessError(absl::ResourceExhaustedError("no memory for 12 bytes"));
//   ...
//   if (internal::IsProcessError(status)) return status;   // whoever looks for damage has found none
//
// The code alone does not tell: ResourceExhausted is also what is past a limit. The mark is a payload of the status.

#ifndef TENSORCASK_TENSOR_BASE_PROCESS_ERROR_H_
#define TENSORCASK_TENSOR_BASE_PROCESS_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::internal {

// The same error, marked. Requires: !status.ok().
absl::Status ProcessError(absl::Status status);

bool IsProcessError(const absl::Status& status);

// "WHAT: " in front of the message; a marked error stays marked. Requires: !status.ok().
absl::Status Prefixed(absl::string_view what, const absl::Status& status);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_PROCESS_ERROR_H_
