#include "tensorcask/serialize/checkpoint/manager.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/index_walk.h"
#include "tensorcask/serialize/checkpoint/internal/step_bases.h"
#include "tensorcask/serialize/checkpoint/internal/step_folder.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/stale_temporaries.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using checkpoint::kNoStep;
using checkpoint::PathIn;
using checkpoint::StepFolder;

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

absl::string_view WithoutTrailingSlashes(absl::string_view folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  return folder;
}

absl::Status CheckOptions(const CheckpointManagerOptions& options) {
  if (options.keep_last < 1) {
    return absl::InvalidArgumentError(absl::StrCat("keep_last is ", options.keep_last, "; wanted 1 or more"));
  }
  if (options.full_every < 1) {
    return absl::InvalidArgumentError(absl::StrCat("full_every is ", options.full_every, "; wanted 1 or more"));
  }
  if (options.full_every > 1 && options.writer.payload.base != nullptr) {
    return absl::InvalidArgumentError(
        "a checkpoint manager has both full_every above 1 and a base; the manager chooses the bases itself");
  }
  if (options.keep_every < 0) {
    return absl::InvalidArgumentError(absl::StrCat("keep_every is ", options.keep_every, "; wanted 0 or more"));
  }
  if (options.writer.overwrite) {
    return absl::InvalidArgumentError("a checkpoint manager's writer has overwrite set; steps are not overwritten");
  }
  return absl::OkStatus();
}

}  // namespace

class CheckpointManager::Impl : public std::enable_shared_from_this<CheckpointManager::Impl> {
 public:
  Impl(absl::string_view folder, const CheckpointManagerOptions& options)
      : folder_(WithoutTrailingSlashes(folder)), options_(options) {}
  ~Impl() { Unlock(); }

  absl::Status Start();
  absl::Status Save(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);
  absl::StatusOr<BackgroundSave> SaveInBackground(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);
  // Waits for a save in the background and releases the lock. In a child of fork(2) it only closes the child's handle
  // of the lock, because the save runs in the parent.
  void Close() {
    if (owner_.IsThisProcess()) WaitUntilIdle();
    Unlock();
  }
  // A child leaves the object as it is: threads of the parent may have held its mutex at the fork.
  static void Delete(Impl* manager) {
    if (manager->owner_.IsThisProcess()) delete manager;
  }

  const std::string& folder() const { return folder_; }
  const std::string& name() const { return options_.name; }
  FileSystem* files() const { return options_.writer.file_system; }
  std::string PrefixOf(int64_t step) const { return checkpoint::StepPrefix(folder_, options_.name, step); }
  const std::vector<std::string>& notes() const { return notes_; }
  std::vector<int64_t> steps() const {
    if (!owner_.IsThisProcess()) return {};
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> steps;
    for (const auto& [step, known] : steps_) steps.push_back(step);
    return steps;
  }

 private:
  // An existing step.
  struct Step {
    std::vector<std::string> data;  // the names of its data files
    double saved_at = 0;
    std::optional<int64_t> base;  // another step, or kNoStep; not read yet: nullopt
  };

