// tensorcask.Reader: the tensors of one file as a read-only mapping.

#ifndef TENSORCASK_PYTHON_SRC_READER_H_
#define TENSORCASK_PYTHON_SRC_READER_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::python {

void DefineReader(nanobind::module_& m);

// An open file. Shared by the reader, its slices and calls that run without the GIL: closing the reader ends no call.
struct OpenFile {
  std::shared_ptr<FileSystem> files;  // of a caller's file system; null: none
  std::unique_ptr<ArchiveReader> archive;
  std::vector<const ArchiveEntry*> entries;    // in the order of the file
  mutable std::atomic<bool> is_closed{false};  // the reader is: its slices refuse to read
};

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_READER_H_
