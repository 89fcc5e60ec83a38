// The text file `checkpoint` that TensorFlow keeps in a folder of checkpoints: CheckpointState of
// tensorflow/python/training/checkpoint_state.proto in protobuf's text form, one field on each line.
//
//   model_checkpoint_path: "ckpt-300"
//   all_model_checkpoint_paths: "ckpt-200"
//   all_model_checkpoint_paths: "ckpt-300"
//   all_model_checkpoint_timestamps: 1568055512.2474
//   all_model_checkpoint_timestamps: 1568055812.9
//   last_preserved_timestamp: 1568055011.5
//
// Checkpoints that the file names may no longer exist: check before you use them. (FindLatestCheckpoint of
// latest_checkpoint.h reads the folder instead of this file.)

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_STATE_FILE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_STATE_FILE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

// Paths are prefixes, relative to the folder of the file unless they begin with a slash. Times are in seconds since
// 1970.
struct CheckpointState {
  std::string latest;            // "" if the file names none
  std::vector<std::string> all;  // oldest first; permanently kept checkpoints may be missing
  std::vector<double> saved_at;  // one time for each of `all`, or empty
  double last_preserved_at = 0;  // when the newest permanently kept checkpoint was saved; 0: unknown
};

// Checks the syntax of unknown fields and ignores them.
// Errors: NotFound; from errno; DataLoss, naming file and line, if the text is not a CheckpointState; ResourceExhausted
// for a file of more than 64 MiB.
absl::StatusOr<CheckpointState> ReadCheckpointState(const std::string& path,
                                                    FileSystem* file_system = FileSystem::Posix());

// Replaces the file at `path` atomically; with `sync`, the new file is durable on return. Requires: saved_at is empty
// or as long as all.
// Errors: from errno, naming the file; the path then has the old file or the new one.
absl::Status WriteCheckpointState(const std::string& path, const CheckpointState& state, bool sync,
                                  FileSystem* file_system = FileSystem::Posix());

// Calls `change` with the state in the file and replaces it by the result. If there is no file, or it cannot be read as
// a state, `change` gets an empty state. Several writers may do so at the same time, where the file system can replace
// a file only if it is still the one that was read (FileSystem::RenameOver): if another writer was first, `change` is
// called with the new state, up to 8 times. On other file systems the last writer wins.
// Errors: Aborted if another writer was first each time; those of WriteCheckpointState.
absl::Status UpdateCheckpointState(const std::string& path,
                                   absl::FunctionRef<CheckpointState(const CheckpointState&)> change, bool sync,
                                   FileSystem* file_system = FileSystem::Posix());

namespace checkpoint {

std::string EncodeState(const CheckpointState& state);
// Errors: DataLoss, naming the line, without the name of the file.
absl::StatusOr<CheckpointState> ParseState(absl::string_view text);

}  // namespace checkpoint

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_STATE_FILE_H_