  absl::Status Lock();
  void Unlock() { lock_.Release(); }
  void WaitUntilIdle() {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [&] { return !running_; });
  }
  void SetRunning(bool running) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ = running;
    if (!running) idle_.notify_all();
  }
  // Marks a save in the background as running for as long as this object exists. It is made before the thread, so its
  // destructor runs however the save ends, even if an exception prevents the thread from being made.
  class Running {
   public:
    Running(std::shared_ptr<Impl> manager, CheckpointWriter writer)
        : manager_(std::move(manager)), writer_(std::make_unique<CheckpointWriter>(std::move(writer))) {
      manager_->SetRunning(true);
    }
    ~Running() {
      writer_ = nullptr;  // removes the files of a failed save before the next may begin
      manager_->SetRunning(false);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    absl::Status Finish(int64_t step) {
      CASK_RETURN_IF_ERROR(writer_->Finish());
      return manager_->End(step);
    }

   private:
    const std::shared_ptr<Impl> manager_;
    std::unique_ptr<CheckpointWriter> writer_;
  };

  void TakeTimesFromStateFile();
  bool IsNoFile(const std::string& path) const;  // true if there is something else
  absl::Status Scan();
  absl::StatusOr<CheckpointWriter> Begin(int64_t step, bool background);
  absl::Status End(int64_t step);
  void ChooseBase(int64_t step, CheckpointWriterOptions* options);
  int64_t FindBaseStep() const;
  absl::Status CheckNotNeeded(int64_t step);
  absl::StatusOr<int64_t> BaseOf(int64_t step);
  absl::StatusOr<std::vector<int64_t>> NoLongerKept(int64_t saved);
  absl::Status KeepBasesOfOthers(std::set<int64_t>* removed) const;
  absl::Status WriteState(int64_t saved, const std::vector<int64_t>& removed) const;
  absl::Status RemoveSteps(const std::vector<int64_t>& steps);
  absl::Status RemoveLeftovers(const std::vector<std::string>& names);

  bool IsKeptForGood(int64_t step) const { return options_.keep_every > 0 && step % options_.keep_every == 0; }

  const OwnerProcess owner_;
  const std::string folder_;
  CheckpointManagerOptions options_;
  FileLock lock_;                   // holds nothing where there are no locks
  bool is_open_ = false;            // Start has succeeded
  std::vector<std::string> notes_;  // what Open found
  // An operation failed, so the folder may hold more or fewer steps than steps_.
  bool in_doubt_ = false;
  std::map<int64_t, double> times_;  // when steps were saved, from the state file that Open read
  double last_preserved_at_ = 0;
  int64_t base_step_ = kNoStep;  // the step that writer.payload.base reads
  // With full_every: the last full step (kNoStep: the next one is full), and how many deltas to it were begun.
  int64_t full_step_ = kNoStep;
  int deltas_ = 0;
  std::shared_ptr<const CheckpointReader> full_reader_;  // null: not opened yet
  std::optional<int64_t> begun_base_;                    // Step::base of the step that is being saved

  // Guards what follows: a save in the background changes it while steps() may read it.
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool running_ = false;
  std::map<int64_t, Step> steps_;
  std::set<int64_t> passing_;  // those of steps_ that are not kept for good
  std::set<int64_t> gone_;     // those that this manager removed, where others may still name them
};

absl::Status CheckpointManager::Impl::Start() {
  CASK_RETURN_IF_ERROR(MakeFolderFor(checkpoint::StatePath(folder_), options_.writer.sync, files()));
  CASK_RETURN_IF_ERROR(Lock());
  TakeTimesFromStateFile();
  CASK_RETURN_IF_ERROR(Scan());
  base_step_ = FindBaseStep();
  is_open_ = true;
  return absl::OkStatus();
}

absl::Status CheckpointManager::Impl::Lock() {
  const std::string path = checkpoint::LockPath(folder_, options_.name);
  absl::StatusOr<FileLock> lock = FileLock::Acquire(path, files());
  if (absl::IsUnimplemented(lock.status())) {
    notes_.push_back(absl::StrCat(folder_,
                                  ": this file system has no locks, so another checkpoint manager may have the ",
                                  "folder open; what killed saves left is not removed"));
    return absl::OkStatus();
  }
  CASK_RETURN_IF_ERROR(lock.status());
  if (!lock->is_held()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is locked by another checkpoint manager of this folder; close it or end its process (",
                     "\"fuser\" with this path names it). Removing the file does not help"));
  }
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

// The manager needs only the times of the state file; the rest is for TensorFlow.
void CheckpointManager::Impl::TakeTimesFromStateFile() {
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(checkpoint::StatePath(folder_), files());
  last_preserved_at_ = SecondsSince1970();
  if (!state.ok()) return;
  if (state->last_preserved_at != 0) last_preserved_at_ = state->last_preserved_at;
  for (size_t i = 0; i < state->saved_at.size(); ++i) {
    int64_t step = 0;
    if (checkpoint::ParseStepName(state->all[i], options_.name, &step)) times_[step] = state->saved_at[i];
  }
}

bool CheckpointManager::Impl::IsNoFile(const std::string& path) const {
  const absl::StatusOr<FileInfo> info = DescribeFile(path, files());
  return info.ok() && info->type != FileInfo::Type::kRegular;
}

