// An error that names the missing folder of a path.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_MISSING_FOLDER_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_MISSING_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::internal {

// `status`, which an operation on the file or folder `path` returned. If it is NotFound because the folder that `path`
// is in does not exist, its message gets the outermost folder that is missing: "; there is no folder models".
absl::Status NameMissingFolder(const absl::Status& status, const std::string& path, FileSystem* files);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_MISSING_FOLDER_H_
