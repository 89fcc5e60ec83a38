// The one place where the library catches exceptions.
//
//   const absl::Status status = CatchExceptions([&] { return WriteShard(i); });
//   // After std::bad_alloc: ResourceExhausted.
//
// The library throws nothing of its own, but `operator new` and functions of the caller may throw. In a thread of the
// caller the exception passes through the library to the caller. Two kinds of code catch it instead:
//   - each thread that the library starts: an exception that left it would end the process;
//   - code that has to go on: destructors, and a server, for which a failure concerns one client.
// Built with -fno-exceptions this only calls the function.

#ifndef TENSORCASK_TENSOR_BASE_CATCH_EXCEPTIONS_H_
#define TENSORCASK_TENSOR_BASE_CATCH_EXCEPTIONS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tensorcask {

// Returns fn(). If fn throws: ResourceExhausted, marked as an error of this process (status_util.h), with what() of the
// exception. Throws nothing itself, except what ends a thread (pthread_exit, pthread_cancel). With libc++, which cannot
// pass that on, it ends the process.
absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> fn);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CATCH_EXCEPTIONS_H_
