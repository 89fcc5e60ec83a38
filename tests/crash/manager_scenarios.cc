#include "tensorcask/tests/crash/manager_scenarios.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::testing {
namespace {

constexpr char kFolder[] = "/model/run";

std::string PrefixOf(const std::string& folder, int64_t step) { return absl::StrCat(folder, "/ckpt-", step); }

// The steps that are to stand when all up to `last` were saved.
std::set<int64_t> KeptOf(int64_t last, const CheckpointManagerOptions& options) {
  std::set<int64_t> kept;
  for (int64_t step = 1; step <= last; ++step) {
    const bool for_good = options.keep_every > 0 && step % options.keep_every == 0;
    if (for_good || step > last - options.keep_last) kept.insert(step);
  }
  return kept;
}

absl::Status CheckStep(const std::string& folder, Content content, int64_t step, FileSystem* files) {
  CASK_ASSIGN_OR_RETURN(const int64_t version, VersionOf(PrefixOf(folder, step), content, files));
  if (version == step) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("step ", step, " holds version ", version));
}

class ManagerScenario final : public Scenario {
 public:
  explicit ManagerScenario(const ManagerCase& run) : run_(run) {}

  std::string name() const override {
    return absl::StrCat("manager, steps ", run_.first_step, " to ", run_.first_step + run_.num_steps - 1, ", keep ",
                        run_.keep_last, run_.keep_every > 0 ? absl::StrCat(" and each ", run_.keep_every) : "", ", ",
                        ContentName(run_.content), run_.sync ? "" : ", no sync", run_.background ? ", background" : "");
  }

  bool durable() const override { return run_.sync; }

  absl::Status Prepare(FileSystem* files) const override {
    files->MakeFolder("/model");
    return run_.first_step == 1 ? absl::OkStatus() : SaveSteps(files, 1, run_.first_step - 1, [] {});
  }

  absl::Status Run(FileSystem* files, absl::FunctionRef<void()> promise) const override {
    return SaveSteps(files, run_.first_step, run_.num_steps, promise);
  }

  absl::Status Check(MemoryFileSystem* files, int promises) const override {
    const int64_t last = run_.first_step - 1 + promises;
    CASK_ASSIGN_OR_RETURN(const int64_t newest, CheckSteps(kFolder, run_.content, last, Options(files)));
    return CheckGoingOn(kFolder, run_.content, newest + 1, Options(files));
  }

 private:
  CheckpointManagerOptions Options(FileSystem* files) const {
    CheckpointManagerOptions options;
    options.keep_last = run_.keep_last;
    options.keep_every = run_.keep_every;
    options.writer.file_system = files;
    options.writer.num_shards = 2;
    options.writer.sync = run_.sync;
    return options;
  }

  absl::Status SaveSteps(FileSystem* files, int64_t first, int count, absl::FunctionRef<void()> promise) const {
    CASK_ASSIGN_OR_RETURN(CheckpointManager manager, CheckpointManager::Open(kFolder, Options(files)));
    for (int64_t step = first; step < first + count; ++step) {
      const auto add = [&](CheckpointWriter& writer) { return AddContent(run_.content, step, 2, &writer); };
      if (run_.background) {
        CASK_ASSIGN_OR_RETURN(BackgroundSave save, manager.SaveInBackground(step, add));
        CASK_RETURN_IF_ERROR(save.Wait());
      } else {
        CASK_RETURN_IF_ERROR(manager.Save(step, add));
      }
      promise();
    }
    return absl::OkStatus();
  }

  const ManagerCase run_;
};

}  // namespace

absl::StatusOr<int64_t> CheckSteps(const std::string& folder, Content content, int64_t last,
                                   const CheckpointManagerOptions& options) {
  FileSystem* const files = options.writer.file_system;
  const absl::StatusOr<LatestCheckpoint> latest =
      FindLatestCheckpoint(folder, options.name, CheckStep::kEverything, files);
  int64_t newest = 0;
  if (latest.ok()) {
    newest = latest->step;
    // An index stands only if all that it names is durable.
    if (!latest->skipped.empty()) return latest->skipped[0].why;
  } else if (!absl::IsNotFound(latest.status())) {
    return latest.status();
  }
  if (newest != last && newest != last + 1) {
    return absl::InternalError(absl::StrCat("step ", last, " was saved, and the newest is ", newest));
  }
  for (const int64_t step : KeptOf(newest, options)) CASK_RETURN_IF_ERROR(CheckStep(folder, content, step, files));
  constexpr int64_t kLookedAt = 20;
  for (int64_t step = std::max<int64_t>(1, newest - kLookedAt); step <= newest; ++step) {  // or gone, but not by half
    const absl::Status found = CheckStep(folder, content, step, files);
    if (!found.ok() && !IsMissing(found, PrefixOf(folder, step), files)) return found;
  }

  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(folder + "/checkpoint", files);
  if (!state.ok() && !absl::IsNotFound(state.status())) return state.status();
  if (!state.ok() && last > 0) return absl::InternalError("the state file is gone");
  if (!state.ok()) return newest;
  std::vector<std::string> named = state->all;
  named.push_back(state->latest);
  for (const std::string& prefix : named) {
    CASK_RETURN_IF_ERROR(VersionOf(absl::StrCat(folder, "/", prefix), content, files).status());
  }
  return newest;
}

absl::Status CheckGoingOn(const std::string& folder, Content content, int64_t next,
                          const CheckpointManagerOptions& options) {
  FileSystem* const files = options.writer.file_system;
  CASK_ASSIGN_OR_RETURN(CheckpointManager manager, CheckpointManager::Open(folder, options));
  CASK_RETURN_IF_ERROR(manager.Save(
      next, [&](CheckpointWriter& writer) { return AddContent(content, next, options.writer.num_shards, &writer); }));
  const std::set<int64_t> kept = KeptOf(next, options);
  const std::vector<int64_t> steps = manager.steps();
  if (std::set<int64_t>(steps.begin(), steps.end()) != kept) {
    return absl::InternalError(absl::StrCat("saved step ", next, ", and ", steps.size(), " steps stand"));
  }
  for (const int64_t step : kept) CASK_RETURN_IF_ERROR(CheckStep(folder, content, step, files));

  std::vector<std::string> names;
  files->List(folder, &names);
  // Each step has its data files and its index; beside them stand the lock and the state file.
  const size_t wanted = kept.size() * static_cast<size_t>(options.writer.num_shards + 1) + 2;
  if (names.size() == wanted) return absl::OkStatus();
  std::string unneeded;
  for (const std::string& name : names) absl::StrAppend(&unneeded, " ", name);
  return absl::InternalError(absl::StrCat("opened anew, and there are", unneeded));
}

std::unique_ptr<Scenario> MakeManagerScenario(const ManagerCase& run) { return std::make_unique<ManagerScenario>(run); }

Scenarios AllManagerScenarios() {
  Scenarios all;
  ManagerCase run;
  all.push_back(MakeManagerScenario(run));  // a new folder
  run.first_step = 4;
  all.push_back(MakeManagerScenario(run));
  run.keep_last = 1;
  all.push_back(MakeManagerScenario(run));
  run.keep_every = 2;
  all.push_back(MakeManagerScenario(run));
  run.content = Content::kMany;
  all.push_back(MakeManagerScenario(run));
  run.content = Content::kPages;
  run.background = true;
  all.push_back(MakeManagerScenario(run));
  run.background = false;
  run.sync = false;
  all.push_back(MakeManagerScenario(run));
  return all;
}

}  // namespace tensorcask::testing
