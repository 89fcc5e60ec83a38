#include "tensorcask/serialize/checkpoint/manager.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/internal/index_walk.h"
#include "tensorcask/serialize/checkpoint/internal/make_folder.h"
#include "tensorcask/serialize/checkpoint/internal/step_folder.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using checkpoint::PathIn;
using checkpoint::StepFolder;
using internal::RetryInterrupted;

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

absl::string_view WithoutTrailingSlashes(absl::string_view folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  return folder;
}

absl::Status CheckNames(const std::string& folder, const std::string& name) {
  CASK_RETURN_IF_ERROR(CheckPath(folder));
  if (name.empty() || name.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("a checkpoint manager's name is ", Quoted(name), "; wanted a name without a slash"));
  }
  // The longest.
  return checkpoint::CheckNewPrefix(checkpoint::StepPrefix(folder, name, INT64_MAX));
}

absl::Status CheckOptions(const CheckpointManagerOptions& options) {
  if (options.keep_last < 1) {
    return absl::InvalidArgumentError(absl::StrCat("keep_last is ", options.keep_last, "; wanted 1 or more"));
  }
  if (options.keep_every < 0) {
    return absl::InvalidArgumentError(absl::StrCat("keep_every is ", options.keep_every, "; wanted 0 or more"));
  }
  if (options.writer.overwrite) {
    return absl::InvalidArgumentError("a checkpoint manager's writer has overwrite set; steps are not overwritten");
  }
  return absl::OkStatus();
}

// Whether there is a step that can be passed over: it is damaged, or of a newer version. The rest is what keeps us from
// looking; an EIO may pass, and says nothing of what is on the disk.
bool CanBePassedOver(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:  // no regular file
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- Finding --------------------------------------------------------------------------------------------------------

absl::StatusOr<LatestCheckpoint> FindLatestCheckpoint(const std::string& folder, const std::string& name,
                                                      CheckStep check, FileSystem* file_system) {
  // Each time that a step goes while it is looked at, there are newer ones, or somebody removes all by hand.
  constexpr int kMaxRounds = 100;
  std::set<int64_t> gone;  // looked for twice in vain: a name in the list that leads nowhere
  CASK_RETURN_IF_ERROR(CheckNames(folder, name));
  LatestCheckpoint latest;
  for (int round = 0; round < kMaxRounds; ++round) {
    CASK_ASSIGN_OR_RETURN(const StepFolder found, checkpoint::ListSteps(folder, name, file_system));
    bool went = false;
    latest.skipped.clear();
    for (auto it = found.steps.rbegin(); it != found.steps.rend() && !went; ++it) {
      if (!it->second.has_index) continue;
      latest.step = it->first;
      latest.prefix = checkpoint::StepPrefix(folder, name, latest.step);
      absl::Status whole = checkpoint::CheckWhole(latest.prefix, check == CheckStep::kEverything, file_system);
      if (whole.ok()) return latest;
      FileInfo info;
      const IoResult index =
          RetryInterrupted([&] { return file_system->Describe(checkpoint::IndexPath(latest.prefix), &info); });
      went = (index == -ENOENT || absl::IsNotFound(whole)) && gone.insert(latest.step).second;
      if (!went && !CanBePassedOver(whole)) return whole;
      latest.skipped.push_back({latest.step, std::move(whole)});
    }
    if (!went) break;
  }
  constexpr size_t kMaxNamed = 3;
  std::string message = absl::StrCat(folder, ": holds no whole checkpoint ", Quoted(name + "-STEP"));
  for (size_t i = 0; i < std::min(latest.skipped.size(), kMaxNamed); ++i) {
    const SkippedStep& skipped = latest.skipped[i];
    absl::StrAppend(&message, "; step ", skipped.step, ": ", skipped.why.message());
  }
  if (latest.skipped.size() > kMaxNamed) {
    absl::StrAppend(&message, "; and ", latest.skipped.size() - kMaxNamed, " more");
  }
  return absl::NotFoundError(message);
}

// ---- Saving ---------------------------------------------------------------------------------------------------------

class CheckpointManager::Impl : public std::enable_shared_from_this<CheckpointManager::Impl> {
 public:
  Impl(absl::string_view folder, const CheckpointManagerOptions& options)
      : folder_(WithoutTrailingSlashes(folder)), options_(options) {}
  ~Impl() { Unlock(); }

  absl::Status Start();
  absl::Status Save(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);
  absl::StatusOr<BackgroundSave> SaveInBackground(int64_t step, absl::FunctionRef<absl::Status(CheckpointWriter&)> add);
  // Waits for a save in the background and gives the lock back.
  void Close() {
    WaitUntilIdle();
    Unlock();
  }

  const std::string& folder() const { return folder_; }
  const std::string& name() const { return options_.name; }
  FileSystem* files() const { return options_.writer.file_system; }
  std::string PrefixOf(int64_t step) const { return checkpoint::StepPrefix(folder_, options_.name, step); }
  std::vector<int64_t> steps() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> steps;
    for (const auto& [step, known] : steps_) steps.push_back(step);
    return steps;
  }

 private:
  // A step that stands.
  struct Step {
    std::vector<std::string> data;  // the names of its data files
    double saved_at = 0;
  };

  absl::Status Lock();
  void Unlock() {
    if (lock_ >= 0) files()->Close(std::exchange(lock_, -1));
  }
  void WaitUntilIdle() {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [&] { return !running_; });
  }
  void SetRunning(bool running) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ = running;
    if (!running) idle_.notify_all();
  }

  void TakeTimesFromStateFile();
  bool IsNoFile(const std::string& path) const;  // but something else
  absl::Status Scan();
  absl::StatusOr<CheckpointWriter> Begin(int64_t step, bool background);
  absl::Status End(int64_t step);
  std::vector<int64_t> NoLongerKept(int64_t saved) const;
  absl::Status WriteState(int64_t saved, const std::vector<int64_t>& removed) const;
  absl::Status RemoveSteps(const std::vector<int64_t>& steps);
  absl::Status RemoveLeftovers(const std::vector<std::string>& names);

  bool IsKeptForGood(int64_t step) const { return options_.keep_every > 0 && step % options_.keep_every == 0; }

  const std::string folder_;
  CheckpointManagerOptions options_;
  IoResult lock_ = -1;
  // Something failed: the folder may hold more, or less, than steps_ says.
  bool in_doubt_ = false;
  std::map<int64_t, double> times_;  // of steps, as the state file had them when we came
  double last_preserved_at_ = 0;

  // A save in the background changes what follows; nobody else does meanwhile, and steps() may look.
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool running_ = false;
  std::map<int64_t, Step> steps_;
  std::set<int64_t> passing_;  // those of steps_ that are not kept for good
};

