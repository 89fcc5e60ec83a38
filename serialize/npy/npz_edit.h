// Renames and removes the arrays of an npz file (serialize/archive/edit.h).

#ifndef TENSORCASK_SERIALIZE_NPY_NPZ_EDIT_H_
#define TENSORCASK_SERIALIZE_NPY_NPZ_EDIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/values/file_edits.h"

namespace tensorcask::npy {

// Writes the archive anew, with each member as it is stored, and replaces the file in one step. The bytes of removed
// arrays are not copied. Requires: each renamed or removed tensor is in the file, and no two tensors get one name.
// Errors: InvalidArgument for a field of a structure, whose name is in the header of its array, for a name that a zip
// archive cannot hold, for metadata, if some fields of a structure are removed and others stay, and if no array would
// be left or the first member would not be an array; AlreadyExists for the name of another member; those of
// NpzReader::Open; Cancelled; from errno.
absl::StatusOr<FileEditResult> EditNpz(const std::string& path, const FileEdits& edits, const FileEditOptions& options);

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_NPZ_EDIT_H_
