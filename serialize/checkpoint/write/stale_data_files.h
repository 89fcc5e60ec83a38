// Data files that overwriting a checkpoint leaves: those of the old one, if it had another number of them.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_STALE_DATA_FILES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_STALE_DATA_FILES_H_

#include <string>
#include <vector>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

// The paths of the data files of `prefix` that are not of `num_shards`. The new index does not name them, so that
// failing to find them does no harm, and none is then given.
std::vector<std::string> StaleDataFiles(const std::string& prefix, int num_shards, FileSystem* files);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_STALE_DATA_FILES_H_
