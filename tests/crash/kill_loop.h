// A process that saves, killed by SIGKILL again and again, over real files.
//
//   const KillReport report = RunKillLoop(folder, KillTarget::kOverwrite, /*kills=*/100, /*seed=*/1);
//   EXPECT_EQ(report.violations, 0) << report.first;
//
// The child saves version after version and tells each that succeeded; the parent kills it after a random time of up to
// 50 ms and looks at what there is. (A kill leaves what the system had in its cache: this is about the order of the
// program's steps. crash_search.h is about the disk.)

#ifndef TENSORCASK_TESTS_CRASH_KILL_LOOP_H_
#define TENSORCASK_TESTS_CRASH_KILL_LOOP_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::testing {

enum class KillTarget {
  kNew,        // each version under a prefix of its own: what was told stands, and the next one does or does not
  kOverwrite,  // all under one prefix: what was told last, or the next one. A save of the parent then leaves no file
               // but those of its checkpoint
  kManager,    // versions are steps of a CheckpointManager: the newest is what was told last, or the next one
};
inline constexpr KillTarget kAllKillTargets[] = {KillTarget::kNew, KillTarget::kOverwrite, KillTarget::kManager};
absl::string_view KillTargetName(KillTarget target);

struct KillReport {
  int kills = 0;
  int64_t saves = 0;        // told by the child
  int64_t leftovers = 0;    // temporary files found
  int64_t left_bytes = 0;   // all files that a kill left, except those of the checkpoint (kOverwrite)
  int64_t none = 0;         // kills that left no checkpoint where one stood (kOverwrite); a violation
  int64_t still_left = 0;   // bytes of the files that the next save left of those; a violation
  int64_t unpublished = 0;  // kills that left less than a whole new version
  int64_t violations = 0;
  std::string first;  // what was wrong at the first
};

// Works in `folder`, which is there and empty.
KillReport RunKillLoop(const std::string& folder, KillTarget target, int kills, uint64_t seed);

// The same, killed just before each operation of the save of one version in turn, so that no step is left to chance.
KillReport KillAtEachOperation(const std::string& folder, KillTarget target);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_KILL_LOOP_H_
