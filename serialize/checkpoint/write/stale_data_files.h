// What saves leave: data files of the checkpoint that was replaced, and temporary files of writers that were killed.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_STALE_DATA_FILES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_STALE_DATA_FILES_H_

#include <string>
#include <vector>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

// The paths of the data files of `prefix` that are not of `num_shards`. If the folder cannot be listed, the result is
// empty. That does no harm, because the new index does not name these files.
std::vector<std::string> StaleDataFiles(const std::string& prefix, int num_shards, FileSystem* files);

// Removes the temporary files of `prefix` that no process uses (stale_temporaries.h), best effort. Lists the folder,
// which may be large, only if `always` is set or there is a temporary index: CheckpointWriter makes it before it writes
// elements, and renames it last.
void RemoveTemporariesOf(const std::string& prefix, bool always, FileSystem* files);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_STALE_DATA_FILES_H_
