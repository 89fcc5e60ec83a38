// The text file `checkpoint` that TensorFlow keeps in a folder of checkpoints: CheckpointState of
// tensorflow/python/training/checkpoint_state.proto in protobuf's text form, a field a line.
//
//   model_checkpoint_path: "ckpt-300"
//   all_model_checkpoint_paths: "ckpt-200"
//   all_model_checkpoint_paths: "ckpt-300"
//   all_model_checkpoint_timestamps: 1568055512.2474
//   all_model_checkpoint_timestamps: 1568055812.9
//   last_preserved_timestamp: 1568055011.5
//
// It only claims: whoever reads it looks whether those checkpoints are there (FindLatestCheckpoint of manager.h looks
// at the folder alone).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_STATE_FILE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_STATE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

// Paths are prefixes, relative to the folder of the file unless they begin with a slash. Times are in seconds since
// 1970.
struct CheckpointState {
  std::string latest;            // "" if the file names none
  std::vector<std::string> all;  // oldest first; those that are kept for good need not be among them
  std::vector<double> saved_at;  // of each of `all`, or nothing
  double last_preserved_at = 0;  // when the last one was saved that is kept for good; 0: not said
};

// Errors: NotFound; from errno; DataLoss, naming file and line, for what is not such a text (of fields that it does not
// know, only the form is looked at); ResourceExhausted for a file of more than 64 MiB.
absl::StatusOr<CheckpointState> ReadCheckpointState(const std::string& path, FileSystem* file_system = nullptr);

// Replaces the file at `path`, atomically; with `sync` it is durable. Requires: saved_at is empty or as long as all.
// Errors: from errno, naming the file; then the old one stands, or the new one.
absl::Status WriteCheckpointState(const std::string& path, const CheckpointState& state, bool sync,
                                  FileSystem* file_system = nullptr);

namespace checkpoint {

std::string EncodeState(const CheckpointState& state);
// Errors: DataLoss, naming the line, without the name of the file.
absl::StatusOr<CheckpointState> ParseState(absl::string_view text);

}  // namespace checkpoint

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_STATE_FILE_H_
