// The exceptions of the module: classes of tensorcask._errors, with the sentence of an absl::Status.

#ifndef TENSORCASK_PYTHON_SRC_BASE_ERRORS_H_
#define TENSORCASK_PYTHON_SRC_BASE_ERRORS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorcask::python {

// What NotFound and AlreadyExists are about: a file gives FileNotFoundError and FileExistsError, a tensor KeyError and
// ValueError.
enum class About { kFile, kTensor };

// Throws the exception of `status`. Requires: !status.ok(), and the GIL.
[[noreturn]] void Raise(const absl::Status& status, About about = About::kFile);

// Throws tensorcask.ClosedError: "the reader is closed".
[[noreturn]] void RaiseClosed(const char* what);

inline void Check(const absl::Status& status, About about = About::kFile) {
  if (!status.ok()) Raise(status, about);
}

template <typename T>
T Take(absl::StatusOr<T> result, About about = About::kFile) {
  if (!result.ok()) Raise(result.status(), about);
  return *std::move(result);
}

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BASE_ERRORS_H_