absl::Status CheckpointManager::Impl::Start() {
  CASK_RETURN_IF_ERROR(checkpoint::MakeFolderFor(checkpoint::StatePath(folder_), options_.writer.sync, files()));
  CASK_RETURN_IF_ERROR(Lock());
  TakeTimesFromStateFile();
  return Scan();
}

absl::Status CheckpointManager::Impl::Lock() {
  const std::string path = checkpoint::LockPath(folder_, options_.name);
  const IoResult handle = RetryInterrupted([&] { return files()->Lock(path); });
  if (handle == -EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is locked by another checkpoint manager of this folder; close it or end its process (",
                     "\"fuser\" with this path names it). Removing the file does not help"));
  }
  if (handle < 0) return IoError(handle, path, "lock");
  lock_ = handle;
  return absl::OkStatus();
}

// They are all that is wanted of it: it was written for TensorFlow.
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
  FileInfo info;
  return RetryInterrupted([&] { return files()->Describe(path, &info); }) >= 0 && info.type != FileInfo::Type::kRegular;
}

// Looks what there is, and removes what saves left that were killed or that failed.
absl::Status CheckpointManager::Impl::Scan() {
  CASK_ASSIGN_OR_RETURN(StepFolder found, checkpoint::ListSteps(folder_, options_.name, files()));
  // The newest are looked at, so that what is no step does not take the place of one that is to be kept. Others when
  // they are to be removed: there may be many.
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
    const auto time = times_.find(step);
    steps[step] = {std::move(files_of_step.data), known != steps_.end()  ? known->second.saved_at
                                                  : time != times_.end() ? time->second
                                                                         : now};
    if (!IsKeptForGood(step)) passing.insert(passing.end(), step);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    steps_ = std::move(steps);
    passing_ = std::move(passing);
  }
  return RemoveLeftovers(leftovers);
}

absl::Status CheckpointManager::Impl::RemoveLeftovers(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = PathIn(folder_, name);
    const IoResult removed = RetryInterrupted([&] { return files()->Remove(path); });
    // A folder is nothing that a save makes.
    if (removed < 0 && removed != -ENOENT && removed != -EISDIR)
      return IoError(removed, path, "remove what a save left");
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointWriter> CheckpointManager::Impl::Begin(int64_t step, bool background) {
  WaitUntilIdle();
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("a checkpoint's step is ", step, "; wanted 0 or more"));
  if (in_doubt_) CASK_RETURN_IF_ERROR(Scan());
  const std::string prefix = PrefixOf(step);
  if (steps_.count(step) != 0) {
    // A run that went on from an older step comes to the damaged one again. What may be whole is never removed.
    const absl::Status whole = checkpoint::CheckWhole(prefix, /*everything=*/true, files());
    if (whole.ok()) return absl::AlreadyExistsError(absl::StrCat(prefix, ": this step is saved already"));
    if (!absl::IsDataLoss(whole) && !absl::IsNotFound(whole)) {
      return absl::Status(whole.code(), absl::StrCat(prefix, ": this step is there, and only one that is damaged is ",
                                                     "replaced: ", whole.message()));
    }
    in_doubt_ = true;
    CASK_RETURN_IF_ERROR(RemoveSteps({step}));
  }
  in_doubt_ = true;  // until all is done
  CheckpointWriterOptions options = options_.writer;
  options.background = background;
  return CheckpointWriter::Create(prefix, options);
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
  SetRunning(true);
  // std::function copies what it holds.
  return BackgroundSave(
      [self = shared_from_this(), step, save = std::make_shared<CheckpointWriter>(std::move(writer))] {
        absl::Status status = save->Finish();
        if (status.ok()) status = self->End(step);
        self->SetRunning(false);
        return status;
      });
}

