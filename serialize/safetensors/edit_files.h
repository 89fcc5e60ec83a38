// Renames and removes tensors and changes metadata of a safetensors file or of a model in several files
// (serialize/archive/edit.h).

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_EDIT_FILES_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_EDIT_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/values/file_edits.h"

namespace tensorcask::safetensors {

// Writes each file that changes anew, with a new header and the same data, and replaces it in one step.
//
// The header keeps its size if the new one fits into it, so that the data keep their offset; otherwise it grows by a
// multiple of 64 bytes, for large files of 4096 (FileSink::AppendFrom can then share the data). Of a model in several
// files, changed files get new names (NAME-r1.safetensors, NAME-r2.safetensors), then the index is replaced, then the
// old files are removed: a crash leaves the old model or the new one, and files that no index names.
//
// The elements of removed tensors are not copied, so those after them move; a removed tied name is removed from the
// metadata. A file of a model that no tensor is left in is removed. A file that is missing or damaged stays in the
// index as it is, and its tensors must keep their names.
//
// Requires: each renamed or removed tensor is in the file, and no two tensors get one name. Errors: InvalidArgument for
// a name or metadata that the format cannot hold, for metadata that would become another name of a tensor, for metadata
// or an output of a model in several files, for removing a tensor without its other names or all tensors of a model;
// DataLoss for renaming or removing a tensor that only the index lists; NotFound for a key to unset; AlreadyExists for
// the name of a tied tensor that the metadata uses; those of SafetensorsReader::Open; Cancelled; from errno.
absl::StatusOr<FileEditResult> EditSafetensors(const std::string& path, const FileEdits& edits,
                                               const FileEditOptions& options);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_EDIT_FILES_H_
