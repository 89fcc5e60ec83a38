// The one place where the library catches exceptions: at the top of each thread that it starts.
//
//   const absl::Status status = CatchExceptions([&] { return WriteShard(i); });   // ResourceExhausted after
//   std::bad_alloc
//
// The library throws nothing of its own, but `operator new` and functions of the caller may throw. In a thread of the
// caller the exception passes through the library to the caller. A thread of the library has no such caller, and an
// exception that left it would end the process. Built with -fno-exceptions this only calls the function.

#ifndef TENSORCASK_TENSOR_BASE_CATCH_EXCEPTIONS_H_
#define TENSORCASK_TENSOR_BASE_CATCH_EXCEPTIONS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tensorcask {

// Returns fn(). If fn throws: ResourceExhausted, marked as an error of this process (status_util.h), with what() of the
// exception. Throws nothing itself, except what ends a thread (pthread_exit, pthread_cancel).
absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> fn);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CATCH_EXCEPTIONS_H_
