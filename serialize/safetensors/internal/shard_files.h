// The files of a model that an edit replaces (edit_files.h): names for the new ones, and which old ones it may remove.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_SHARD_FILES_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_SHARD_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/safetensors/internal/open_model.h"

namespace tensorcask::safetensors {

// "b" of "/a/b".
inline absl::string_view LastName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

// A name that is free: "model-00001-of-00002-r1.safetensors" of "model-00001-of-00002.safetensors", then "...-r2".
// Errors: AlreadyExists if 10,000 names are taken; from errno.
absl::StatusOr<std::string> NextRevision(const std::string& path, FileSystem* files);

// Why the file at `path` must stay when the index at `index_path` no longer lists it: another index of the folder lists
// it, or cannot be read. Empty: it may be removed.
std::string WhyOthersMayUse(const std::string& path, const std::string& index_path, const OpenOptions& open);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_SHARD_FILES_H_
