#include "tensorcask/tensor/base/catch_exceptions.h"

#if defined(__cpp_exceptions)
#include <cxxabi.h>

#include <exception>
#include <new>

#include "tensorcask/tensor/base/status_util.h"
#endif

namespace tensorcask {

#if defined(__cpp_exceptions)

namespace {

absl::Status StatusOf(const char* what) {
  try {  // NOLINT: exceptions of others end here
    return MarkResourceFailure(absl::ResourceExhaustedError(what));
  } catch (...) {  // not even memory for the message
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace

// GCC binds the reference of a forced unwind to null, which its own sanitizer reports.
#if defined(__GNUC__)
__attribute__((no_sanitize("null")))
#endif
absl::Status
CatchExceptions(absl::FunctionRef<absl::Status()> fn) {
  try {  // NOLINT
    return fn();
  } catch (const std::bad_alloc&) {
    return StatusOf("no memory is left (operator new failed)");
  } catch (const std::exception& exception) {
    return StatusOf(exception.what());
#if defined(__GLIBCXX__)
  } catch (const abi::__forced_unwind&) {  // the end of the thread; swallowing it would end the process
    throw;
#endif
  } catch (...) {
    return StatusOf("a function that the library called threw an exception");
  }
}

#else

absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> fn) { return fn(); }

#endif

}  // namespace tensorcask
