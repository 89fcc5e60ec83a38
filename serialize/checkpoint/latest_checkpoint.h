// Finds the newest checkpoint of a training run that is whole: numbered steps in one folder, as CheckpointManager
// (manager.h) and TensorFlow's managers save them.
//
//   CASK_ASSIGN_OR_RETURN(CheckpointReader reader, OpenLatestCheckpoint("/models/run-7"));
//
//   CASK_ASSIGN_OR_RETURN(LatestCheckpoint latest, FindLatestCheckpoint("/models/run-7"));
//   for (const SkippedStep& skipped : latest.skipped) std::cerr << skipped.step << ": " << skipped.why << std::endl;

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_LATEST_CHECKPOINT_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_LATEST_CHECKPOINT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct SkippedStep {
  int64_t step = 0;
  absl::Status why;  // names file and tensor
};

struct LatestCheckpoint {
  int64_t step = 0;
  std::string prefix;
  std::string base_prefix;           // for a step of deltas: the prefix of its base; else ""
  std::vector<SkippedStep> skipped;  // newer steps that are damaged or require a newer reader, newest first
};

enum class CheckStep {
  kStructure,  // the whole index, and the presence and size of the data files
  kEverything  // the same, and every byte of the data files
};

// The newest step that is whole. Acquires no lock and changes nothing; steps may appear and disappear meanwhile. Also
// finds the checkpoints of TensorFlow's own managers. Deltas are whole if their base is, too, provided that the index
// names it (FORMAT.md section 4.1). Otherwise the stored bytes count. Errors: NotFound, naming the folder and the
// skipped steps, if no step is whole; InvalidArgument for a bad name; from errno, naming the file, if a step cannot be
// read (no permission, or EIO, which may pass): the step may be whole, so the function does not return an older one.
absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& folder, const std::string& name = "ckpt",
                                                      CheckStep check = CheckStep::kEverything,
                                                      FileSystem* file_system = FileSystem::Posix());

// A reader of that step, with its base if it is stored as deltas. Errors: those of FindLatestCheckpoint and of
// CheckpointReader::Open.
absl::StatusOr<CheckpointReader> OpenLatestCheckpoint(const std::string& folder, const std::string& name = "ckpt",
                                                      CheckpointReaderOptions options = {},
                                                      CheckStep check = CheckStep::kEverything);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_LATEST_CHECKPOINT_H_