// Lists the steps, and removes the files that killed and failed saves left.
absl::Status CheckpointManager::Impl::Scan() {
  absl::StatusOr<StepFolder> listed = checkpoint::ListSteps(folder_, options_.name, files());
  // In an object store there is no folder before its first file. A missing bucket has another error number.
  if (ErrorNumberOf(listed.status()) == ENOENT && !lock_.is_held()) listed = StepFolder();
  CASK_ASSIGN_OR_RETURN(StepFolder found, std::move(listed));
  // Checks that the newest indexes are regular files, so that a folder of that name is not counted among the steps to
  // keep. Older ones, of which there may be many, are checked when they are to be removed.
  auto newest = found.steps.rbegin();
  for (int kept = 0; newest != found.steps.rend() && kept < options_.keep_last; ++newest) {
    if (!newest->second.has_index) continue;
    if (IsNoFile(checkpoint::IndexPath(PrefixOf(newest->first)))) {
      newest->second = {};
    } else {
      ++kept;
    }
  }
  const double now = SecondsSince1970();
  std::map<int64_t, Step> steps;
  std::set<int64_t> passing;
  std::vector<std::string> leftovers = std::move(found.state_leftovers);
  const auto take = [&](std::vector<std::string>* names) {
    std::move(names->begin(), names->end(), std::back_inserter(leftovers));
  };
  for (auto& [step, files_of_step] : found.steps) {
    take(&files_of_step.leftovers);
    if (!files_of_step.has_index) {
      take(&files_of_step.data);
      continue;
    }
    const auto known = steps_.find(step);
    // Without a lock, what appeared since Open may be another manager's: this one neither counts nor removes it.
    if (is_open_ && !lock_.is_held() && known == steps_.end()) continue;
    const auto time = times_.find(step);
    steps[step] = {std::move(files_of_step.data),
                   known != steps_.end()  ? known->second.saved_at
                   : time != times_.end() ? time->second
                                          : now,
                   std::nullopt};
    if (!IsKeptForGood(step)) passing.insert(passing.end(), step);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    steps_ = std::move(steps);
    passing_ = std::move(passing);
  }
  // Without a lock, another manager may be writing them.
  return lock_.is_held() ? RemoveLeftovers(leftovers) : absl::OkStatus();
}

absl::Status CheckpointManager::Impl::RemoveLeftovers(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = PathIn(folder_, name);
    if (FinalNameOfTemporary(name).has_value()) {
      if (RemoveUnlockedFile(path, files()).ok()) continue;  // or a writer lives that no manager started
    }
    // Saves make no folders, so a folder stays.
    CASK_RETURN_IF_ERROR(RemoveUnlessFolder(path, files(), "remove what a save left"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointWriter> CheckpointManager::Impl::Begin(int64_t step, bool background) {
  if (!owner_.IsThisProcess()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder_, ": the parent of this process has the checkpoint manager, and alone may save with it"));
  }
  WaitUntilIdle();
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("a checkpoint's step is ", step, "; wanted 0 or more"));
  if (in_doubt_) CASK_RETURN_IF_ERROR(Scan());
  const std::string prefix = PrefixOf(step);
  if (steps_.count(step) != 0) {
    // A run that continued from an older step reaches the damaged step again. A step that may be whole is never
    // removed.
    const absl::Status whole = checkpoint::CheckWhole(prefix, /*everything=*/true, files());
    if (whole.ok()) return absl::AlreadyExistsError(absl::StrCat(prefix, ": this step is saved already"));
    if (!absl::IsDataLoss(whole) && !absl::IsNotFound(whole)) {
      return Annotate(
          whole,
          absl::StrCat(prefix, ": the step exists and was not replaced, because only a damaged step is replaced"));
    }
    if (!lock_.is_held()) {
      return absl::FailedPreconditionError(
          absl::StrCat(prefix, ": the step is damaged and was not replaced, because without locks another manager may ",
                       "be replacing it; remove ", checkpoint::IndexPath(prefix), " first: ", whole.message()));
    }
    CASK_RETURN_IF_ERROR(CheckNotNeeded(step));
    in_doubt_ = true;
    CASK_RETURN_IF_ERROR(RemoveSteps({step}));
  }
  in_doubt_ = true;  // until every step has succeeded
  CheckpointWriterOptions options = options_.writer;
  options.background = background;
  ChooseBase(step, &options);
  return CheckpointWriter::Create(prefix, options);
}

