// Files of a file system of fsspec (gs://, az://, hf://, ...), through the object that a caller passes. The package is
// never imported.
//
//   const std::shared_ptr<FileSystem> files = FromFileSystem(object, /*writes=*/false);
//   options.read.file_system = files.get();
//
// Reading: `info` tells the size and the version (ETag, or what else tells versions apart), `cat_ranges` brings pieces
// of 8 MiB, 16 in a call. fsspec cannot ask for a range of a given version, so `info` is asked again after each call: a
// file that was replaced meanwhile is -ESTALE, and nothing of the call is used. Small reads bring the whole file up to
// 1 MiB, or so much of a larger one.
//
// Writing: a file is held in memory until Rename, which writes it by `pipe_file(..., mode="create")`. An exception of
// that call does not say whether the file was written, so the file is read back: with the right bytes Rename has
// succeeded. Where the file may still appear, Remove of the temporary name is -EAGAIN.
//
// Nothing that the object returns or raises is trusted: exceptions, wrong types and wrong lengths are an errno with a
// sentence in LastDetail. KeyboardInterrupt and other exceptions that end a program are raised by WithoutGil.

#ifndef TENSORCASK_PYTHON_SRC_FSSPEC_FILES_H_
#define TENSORCASK_PYTHON_SRC_FSSPEC_FILES_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::python {

// Null for None. Throws TypeError for an object without the methods that are used, and NotImplementedError, which says
// what is missing, for one that is to be written to and cannot create a file exclusively. Requires: the GIL.
std::shared_ptr<FileSystem> FromFileSystem(nanobind::handle object, bool writes);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_FSSPEC_FILES_H_
