// tensorcask.Reader: the tensors of one file as a read-only mapping.

#ifndef TENSORCASK_PYTHON_SRC_READER_H_
#define TENSORCASK_PYTHON_SRC_READER_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::python {

// An open file. Shared by the reader, its slices and calls that run without the GIL: closing the reader ends no call.
struct OpenFile {
  std::shared_ptr<const ArchiveReader> archive;
  std::vector<const ArchiveEntry*> entries;    // in the order of the file
  std::optional<TensorVersion> version;        // of the tensors of a server
  mutable std::atomic<bool> is_closed{false};  // the reader is: its slices refuse to read
};

// What a tensorcask.Reader has open. Throws TypeError for another object, ClosedError for a closed one.
std::shared_ptr<const OpenFile> OpenFileOf(nanobind::handle reader);

// A tensorcask.Reader of the tensors of a server in this process.
nanobind::object MakeReader(std::shared_ptr<const ArchiveReader> archive, const TensorVersion& version);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_READER_H_