// What is damaged of a step may be something that the deltas to it do not need.
absl::Status CheckpointManager::Impl::CheckNotNeeded(int64_t step) {
  const auto refused = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(PrefixOf(step), ": the step is damaged and was not replaced, because ", why));
  };
  if (step == base_step_) return refused("it is the base of what is to be saved");
  for (const auto& [other, known] : steps_) {
    CASK_ASSIGN_OR_RETURN(const int64_t base, BaseOf(other));
    if (base != step || other == step) continue;
    if (checkpoint::CheckWhole(PrefixOf(other), /*everything=*/true, files()).ok()) {
      return refused(absl::StrCat("step ", other, " is whole and is stored as deltas to it"));
    }
  }
  return absl::OkStatus();
}

// Makes the step a delta to the last full one, if that is there and full_every says so. A full step that cannot be
// opened cannot be a base: the step becomes a full one.
void CheckpointManager::Impl::ChooseBase(int64_t step, CheckpointWriterOptions* options) {
  if (options_.full_every > 1) {
    if (full_step_ != kNoStep && steps_.count(full_step_) != 0 && deltas_ + 1 < options_.full_every) {
      if (full_reader_ == nullptr) {
        CheckpointReaderOptions read;
        read.read.file_system = files();
        absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(PrefixOf(full_step_), read);
        if (reader.ok()) full_reader_ = std::make_shared<const CheckpointReader>(*std::move(reader));
      }
      options->payload.base = full_reader_;
    }
    if (options->payload.base != nullptr) {
      if (options->payload.level == PayloadLevel::kStored) options->payload.level = PayloadLevel::kDefault;
      ++deltas_;
    } else {
      full_step_ = step;
      deltas_ = 0;
      full_reader_ = nullptr;
    }
  }
  begun_base_ = options->payload.base == nullptr ? std::optional<int64_t>(kNoStep) : std::nullopt;
}

// The step that writer.payload.base reads, whatever path it has, or kNoStep.
int64_t CheckpointManager::Impl::FindBaseStep() const {
  if (options_.writer.payload.base == nullptr) return kNoStep;
  const std::optional<BaseLookup::Location> location = options_.writer.payload.base->base_location();
  if (!location.has_value()) return kNoStep;
  const auto describe = [](FileSystem* files, const std::string& prefix) {
    return DescribeFile(checkpoint::IndexPath(prefix), files).value_or(FileInfo());
  };
  const FileInfo index = describe(location->file_system, location->prefix);
  if (!index.id.is_known()) {
    int64_t step = kNoStep;
    return checkpoint::ParseStepName(location->prefix, options_.name, &step) ? step : kNoStep;
  }
  for (const auto& [step, known] : steps_) {
    if (index.id.Is(describe(files(), PrefixOf(step)).id)) return step;
  }
  return kNoStep;
}

// The step that this one is stored relative to, or kNoStep. A step that is damaged needs none.
absl::StatusOr<int64_t> CheckpointManager::Impl::BaseOf(int64_t step) {
  std::optional<int64_t>& base = steps_.at(step).base;
  if (!base.has_value()) {
    const absl::StatusOr<std::string> prefix = checkpoint::BasePrefixOf(PrefixOf(step), files());
    if (!prefix.ok() && !checkpoint::CanBePassedOver(prefix.status())) return prefix.status();
    int64_t step_of_base = kNoStep;
    if (prefix.ok()) checkpoint::ParseStepName(*prefix, options_.name, &step_of_base);
    base = step_of_base;
  }
  return *base;
}

absl::Status CheckpointManager::Impl::Save(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add) {
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, Begin(step, /*background=*/false));
  CASK_RETURN_IF_ERROR(add(writer));
  CASK_RETURN_IF_ERROR(writer.Finish());
  return End(step);
}

absl::StatusOr<BackgroundSave> CheckpointManager::Impl::SaveInBackground(
    int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add) {
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, Begin(step, /*background=*/true));
  CASK_RETURN_IF_ERROR(add(writer));
  // std::function copies what it holds. BackgroundSave destroys it before it reports the result.
  return BackgroundSave([running = std::make_shared<Running>(shared_from_this(), std::move(writer)), step] {
    return running->Finish(step);
  });
}

