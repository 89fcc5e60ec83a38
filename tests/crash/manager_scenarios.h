// The steps of a training run, saved one after the other by CheckpointManager.

#ifndef TENSORCASK_TESTS_CRASH_MANAGER_SCENARIOS_H_
#define TENSORCASK_TESTS_CRASH_MANAGER_SCENARIOS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/crash/scenario.h"

namespace tensorcask::testing {

struct ManagerCase {
  int first_step = 1;  // steps before it were saved, and are durable
  int num_steps = 2;   // are saved
  int keep_last = 2;
  int64_t keep_every = 0;
  Content content = Content::kSmall;
  bool sync = true;
  bool background = false;
};

// The promises: the newest whole step is the last whose Save returned OK or the one after; no newer one stands half;
// the steps to be kept stand; the state file is whole and names steps that stand; opening the folder anew removes what
// was left, and saving goes on.
std::unique_ptr<Scenario> MakeManagerScenario(const ManagerCase& run);

Scenarios AllManagerScenarios();

// What of that can be told from the folder, when the last save that returned OK was that of step `last` (0: none).
// Gives the newest step (0: none). Step s holds version s of `content`.
absl::StatusOr<int64_t> CheckSteps(const std::string& folder, Content content, int64_t last,
                                   const CheckpointManagerOptions& options);

// Opens the folder, looks that nothing unneeded is left, and saves step `next`.
absl::Status CheckGoingOn(const std::string& folder, Content content, int64_t next,
                          const CheckpointManagerOptions& options);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_MANAGER_SCENARIOS_H_
