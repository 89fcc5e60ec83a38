// Chooses the number of data files of a save that overwrites a checkpoint, so that no old name is used again.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_CHOOSE_NUM_SHARDS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_CHOOSE_NUM_SHARDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"

namespace tensorcask::checkpoint {

// The smallest number of data files, `wanted` or more, with which no new data file has the name of a data file of the
// checkpoint at `prefix` (FORMAT.md section 6): `wanted`, or `wanted` + 1 if that checkpoint has `wanted`. If its index
// cannot be read, its number of data files is unknown, so no name of an existing data file of `prefix` is used.
// Errors: InvalidArgument if there is no such number up to kMaxShards; from errno if the folder cannot be listed.
absl::StatusOr<int> ChooseNumShards(const std::string& prefix, int wanted, FileSystem* file_system);

// What a save that overwrites the checkpoint at `prefix` replaces: the index and the data files that it counts. Other
// files called PREFIX.data-SSSSS-of-NNNNN stay, and so do all if the index cannot be read.
// Errors: as HasFileAt.
absl::StatusOr<ReplacedFiles> ReplacedCheckpoint(const std::string& prefix, FileSystem* file_system);

// Notes on data files that no index counts, and that a save of `num_shards` data files replaces, since it needs their
// names (FORMAT.md section 6).
std::vector<std::string> NotesOnStrayFiles(const std::string& prefix, int num_shards, FileSystem* file_system);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_CHOOSE_NUM_SHARDS_H_