// Runs after the step is durable: writes the state file and removes old steps.
absl::Status CheckpointManager::Impl::End(int64_t step) {
  Step saved;
  saved.saved_at = SecondsSince1970();
  saved.base = begun_base_;
  for (int shard = 0; shard < options_.writer.num_shards; ++shard) {
    const std::string path = checkpoint::DataPath(PrefixOf(step), shard, options_.writer.num_shards);
    saved.data.push_back(path.substr(path.rfind('/') + 1));
  }
  if (IsKeptForGood(step)) last_preserved_at_ = saved.saved_at;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    steps_[step] = std::move(saved);
    if (!IsKeptForGood(step)) passing_.insert(step);
    gone_.erase(step);
  }
  const absl::StatusOr<std::vector<int64_t>> remove = NoLongerKept(step);
  absl::Status status = remove.ok() ? WriteState(step, *remove) : remove.status();
  if (status.ok()) status = RemoveSteps(*remove);
  if (!status.ok()) {
    return Annotate(status, absl::StrCat(PrefixOf(step), ": the step is saved, but what comes after it failed"));
  }
  in_doubt_ = false;
  return absl::OkStatus();
}

// Never returns the step that was just saved, even if its number is low: the run may have continued from an older step.
// Nor a base of a step that is kept.
absl::StatusOr<std::vector<int64_t>> CheckpointManager::Impl::NoLongerKept(int64_t saved) {
  const auto keep = static_cast<size_t>(options_.keep_last);
  if (steps_.size() <= keep) return std::vector<int64_t>();
  std::set<int64_t> steps;
  const int64_t oldest_kept = std::prev(steps_.end(), static_cast<std::ptrdiff_t>(keep))->first;
  for (const int64_t step : passing_) {
    if (step >= oldest_kept) break;
    if (step != saved) steps.insert(step);
  }
  if (steps.empty()) return std::vector<int64_t>();
  if (options_.full_every > 1) steps.erase(full_step_);
  steps.erase(base_step_);
  if (!lock_.is_held()) CASK_RETURN_IF_ERROR(KeepBasesOfOthers(&steps));
  std::vector<int64_t> kept;
  for (const auto& [step, known] : steps_) {
    if (steps.count(step) == 0) kept.push_back(step);
  }
  const auto base_of = [this](int64_t step) { return BaseOf(step); };
  CASK_RETURN_IF_ERROR(checkpoint::KeepBases(std::move(kept), base_of, &steps));
  return std::vector<int64_t>(steps.begin(), steps.end());
}

// Steps of other managers may be deltas to a step that this one is about to remove.
absl::Status CheckpointManager::Impl::KeepBasesOfOthers(std::set<int64_t>* removed) const {
  CASK_ASSIGN_OR_RETURN(const StepFolder found, checkpoint::ListSteps(folder_, options_.name, files()));
  for (const auto& [step, files_of_step] : found.steps) {
    if (!files_of_step.has_index || steps_.count(step) != 0) continue;
    const absl::StatusOr<std::string> prefix = checkpoint::BasePrefixOf(PrefixOf(step), files());
    if (!prefix.ok() && !checkpoint::CanBePassedOver(prefix.status())) return prefix.status();
    int64_t base = kNoStep;
    if (prefix.ok() && checkpoint::ParseStepName(*prefix, options_.name, &base)) removed->erase(base);
  }
  return absl::OkStatus();
}

