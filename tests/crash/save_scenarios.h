// Saving a checkpoint, new or over an old one.

#ifndef TENSORCASK_TESTS_CRASH_SAVE_SCENARIOS_H_
#define TENSORCASK_TESTS_CRASH_SAVE_SCENARIOS_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tests/crash/content.h"
#include "tensorcask/tests/crash/scenario.h"

namespace tensorcask::testing {

struct SaveCase {
  enum class Over {
    kNothing,
    kOld,          // a checkpoint of as many shards
    kResharded,    // one of one shard more
    kFewerShards,  // one of one shard less
    kOverwritten,  // one of as many shards that was overwritten once before
    kInterrupted,  // one of as many shards, and all that an overwriting save leaves which was killed last of all
    kDebris        // data files without an index, and temporary files, as a killed save leaves them
  };
  Over over = Over::kNothing;
  int num_shards = 1;
  Content content = Content::kSmall;
  bool sync = true;
  int num_threads = 1;
  bool background = false;
};

// The promises: the checkpoint is the old one or the new one, bit by bit; where there was no old one, it is the new one
// or there is none. After the save has returned OK it is the new one. Nothing else than temporary files (*.tmp-*) and
// data files of the checkpoint is left; and saving again on top of it all works, and leaves no file but those of the
// checkpoint and data files that no index listed before.
std::unique_ptr<Scenario> MakeSaveScenario(const SaveCase& save);

Scenarios AllSaveScenarios();

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_SAVE_SCENARIOS_H_
