// The checkpoints of a training run: numbered steps in one folder, of which the last few are kept.
//
//   CheckpointManagerOptions options;
//   options.keep_last = 3;
//   CASK_ASSIGN_OR_RETURN(CheckpointManager manager, CheckpointManager::Open("/models/run-7", options));
//   CASK_RETURN_IF_ERROR(manager.Save(100, [&](CheckpointWriter& writer) { return writer.Add("w", w); }));
//   ...
//   CASK_ASSIGN_OR_RETURN(CheckpointReader reader, OpenLatestCheckpoint("/models/run-7"));   // latest_checkpoint.h
//
// Step N has the prefix FOLDER/NAME-N (FORMAT.md section 6.1). Open lists the folder to find the steps. Beside them is
// `checkpoint`, TensorFlow's state file (state_file.h). The manager replaces it atomically after each save and does not
// rely on it: the state file names the step saved last and the steps that a later save will remove.
//
// The manager removes old steps only after the new one is durable, so a crash at any time leaves a whole step. The next
// Open removes the temporary files and the data files without an index that the crash left. The newest step is the one
// with the highest number. A folder with the name of an index (ckpt-7.index) is not a step; the manager leaves it
// alone, with the data files of its number.
//
// Where there are no locks, as in an object store, a folder may have several managers, for example of a job that was
// started again while it still ran. They do not destroy each other's steps:
// - A step is only published under names that are free: if two managers save the same step, one gets AlreadyExists.
// - A manager counts and removes only steps that it found when it was opened or saved itself, never the base
//   of a step of another manager. A step whose save failed is not counted, though it may be there.
// - The state file is replaced only if it is still the one that was read, and keeps the steps that others added
//   (state_file.h, UpdateCheckpointState).
// - Nothing is removed that is not a step: what killed saves left stays (`tensorcask clean` finds it). A damaged step
//   is not replaced: Save returns FailedPrecondition.
//
// Otherwise a folder has one manager at a time. Any number of readers is possible. Open acquires a lock. It is released
// when the manager is destroyed or its process ends. A manager has one caller at a time.
//
// After fork(2) only the parent has the manager: the copy of a child waits for nothing when it is destroyed, Save and
// SaveInBackground return FailedPrecondition, and steps() is empty. The manager of the parent releases the lock for
// both. If the parent is killed, the lock lasts until the child destroys its copy, execs or ends.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_MANAGER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_MANAGER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/latest_checkpoint.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct CheckpointManagerOptions {
  std::string name = "ckpt";  // without a slash
  int keep_last = 5;          // steps to keep, at least 1: the highest numbers, and the step saved last
  int64_t keep_every = 0;     // also keep each step that is a multiple of this; 0: none
  // In each run of this many steps the first one is full, and the others are deltas to it (at level kDefault if
  // writer.payload has kStored). 1: all are full, or deltas to writer.payload.base. After Open the first step is full.
  // A step that is the base of a step that is kept is kept, too.
  int full_every = 1;
  // The options of each step. The manager uses the same file system. `background` is ignored. With full_every above 1,
  // `payload.base` is null. If it is one of the steps, whatever its path, that step is kept as long as the manager is
  // open, and as long as a step that is kept needs it.
  CheckpointWriterOptions writer;
};

class CheckpointManager {
 public:
  // Makes the folder if it is missing (its parent must exist) and removes what crashed saves of this name left.
  // Errors: FailedPrecondition, naming the lock file (FOLDER/.NAME.lock), while another manager has the folder open;
  // NotFound if the parent is missing, in an object store the bucket; InvalidArgument for a bad option, `overwrite` of
  // the writer included; from errno, naming the file.
  static absl::StatusOr<CheckpointManager> Open(const std::string& folder,
                                                const CheckpointManagerOptions& options = {});

  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  ~CheckpointManager();  // waits for a save in the background

  // Saves the tensors that `add` adds as step `step` (>= 0), writes the state file and removes the steps that are no
  // longer kept. Replaces a damaged step of this number, because a run that continues from an older step saves this
  // number again.
  // Errors: AlreadyExists if the step exists and is whole (Save reads all of it to know); Unimplemented for an existing
  // step of a newer version, and errors from errno for a step that cannot be read (the manager replaces neither);
  // FailedPrecondition for a damaged step that is the base of a whole one, or of this one; those of `add` and of
  // CheckpointWriter. After these errors there is no new step, and no other step was removed. If only the state file or
  // the removal of old steps failed, the new step exists and the error says so; the next save tries both again.
  absl::Status Save(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);
  // Calls `add` and saves on a new thread (checkpoint_writer.h, FinishInBackground). First waits for a save that is
  // still running. Errors of the save itself arrive with the result.
  absl::StatusOr<BackgroundSave> SaveInBackground(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);

  std::vector<int64_t> steps() const;  // those that exist, ascending
  // Sentences about unusual things that Open found. Where the file system has no locks, as in an object store, Open
  // says so here and goes on. See the comment of this header.
  const std::vector<std::string>& notes() const;
  std::string PrefixOf(int64_t step) const;
  absl::StatusOr<LatestCheckpoint> Latest(CheckStep check = CheckStep::kEverything) const;
  // A reader of the newest step that is whole, with its base if it is stored as deltas. Ignores the file system in
  // `options`. Errors: those of Latest and of CheckpointReader::Open.
  absl::StatusOr<CheckpointReader> OpenLatest(CheckpointReaderOptions options = {},
                                              CheckStep check = CheckStep::kEverything) const;

 private:
  class Impl;
  explicit CheckpointManager(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_MANAGER_H_