// As TensorFlow's manager writes it: the steps that are not kept permanently, and the newest one. TensorFlow's manager
// removes the checkpoints that the file names.
absl::Status CheckpointManager::Impl::WriteState(int64_t saved, const std::vector<int64_t>& removed) const {
  std::map<int64_t, double> times;
  for (const int64_t step : passing_) {
    if (!std::binary_search(removed.begin(), removed.end(), step)) times[step] = steps_.at(step).saved_at;
  }
  times.erase(saved);
  // `others`: from step to time. `preserved_at`: what they say of it.
  const auto make = [&](std::map<int64_t, double> others, double preserved_at) {
    CheckpointState state;
    const auto add = [&](int64_t step, double saved_at) {
      state.latest = absl::StrCat(options_.name, "-", step);
      state.all.push_back(state.latest);
      state.saved_at.push_back(saved_at);
    };
    others.insert(times.begin(), times.end());
    for (const auto& [step, saved_at] : others) add(step, saved_at);
    add(saved, steps_.at(saved).saved_at);
    state.last_preserved_at = std::max(last_preserved_at_, preserved_at);
    return state;
  };
  const std::string path = checkpoint::StatePath(folder_);
  if (lock_.is_held()) return WriteCheckpointState(path, make({}, 0), options_.writer.sync, files());
  // Other managers write it, too: what they have added stays.
  const auto change = [&](const CheckpointState& found) {
    std::map<int64_t, double> others;
    for (size_t i = 0; i < found.all.size(); ++i) {
      int64_t step = 0;
      const bool is_other = checkpoint::ParseStepName(found.all[i], options_.name, &step) && steps_.count(step) == 0;
      if (is_other && gone_.count(step) == 0) others[step] = found.saved_at.empty() ? 0 : found.saved_at[i];
    }
    return make(std::move(others), found.last_preserved_at);
  };
  return UpdateCheckpointState(path, change, options_.writer.sync, files());
}

// An index must never lack its data files. So the indexes are removed first, durably, and then the data files; those of
// deltas before those of their bases.
absl::Status CheckpointManager::Impl::RemoveSteps(const std::vector<int64_t>& steps) {
  if (steps.empty()) return absl::OkStatus();
  std::vector<std::string> data;
  const auto base_of = [this](int64_t step) { return BaseOf(step); };
  for (const int64_t step : checkpoint::DeltasFirst({steps.begin(), steps.end()}, base_of)) {
    const std::string path = checkpoint::IndexPath(PrefixOf(step));
    const bool is_ours = !IsNoFile(path);
    if (is_ours) CASK_RETURN_IF_ERROR(RemoveFile(path, files(), "remove a step that is no longer kept"));
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = steps_.find(step);
    if (is_ours) std::move(known->second.data.begin(), known->second.data.end(), std::back_inserter(data));
    steps_.erase(known);
    passing_.erase(step);
    if (!lock_.is_held()) gone_.insert(step);
  }
  if (options_.writer.sync) CASK_RETURN_IF_ERROR(SyncFolder(folder_, files()));
  return RemoveLeftovers(data);
}

// ---- The handle -----------------------------------------------------------------------------------------------------

CheckpointManager::CheckpointManager(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;

CheckpointManager& CheckpointManager::operator=(CheckpointManager&& other) noexcept {
  if (this != &other) {
    if (impl_ != nullptr) impl_->Close();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

CheckpointManager::~CheckpointManager() {
  if (impl_ != nullptr) impl_->Close();
}

absl::StatusOr<CheckpointManager> CheckpointManager::Open(const std::string& folder,
                                                          const CheckpointManagerOptions& options) {
  CASK_RETURN_IF_ERROR(checkpoint::CheckStepNames(folder, options.name));
  CASK_RETURN_IF_ERROR(CheckOptions(options));
  std::shared_ptr<Impl> impl(new Impl(folder, options), Impl::Delete);
  CASK_RETURN_IF_ERROR(impl->Start());
  return CheckpointManager(std::move(impl));
}

absl::Status CheckpointManager::Save(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add) {
  return impl_->Save(step, add);
}

absl::StatusOr<BackgroundSave> CheckpointManager::SaveInBackground(
    int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add) {
  return impl_->SaveInBackground(step, add);
}

std::vector<int64_t> CheckpointManager::steps() const { return impl_->steps(); }
const std::vector<std::string>& CheckpointManager::notes() const { return impl_->notes(); }
std::string CheckpointManager::PrefixOf(int64_t step) const { return impl_->PrefixOf(step); }

absl::StatusOr<CheckpointReader> CheckpointManager::OpenLatest(CheckpointReaderOptions options, CheckStep check) const {
  options.read.file_system = impl_->files();
  return OpenLatestCheckpoint(impl_->folder(), impl_->name(), std::move(options), check);
}

absl::StatusOr<LatestCheckpoint> CheckpointManager::Latest(CheckStep check) const {
  return FindLatestCheckpoint(impl_->folder(), impl_->name(), check, impl_->files());
}

}  // namespace tensorcask
