// Which files a path of a caller means: those of the system, or those of a store (s3://, https://, http://).
//
//   const std::shared_ptr<FileSystem> files = Take(FilesFor(path));
//   options.file_system = files.get();

#ifndef TENSORCASK_PYTHON_SRC_STORE_FILES_H_
#define TENSORCASK_PYTHON_SRC_STORE_FILES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::python {

// The files of the system for a path without one of these schemes, else files of both. Reads and writes end with
// ECANCELED after Ctrl-C. The store is made when it is first needed: once for all values of the variables that it
// reads, and anew in a child of fork(2). The four stores that were used last are kept; others live as long as somebody
// holds their files. Needs no GIL. Errors: InvalidArgument for settings of the environment that cannot be used.
absl::StatusOr<std::shared_ptr<FileSystem>> FilesFor(absl::string_view path);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_STORE_FILES_H_
