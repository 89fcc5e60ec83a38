// What a folder of numbered checkpoints holds (FORMAT.md section 6.1): NAME-STEP.index, NAME-STEP.data-SSSSS-of-NNNNN,
// and the temporary files that a killed save leaves. Only names are read, not files.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_STEP_FOLDER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_STEP_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

struct StepFiles {
  bool has_index = false;              // without one there is no checkpoint
  std::vector<std::string> data;       // names of the data files, sorted
  std::vector<std::string> leftovers;  // names of temporary files that a killed save left
};

// Files of other names are passed over: "ckpt-07.index", "ckpt-7.index.bak", and all of other NAMEs.
struct StepFolder {
  std::map<int64_t, StepFiles> steps;
  // The temporary files of the state file. Empty if there is a lock file of another NAME, whose manager may be writing
  // them.
  std::vector<std::string> state_leftovers;
};

// Errors: from errno, naming the folder.
absl::StatusOr<StepFolder> ListSteps(const std::string& folder, absl::string_view name, FileSystem* files);

// Errors: InvalidArgument if there can be no checkpoint NAME-STEP in `folder`.
absl::Status CheckStepNames(const std::string& folder, absl::string_view name);

// True if `status` says that the step is damaged or requires a newer reader, so that an older step may be used. All
// other errors prevented the check: an EIO, for example, may pass, and does not tell what is on the disk.
bool CanBePassedOver(const absl::Status& status);

// True if the last component of `path` is the prefix of a step, NAME-STEP.
bool ParseStepName(absl::string_view path, absl::string_view name, int64_t* step);

// "FOLDER/FILE".
std::string PathIn(absl::string_view folder, absl::string_view file);
std::string StepPrefix(absl::string_view folder, absl::string_view name, int64_t step);
std::string LockPath(absl::string_view folder, absl::string_view name);
std::string StatePath(absl::string_view folder);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_STEP_FOLDER_H_
