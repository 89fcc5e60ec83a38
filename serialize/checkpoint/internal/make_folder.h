// Makes the folder that a checkpoint is written to.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_MAKE_FOLDER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_MAKE_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

// Makes the folder of the file `path` if it is missing; the parent of the folder must exist. With `sync` the name of a
// new folder is durable on return.
// Errors: from errno, naming the file and the folder.
absl::Status MakeFolderFor(const std::string& path, bool sync, FileSystem* files);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_MAKE_FOLDER_H_
