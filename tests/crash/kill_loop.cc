#include "tensorcask/tests/crash/kill_loop.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/crash/manager_scenarios.h"
#include "tensorcask/tests/support/faulty_file_system.h"

namespace tensorcask::testing {
namespace {

constexpr Content kContent = Content::kPages;
constexpr int kMaxDelayUs = 50000;

std::string PrefixOf(const std::string& folder, KillTarget target, int64_t version) {
  return target == KillTarget::kNew ? absl::StrCat(folder, "/ckpt-", version) : folder + "/ckpt";
}

CheckpointWriterOptions WriterOptions(KillTarget target, FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = 2;
  options.overwrite = target == KillTarget::kOverwrite;
  return options;
}

CheckpointManagerOptions ManagerOptions(FileSystem* files, bool sync) {
  CheckpointManagerOptions options;
  options.keep_last = 2;
  options.writer = WriterOptions(KillTarget::kManager, files);
  options.writer.sync = sync;
  return options;
}

// Saves, durably or not (they are two ways through the code), versions first, first + 1 ... and calls saved(version)
// after each, until that answers false. Gives an error only.
absl::Status SaveVersions(const std::string& folder, KillTarget target, int64_t first, bool sync, FileSystem* files,
                          absl::FunctionRef<bool(int64_t)> saved) {
  if (target == KillTarget::kManager) {
    CASK_ASSIGN_OR_RETURN(CheckpointManager manager, CheckpointManager::Open(folder, ManagerOptions(files, sync)));
    for (int64_t step = first;; ++step) {
      CASK_RETURN_IF_ERROR(
          manager.Save(step, [&](CheckpointWriter& writer) { return AddContent(kContent, step, 2, &writer); }));
      if (!saved(step)) return absl::OkStatus();
    }
  }
  for (int64_t version = first;; ++version) {
    CheckpointWriterOptions options = WriterOptions(target, files);
    options.sync = sync;
    CASK_RETURN_IF_ERROR(SaveContent(PrefixOf(folder, target, version), kContent, version, options));
    if (!saved(version)) return absl::OkStatus();
  }
}

// Starts a process that does work(pipe) and ends.
pid_t Start(const std::function<void(int pipe)>& work, int* pipe_out) {
  int ends[2];
  CASK_CHECK(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  CASK_CHECK(child >= 0, "fork");
  if (child == 0) {
    close(ends[0]);
    work(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  *pipe_out = ends[0];
  return child;
}

void Tell(int pipe, int64_t version) {
  if (write(pipe, &version, sizeof(version)) != sizeof(version)) _exit(3);
}

// What the child told, when it has ended. `ended_well`: it was killed, or had done all it should.
std::vector<int64_t> Hear(pid_t child, int pipe, bool* ended_well) {
  std::vector<int64_t> told;
  int64_t version = 0;
  while (read(pipe, &version, sizeof(version)) == sizeof(version)) told.push_back(version);
  close(pipe);
  int status = 0;
  CASK_CHECK(waitpid(child, &status, 0) == child, "waitpid");
  *ended_well = (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return told;
}

class Inspector {
 public:
  Inspector(std::string folder, KillTarget target) : folder_(std::move(folder)), target_(target) {}

  KillReport& report() { return report_; }
  int64_t next_version() const { return next_; }

  // After a child that began with next_version() and told these versions: sees what stands, and clears it away but for
  // the checkpoint that is overwritten next.
  void Inspect(const std::vector<int64_t>& told, bool ended_well) {
    ++report_.kills;
    report_.saves += static_cast<int64_t>(told.size());
    if (!ended_well) Fail("the child failed by itself");
    for (const int64_t version : told) {
      if (version != next_) Fail(absl::StrCat("version ", version, " was told for ", next_));
      if (target_ == KillTarget::kNew) Expect(version, {version}, /*may_be_none=*/false);
      last_ = next_++;
    }
    if (target_ == KillTarget::kManager) return InspectSteps();
    // The save that was interrupted, of version next_.
    if (target_ == KillTarget::kNew) {
      Expect(next_, {next_}, /*may_be_none=*/true);
    } else {
      Expect(next_, {last_, next_}, /*may_be_none=*/last_ == 0);
    }
    if (target_ == KillTarget::kOverwrite) return SaveOverAll();
    ClearAway();
    ++next_;  // a name that no interrupted save has
  }

 private:
  void Fail(const std::string& what) {
    if (report_.violations++ == 0) report_.first = absl::StrCat(KillTargetName(target_), ": ", what);
  }

  void InspectSteps() {
    FileSystem* const files = FileSystem::Posix();
    report_.leftovers += CountFiles(folder_, files).temporary;
    const absl::StatusOr<int64_t> newest = CheckSteps(folder_, kContent, last_, ManagerOptions(files, /*sync=*/false));
    if (!newest.ok()) return Fail(newest.status().ToString());
    if (*newest == last_) ++report_.unpublished;
    last_ = *newest + 1;
    next_ = last_ + 1;
    const absl::Status going_on = CheckGoingOn(folder_, kContent, last_, ManagerOptions(files, /*sync=*/false));
    if (!going_on.ok()) Fail(going_on.ToString());
  }

  void Expect(int64_t version, const std::vector<int64_t>& allowed, bool may_be_none) {
    const std::string prefix = PrefixOf(folder_, target_, version);
    const absl::StatusOr<int64_t> found = VersionOf(prefix, kContent, FileSystem::Posix());
    if (!found.ok()) {
      const bool is_none = IsMissing(found.status(), prefix, FileSystem::Posix());
      if (is_none && !may_be_none) ++report_.none;
      if (!is_none || !may_be_none) Fail(absl::StrCat("version ", version, ": ", found.status().ToString()));
      ++report_.unpublished;
      return;
    }
    for (const int64_t one : allowed) {
      if (*found == one) {
        if (one == version) last_ = one;
        if (one != version) ++report_.unpublished;
        return;
      }
    }
    Fail(absl::StrCat("version ", *found, " stands when ", version, " was being saved"));
  }

  // The bytes of the files in the folder that the checkpoint does not need, and how many of them are temporary.
  int64_t BytesOfOthers(int64_t* temporary) {
    FileSystem* const files = FileSystem::Posix();
    std::set<std::string> needed;
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(folder_ + "/ckpt");
    if (reader.ok()) {
      needed.insert(checkpoint::IndexPath("ckpt"));
      const int num_shards = reader->num_shards();
      for (int i = 0; i < num_shards; ++i) needed.insert(checkpoint::DataPath("ckpt", i, num_shards));
    }
    std::vector<std::string> names;
    if (files->List(folder_, &names) < 0) Fail("the folder cannot be listed");
    int64_t bytes = 0;
    for (const std::string& name : names) {
      if (needed.count(name) != 0) continue;
      FileInfo info;
      if (files->Describe(absl::StrCat(folder_, "/", name), &info) < 0)
        Fail(absl::StrCat(name, " cannot be described"));
      bytes += static_cast<int64_t>(info.size_bytes);
      if (absl::StrContains(name, ".tmp-")) {
        ++*temporary;
      } else if (!checkpoint::ParseDataName(name).has_value()) {
        Fail(absl::StrCat(name, " is left"));
      }
    }
    return bytes;
  }

  // The next save, which is not killed, clears away what the kill left.
  void SaveOverAll() {
    report_.left_bytes += BytesOfOthers(&report_.leftovers);
    ++next_;  // a version that no interrupted save has
    const absl::Status saved =
        SaveContent(PrefixOf(folder_, target_, next_), kContent, next_, WriterOptions(target_, FileSystem::Posix()));
    if (!saved.ok()) return Fail(absl::StrCat("saving again: ", saved.ToString()));
    Expect(next_, {next_}, /*may_be_none=*/false);
    last_ = next_++;
    int64_t temporary = 0;
    const int64_t bytes = BytesOfOthers(&temporary);
    report_.still_left += bytes;
    if (bytes > 0 || temporary > 0) {
      Fail(absl::StrCat("saving again left ", bytes, " bytes, ", temporary, " temporary files"));
    }
  }

  void ClearAway() {
    std::vector<std::string> names;
    FileSystem* const files = FileSystem::Posix();
    if (files->List(folder_, &names) < 0) Fail("the folder cannot be listed");
    for (const std::string& name : names) {
      const bool is_temporary = absl::StrContains(name, ".tmp-");
      const bool is_ours = checkpoint::ParseDataName(name).has_value() || absl::EndsWith(name, ".index");
      if (is_temporary) ++report_.leftovers;
      if (!is_temporary && !is_ours) Fail(absl::StrCat(name, " is left"));
      if (is_temporary || target_ == KillTarget::kNew) files->Remove(absl::StrCat(folder_, "/", name));
    }
  }

  const std::string folder_;
  const KillTarget target_;
  KillReport report_;
  int64_t next_ = 1;  // the version that is saved next
  int64_t last_ = 0;  // the one that stands
};

}  // namespace

absl::string_view KillTargetName(KillTarget target) {
  switch (target) {
    case KillTarget::kNew:
      return "new";
    case KillTarget::kOverwrite:
      return "overwrite";
    case KillTarget::kManager:
      return "manager";
  }
  return "?";
}

KillReport RunKillLoop(const std::string& folder, KillTarget target, int kills, uint64_t seed) {
  Inspector inspector(folder, target);
  std::mt19937_64 random(seed);
  while (inspector.report().kills < kills) {
    const bool sync = inspector.report().kills % 2 == 0;
    int pipe = -1;
    const pid_t child = Start(
        [&](int out) {
          const absl::Status status =
              SaveVersions(folder, target, inspector.next_version(), sync, FileSystem::Posix(), [&](int64_t version) {
                Tell(out, version);
                return true;
              });
          _exit(2);  // only an error ends it
        },
        &pipe);
    usleep(static_cast<useconds_t>(random() % kMaxDelayUs));
    kill(child, SIGKILL);
    bool ended_well = false;
    const std::vector<int64_t> told = Hear(child, pipe, &ended_well);
    inspector.Inspect(told, ended_well);
  }
  return inspector.report();
}

KillReport KillAtEachOperation(const std::string& folder, KillTarget target) {
  Inspector inspector(folder, target);
  for (int64_t n = 1;; ++n) {
    int pipe = -1;
    const pid_t child = Start(
        [&](int out) {
          FaultyFileSystem files(FileSystem::Posix());
          files.SetHook([&](int64_t operation, FileOperation, const std::string&) {
            if (operation == n) kill(getpid(), SIGKILL);
          });
          const absl::Status status =
              SaveVersions(folder, target, inspector.next_version(), /*sync=*/true, &files, [&](int64_t version) {
                Tell(out, version);
                return false;
              });
          if (!status.ok()) _exit(2);
        },
        &pipe);
    bool ended_well = false;
    const std::vector<int64_t> told = Hear(child, pipe, &ended_well);
    inspector.Inspect(told, ended_well);
    if (!told.empty()) return inspector.report();  // fewer than n operations: each has had its turn
  }
}

}  // namespace tensorcask::testing
