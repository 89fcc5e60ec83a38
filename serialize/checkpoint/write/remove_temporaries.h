// Removes the temporary files of saves that were killed.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_REMOVE_TEMPORARIES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_REMOVE_TEMPORARIES_H_

#include <string>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

// Removes the temporary files of `prefix` that no process uses (stale_temporaries.h), best effort. Lists the folder,
// which may be large, only if `always` is set or there is a temporary index: CheckpointWriter makes it before it writes
// elements, and renames it last.
void RemoveTemporariesOf(const std::string& prefix, bool always, FileSystem* files);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_REMOVE_TEMPORARIES_H_
