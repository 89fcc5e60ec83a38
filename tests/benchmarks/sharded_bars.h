// The rows of `sharded` (tools/dev bench sharded): checkpoints that the ranks of a job write, and merges.

#ifndef TENSORCASK_TESTS_BENCHMARKS_SHARDED_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_SHARDED_BARS_H_

#include <string>

#include "tensorcask/serialize/sharded/communicator.h"

namespace tensorcask::benchmarks {

// Merges of a million entries, and opening a checkpoint of 100,000 pieces. Forks: call it before there are threads.
void MergeRows();

// Saves of two ranks beside saves of one, and beside loops that only write. Both ranks of `comm` call it, with the same
// folder, which is in memory; rank 0 prints. `engine` is what runs the ranks. Requires: comm.size() == 2.
void SaveRows(Communicator* comm, const std::string& folder, const std::string& engine);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_SHARDED_BARS_H_
