// Checks for errors that only a bug can cause (a broken "Requires:" line). Input from outside gets an absl::Status.
//
//   CASK_CHECK(rank() == 2, "a matrix has two axes");
//   CASK_DCHECK_INDEX(i, /*axis=*/0, dims_[0]);   // "index 7 of axis 0 is outside [0, 3)"
//
// A failed check prints the file, the line, the condition and the message to stderr and aborts the process. CASK_CHECK
// checks in every build mode. CASK_DCHECK and CASK_DCHECK_INDEX are for inner loops: they check unless NDEBUG is
// defined, and Bazel defines it with `-c opt` alone.

#ifndef TENSORCASK_TENSOR_BASE_CHECK_H_
#define TENSORCASK_TENSOR_BASE_CHECK_H_

#include <cstdint>

#include "tensorcask/tensor/base/cxx17.h"

namespace tensorcask::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* message);
[[noreturn]] void IndexCheckFailed(const char* file, int line, int64_t index, int axis, int64_t size);

}  // namespace tensorcask::internal

#define CASK_CHECK(condition, message)               \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::tensorcask::internal::CheckFailed(__FILE__, __LINE__, #condition, message))

#ifdef NDEBUG
#define CASK_DCHECK(condition, message) static_cast<void>(sizeof(static_cast<bool>(condition)))
#define CASK_DCHECK_INDEX(index, axis, size) \
  static_cast<void>(sizeof((index) < (size))), static_cast<void>(sizeof(axis))
#else
#define CASK_DCHECK(condition, message) CASK_CHECK(condition, message)
#define CASK_DCHECK_INDEX(index, axis, size)             \
  (__builtin_expect((index) >= 0 && (index) < (size), 1) \
       ? static_cast<void>(0)                            \
       : ::tensorcask::internal::IndexCheckFailed(__FILE__, __LINE__, index, static_cast<int>(axis), size))
#endif

#endif  // TENSORCASK_TENSOR_BASE_CHECK_H_
