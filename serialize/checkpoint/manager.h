// The checkpoints of a training run: numbered steps in one folder, of which the last few are kept.
//
//   CheckpointManagerOptions options;
//   options.keep_last = 3;
//   CASK_ASSIGN_OR_RETURN(CheckpointManager manager, CheckpointManager::Open("/models/run-7", options));
//   CASK_RETURN_IF_ERROR(manager.Save(100, [&](CheckpointWriter& writer) { return writer.Add("w", w); }));
//   ...
//   CASK_ASSIGN_OR_RETURN(LatestCheckpoint latest, FindLatestCheckpoint("/models/run-7"));
//   CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open(latest.prefix));
//
// Step N stands under FOLDER/NAME-N (FORMAT.md section 6.1). Which steps there are is read from the folder when it is
// opened. Beside them stands `checkpoint`, TensorFlow's state file (state_file.h), which is replaced atomically after
// each save and which nothing here believes: it names the step saved last, and those that a later save will remove.
//
// Old steps are removed when a new one is durable, never before: a crash at any time leaves the newest whole step, and
// what it leaves besides (temporary files, data files without an index) is removed when the folder is opened next.
// Newest is what has the highest number. What has the name of an index and is no file (a folder ckpt-7.index) takes no
// step's place and is left alone, with the data files of its number.
//
// One writer at a time: Open takes a lock, which ends with the manager and with the process. Any number of readers.
// One caller at a time.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_MANAGER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/background_save.h"
#include "tensorcask/serialize/checkpoint/writer.h"

namespace tensorcask {

struct CheckpointManagerOptions {
  std::string name = "ckpt";       // no slash, and nothing that a checkpoint's prefix may not have
  int keep_last = 5;               // so many of the highest numbers, at least 1; and the step saved last
  int64_t keep_every = 0;          // and each step that is a multiple of this; 0: none
  CheckpointWriterOptions writer;  // of each step; its file system is that of the manager. `background` is ignored
  // and `base` should be none of the steps: they are removed, whatever is a delta to them.
};

struct SkippedStep {
  int64_t step = 0;
  absl::Status why;  // names file and tensor
};

struct LatestCheckpoint {
  int64_t step = 0;
  std::string prefix;
  std::vector<SkippedStep> skipped;  // newer steps that are damaged, or of a newer version, newest first
};

enum class CheckStep {
  kStructure,  // the whole index, and that the data files are there and long enough
  kEverything  // and every byte of them
};

// The newest step that is whole. Takes no lock and changes nothing, and steps may come and go meanwhile. Finds the
// checkpoints of TensorFlow's own managers as well. Errors: NotFound, naming the folder and what was skipped, if there
// is none; InvalidArgument for a bad name; from errno, naming the file, if a step cannot be looked at (one that may not
// be read, or EIO, which may pass): what may be whole is not passed over for an older one.
absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& folder, const std::string& name = "ckpt",
                                                      CheckStep check = CheckStep::kEverything,
                                                      FileSystem* file_system = nullptr);

class CheckpointManager {
 public:
  // Makes the folder if it is missing (its parent must be there) and removes what crashed saves of this name left.
  // Errors: FailedPrecondition, naming the lock file (FOLDER/.NAME.lock), while another manager has the folder;
  // InvalidArgument for a bad option, `overwrite` of the writer included; from errno, naming the file.
  static absl::StatusOr<CheckpointManager> Open(const std::string& folder,
                                                const CheckpointManagerOptions& options = {});

  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  ~CheckpointManager();  // waits for a save in the background

  // Saves what `add` adds as step `step` (>= 0), writes the state file and removes the steps that are no longer to be
  // kept. A damaged step of this number is replaced: a run that went on from an older one comes to it again.
  // Errors: AlreadyExists for a step that is there and whole, all of which is read to know; Unimplemented for one of a
  // newer version, and from errno for one that cannot be read, neither of which is replaced; of `add`; as
  // CheckpointWriter. Then there is no new step, and no other has gone. If only the state file or the removal failed,
  // the step stands, and the error says so; the next save makes up for it.
  absl::Status Save(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);
  // The same, but for `add`, on a thread of its own (writer.h, FinishInBackground). Waits first if one is still
  // running. Errors of the save itself arrive with the result.
  absl::StatusOr<BackgroundSave> SaveInBackground(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);

  std::vector<int64_t> steps() const;  // that stand, ascending
  std::string PrefixOf(int64_t step) const;
  absl::StatusOr<LatestCheckpoint> Latest(CheckStep check = CheckStep::kEverything) const;

 private:
  class Impl;
  explicit CheckpointManager(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_MANAGER_H_
