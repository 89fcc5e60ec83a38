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
  int writes = 0;             // files made that are not empty, and one write to each; 0: not to be changed
  std::vector<int> switches;  // which syncs are those of files that count as soon as they have their name
  bool overwrites = false;
  int empty = 0;  // which file, as they are made and synced, is empty: no crash can take anything of it; 0: none

  int files() const { return writes > 0 && empty > 0 ? writes + 1 : writes; }
};

std::vector<Work> AllWork() {
  std::vector<Work> all;
  SaveCase save;
  save.num_shards = 2;
  save.content = Content::kPages;  // with half a file no padding alone is lost
  all.push_back({"new", MakeSaveScenario(save), 3, 2, 3, {3}});
  // One data file more, which is empty: the old checkpoint has the names of two.
  save.over = SaveCase::Over::kOld;
  all.push_back({"overwrite", MakeSaveScenario(save), 4, 2, 3, {4}, /*overwrites=*/true, /*empty=*/3});
  save.over = SaveCase::Over::kResharded;
  all.push_back({"overwrite more shards", MakeSaveScenario(save), 3, 2, 3, {3}});
  // The data files of the sources, which were never synced.
  MergeCase merge;
  merge.content = Content::kPages;
  merge.sources_synced = false;
  all.push_back({"merge", MakeMergeScenario(merge), 3, 2, 0, {3}});
  merge.overwrite = true;
  all.push_back({"merge over", MakeMergeScenario(merge), 4, 2, 0, {4}, /*overwrites=*/true, /*empty=*/3});
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
    if (n == work.empty) continue;
    all.push_back({Mutation::kDropSync, n, absl::StrCat("sync ", n, " dropped")});
    all.push_back({Mutation::kIgnoreFailedSync, n, absl::StrCat("failure of sync ", n, " ignored")});
    all.push_back({Mutation::kRetryFailedSync, n, absl::StrCat("failed sync ", n, " tried again")});
  }
  for (int n = 1; n <= work.files(); ++n) {
    if (n == work.empty) continue;
    all.push_back({Mutation::kIgnoreFailedClose, n, absl::StrCat("failure of close ", n, " ignored")});
  }
  for (int n = 1; n <= work.writes; ++n) {
    all.push_back({Mutation::kIgnoreShortWrite, n, absl::StrCat("short write ", n, " ignored")});
  }
  for (int n = 1; n <= work.folder_syncs; ++n) {
    all.push_back({Mutation::kDropFolderSync, n, absl::StrCat("folder sync ", n, " dropped")});
  }
  // (Data files may be renamed first: they are not read before the index exists.)
  for (const int n : work.switches) {
    all.push_back({Mutation::kRenameBeforeSync, n, absl::StrCat("file ", n, " renamed before its sync")});
  }
  all.push_back({Mutation::kIndexFirst, 1, "index published before data"});
  if (work.overwrites) {
    all.push_back({Mutation::kOldIndexUnseen, 1, "new data under the names of the old"});
    all.push_back({Mutation::kRemoveIndexFirst, 1, "old index removed first"});
    all.push_back({Mutation::kRemoveDataFirst, 1, "old data removed before the new index stands"});
  }
  if (work.name == "manager") all.push_back({Mutation::kRemoveFirst, 1, "old step removed before the new one stands"});
  return all;
}

std::vector<Mutation> FaultsIn(const Work& work) {
  std::vector<Mutation> all;
  for (int n = 1; n <= work.syncs; ++n) {
    all.push_back({Mutation::kFailSync, n, absl::StrCat("sync ", n, " fails")});
  }
  for (int n = 1; n <= work.files(); ++n) {
    all.push_back({Mutation::kFailClose, n, absl::StrCat("close ", n, " fails")});
  }
  for (int n = 1; n <= work.writes; ++n) {
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
