// The rows of `bars` about checkpoints.

#ifndef TENSORCASK_TESTS_BENCHMARKS_CHECKPOINT_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_CHECKPOINT_BARS_H_

namespace tensorcask::benchmarks {

void CheckpointRows();  // save and load
void BackgroundRow();   // the stall of a save in the background
void LookupRows();      // looks up one of a million tensors

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_CHECKPOINT_BARS_H_
