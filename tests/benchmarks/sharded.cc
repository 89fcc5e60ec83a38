// The rows of `bars` about jobs (tools/dev bench sharded), with threads as ranks; sharded_mpi.cc has them with MPI.

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/sharded_bars.h"

int main() {
  using namespace tensorcask::benchmarks;  // NOLINT(google-build-using-namespace): this is its main
  MergeRows();
  const Folder folder = Folder::InMemory();
  const std::vector<std::unique_ptr<tensorcask::Communicator>> ranks = tensorcask::MakeThreadCommunicators(2);
  std::thread other([&] { SaveRows(ranks[1].get(), folder.Path(""), "threads"); });
  SaveRows(ranks[0].get(), folder.Path(""), "threads");
  other.join();
  if (MissedRows() > 0) std::printf("%d missed\n", MissedRows());
  return 0;
}