// What follows when the step is durable.
absl::Status CheckpointManager::Impl::End(int64_t step) {
  Step saved;
  saved.saved_at = SecondsSince1970();
  for (int shard = 0; shard < options_.writer.num_shards; ++shard) {
    const std::string path = checkpoint::DataPath(PrefixOf(step), shard, options_.writer.num_shards);
    saved.data.push_back(path.substr(path.rfind('/') + 1));
  }
  if (IsKeptForGood(step)) last_preserved_at_ = saved.saved_at;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    steps_[step] = std::move(saved);
    if (!IsKeptForGood(step)) passing_.insert(step);
  }
  const std::vector<int64_t> remove = NoLongerKept(step);
  absl::Status status = WriteState(step, remove);
  if (status.ok()) status = RemoveSteps(remove);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(PrefixOf(step), ": the step is saved, but ", status.message()));
  }
  in_doubt_ = false;
  return absl::OkStatus();
}

// Not the step that was just saved, whatever its number: a run may have gone back.
std::vector<int64_t> CheckpointManager::Impl::NoLongerKept(int64_t saved) const {
  const auto keep = static_cast<size_t>(options_.keep_last);
  if (steps_.size() <= keep) return {};
  const int64_t oldest_kept = std::prev(steps_.end(), static_cast<std::ptrdiff_t>(keep))->first;
  std::vector<int64_t> steps;
  for (const int64_t step : passing_) {
    if (step >= oldest_kept) break;
    if (step != saved) steps.push_back(step);
  }
  return steps;
}

// As TensorFlow has it, whose own manager removes what stands here: those that are not kept for good, and the newest
// one.
absl::Status CheckpointManager::Impl::WriteState(int64_t saved, const std::vector<int64_t>& removed) const {
  CheckpointState state;
  const auto add = [&](int64_t step) {
    state.latest = absl::StrCat(options_.name, "-", step);
    state.all.push_back(state.latest);
    state.saved_at.push_back(steps_.at(step).saved_at);
  };
  for (const int64_t step : passing_) {
    if (step != saved && !std::binary_search(removed.begin(), removed.end(), step)) add(step);
  }
  add(saved);
  state.last_preserved_at = last_preserved_at_;
  return WriteCheckpointState(checkpoint::StatePath(folder_), state, options_.writer.sync, files());
}

// An index that stands has its data: first the former go, for good, then the latter.
absl::Status CheckpointManager::Impl::RemoveSteps(const std::vector<int64_t>& steps) {
  if (steps.empty()) return absl::OkStatus();
  std::vector<std::string> data;
  for (const int64_t step : steps) {
    const std::string path = checkpoint::IndexPath(PrefixOf(step));
    const bool is_ours = !IsNoFile(path);
    const IoResult removed = is_ours ? RetryInterrupted([&] { return files()->Remove(path); }) : 0;
    if (removed < 0 && removed != -ENOENT) return IoError(removed, path, "remove a step that is no longer kept");
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = steps_.find(step);
    if (is_ours) std::move(known->second.data.begin(), known->second.data.end(), std::back_inserter(data));
    steps_.erase(known);
    passing_.erase(step);
  }
  if (options_.writer.sync) {
    const IoResult synced = RetryInterrupted([&] { return files()->SyncFolder(folder_); });
    if (synced < 0) return IoError(synced, folder_, "sync the folder");
  }
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
  CASK_RETURN_IF_ERROR(CheckNames(folder, options.name));
  CASK_RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_shared<Impl>(folder, options);
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
std::string CheckpointManager::PrefixOf(int64_t step) const { return impl_->PrefixOf(step); }

absl::StatusOr<LatestCheckpoint> CheckpointManager::Latest(CheckStep check) const {
  return FindLatestCheckpoint(impl_->folder(), impl_->name(), check, impl_->files());
}

}  // namespace tensorcask
