// Checks for what only a bug can cause (a broken "Requires:" line). Outside input gets an absl::Status instead.
//
//   CASK_CHECK(axis < rank(), "dim: axis outside the shape");
//
// A failed check prints file, line, condition and message to stderr and aborts, in every build mode.

#ifndef TENSORCASK_TENSOR_BASE_CHECK_H_
#define TENSORCASK_TENSOR_BASE_CHECK_H_

namespace tensorcask::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* message);

}  // namespace tensorcask::internal

#define CASK_CHECK(condition, message)               \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::tensorcask::internal::CheckFailed(__FILE__, __LINE__, #condition, message))

// The same in debug builds only: for checks in inner loops.
#ifdef NDEBUG
#define CASK_DCHECK(condition, message) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define CASK_DCHECK(condition, message) CASK_CHECK(condition, message)
#endif

#endif  // TENSORCASK_TENSOR_BASE_CHECK_H_
