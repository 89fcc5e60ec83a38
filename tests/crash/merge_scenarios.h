// Merging two checkpoints into one.

#ifndef TENSORCASK_TESTS_CRASH_MERGE_SCENARIOS_H_
#define TENSORCASK_TESTS_CRASH_MERGE_SCENARIOS_H_

#include <memory>

#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/crash/scenario.h"

namespace tensorcask::testing {

struct MergeCase {
  Content content = Content::kSmall;
  bool overwrite = false;  // a merged checkpoint of an older version stands there
  bool remove_sources = false;
  bool sources_synced = true;  // false: written just before, and nothing of them is durable
};

// The promises: the merged checkpoint is whole or not there (overwriting: whole or the old one); after the merge has
// returned OK it is there. The sources stand, unless they are to be removed and the merged one stands. Merging
// again leaves no temporary file.
std::unique_ptr<Scenario> MakeMergeScenario(const MergeCase& merge);

Scenarios AllMergeScenarios();

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_MERGE_SCENARIOS_H_
