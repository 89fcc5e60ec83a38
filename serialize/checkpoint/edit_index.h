// Renames and removes tensors of a checkpoint by a new index (serialize/archive/edit.h).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_EDIT_INDEX_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_EDIT_INDEX_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/values/file_edits.h"

namespace tensorcask::checkpoint {

// Writes a new index, which replaces the old one in one step. Data files stay as they are; with an output they get
// second names (hard links) beside the new index. Entries keep their bytes, unknown fields included; pieces of a tensor
// follow its name. Checks what index_walk.h checks.
//
// Requires: each renamed or removed tensor is in the checkpoint, and no two tensors get one name. Errors:
// InvalidArgument for a name that an index cannot hold, and for metadata; Unimplemented for a V1 checkpoint, whose
// index lies among the elements; FailedPrecondition for a delta, whose base is found by its name, and for a tensor that
// the object graph names, unless the graph is removed too; those of CheckpointReader::Open and entries; from errno.
absl::StatusOr<FileEditResult> EditCheckpoint(const std::string& path, const FileEdits& edits,
                                              const FileEditOptions& options);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_EDIT_INDEX_H_
