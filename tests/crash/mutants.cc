#include "tensorcask/tests/crash/mutants.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "tensorcask/tests/crash/manager_scenarios.h"
#include "tensorcask/tests/crash/merge_scenarios.h"
#include "tensorcask/tests/crash/save_scenarios.h"

namespace tensorcask::testing {
namespace {

// Something that is done, and how many there are of what a mistake can be about.
struct Work {
  std::string name;
  std::unique_ptr<Scenario> scenario;
  int syncs = 0;
  int folder_syncs = 0;
  int writes = 0;             // files made, and one write to each; 0: not to be changed
  std::vector<int> switches;  // which syncs are those of files that count as soon as they have their name
  bool removes_index = false;
};

std::vector<Work> AllWork() {
  std::vector<Work> all;
  SaveCase save;
  save.num_shards = 2;
  save.content = Content::kPages;  // with half a file no padding alone is lost
  all.push_back({"new", MakeSaveScenario(save), 3, 2, 3, {3}});
  // The old index is removed, which takes one sync of the folder; then come that of the data files and that of the
  // index.
  save.over = SaveCase::Over::kOld;
  all.push_back({"overwrite", MakeSaveScenario(save), 3, 3, 3, {3}, true});
  // The data files of the sources, which nobody synced.
  MergeCase merge;
  merge.content = Content::kPages;
  merge.sources_synced = false;
  all.push_back({"merge", MakeMergeScenario(merge), 3, 2, 0, {3}});
  // The step, the state file, and the removal of the step before.
  ManagerCase run;
  run.content = Content::kPages;
  run.first_step = 3;
  run.num_steps = 1;
  run.keep_last = 1;
  all.push_back({"manager", MakeManagerScenario(run), 4, 4, 4, {3, 4}});
  return all;
}

std::vector<Mutation> MistakesIn(const Work& work) {
  std::vector<Mutation> all;
  for (int n = 1; n <= work.syncs; ++n) {
    all.push_back({Mutation::kDropSync, n, absl::StrCat("sync ", n, " dropped")});
    all.push_back({Mutation::kIgnoreFailedSync, n, absl::StrCat("failure of sync ", n, " ignored")});
    all.push_back({Mutation::kRetryFailedSync, n, absl::StrCat("failed sync ", n, " tried again")});
  }
  for (int n = 1; n <= work.writes; ++n) {
    all.push_back({Mutation::kIgnoreFailedClose, n, absl::StrCat("failure of close ", n, " ignored")});
    all.push_back({Mutation::kIgnoreShortWrite, n, absl::StrCat("short write ", n, " ignored")});
  }
  for (int n = 1; n <= work.folder_syncs; ++n) {
    all.push_back({Mutation::kDropFolderSync, n, absl::StrCat("folder sync ", n, " dropped")});
  }
  // (Data files may be renamed first: nobody looks at them before the index stands.)
  for (const int n : work.switches) {
    all.push_back({Mutation::kRenameBeforeSync, n, absl::StrCat("file ", n, " renamed before its sync")});
  }
  all.push_back({Mutation::kIndexFirst, 1, "index published before data"});
  if (work.removes_index) all.push_back({Mutation::kKeepOldIndex, 1, "old index not removed first"});
  if (work.name == "manager") all.push_back({Mutation::kRemoveFirst, 1, "old step removed before the new one stands"});
  return all;
}

std::vector<Mutation> FaultsIn(const Work& work) {
  std::vector<Mutation> all;
  for (int n = 1; n <= work.syncs; ++n) {
    all.push_back({Mutation::kFailSync, n, absl::StrCat("sync ", n, " fails")});
  }
  for (int n = 1; n <= work.writes; ++n) {
    all.push_back({Mutation::kFailClose, n, absl::StrCat("close ", n, " fails")});
    all.push_back({Mutation::kShortWrite, n, absl::StrCat("write ", n, " is short")});
  }
  return all;
}

}  // namespace

std::vector<MutantVerdict> TryMutants() {
  std::vector<MutantVerdict> all;
  for (const Work& work : AllWork()) {
    for (const Mutation& mistake : MistakesIn(work)) {
      const CrashFindings found =
          SearchForCrashes(*work.scenario, CrashMode::kWeak, {}, mistake, /*stop_at_first=*/true);
      all.push_back(
          {absl::StrCat(work.name, ": ", mistake.name), found.mutation_done, found.violations > 0, found.first});
    }
    // One place further there is nothing to be mistaken about: every place was tried.
    for (const Mutation& beyond : {Mutation{Mutation::kDropSync, work.syncs + 1, "sync beyond the last"},
                                   Mutation{Mutation::kDropFolderSync, work.folder_syncs + 1, "folder sync beyond"}}) {
      const CrashFindings found = SearchForCrashes(*work.scenario, CrashMode::kProcess, {}, beyond);
      if (found.mutation_done) all.push_back({absl::StrCat(work.name, ": ", beyond.name), true, false, ""});
    }
  }
  return all;
}

std::vector<FaultVerdict> TryFaults() {
  std::vector<FaultVerdict> all;
  for (const Work& work : AllWork()) {
    for (const Mutation& fault : FaultsIn(work)) {
      const CrashFindings found = SearchForCrashes(*work.scenario, CrashMode::kWeak, {}, fault);
      all.push_back({absl::StrCat(work.name, ": ", fault.name), found.mutation_done, found});
    }
  }
  return all;
}

}  // namespace tensorcask::testing
