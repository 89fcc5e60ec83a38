// mpirun -n 2 sharded_mpi: the saves of sharded.cc, with the ranks of MPI.

#include <mpi.h>

#include <cstdio>
#include <memory>

#include "tensorcask/serialize/mpi/mpi_communicator.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/sharded_bars.h"

int main(int argc, char** argv) {
  using namespace tensorcask::benchmarks;  // NOLINT(google-build-using-namespace): this is its main
  MPI_Init(&argc, &argv);
  std::unique_ptr<tensorcask::Communicator> comm = Require(tensorcask::MakeMpiCommunicator(MPI_COMM_WORLD));
  if (comm->size() != 2) {
    std::fprintf(stderr, "sharded_mpi: %d ranks; wanted 2\n", comm->size());
    return 2;
  }
  {
    const Folder folder = Folder::InMemory();  // that of rank 0 is used
    SaveRows(comm.get(), Require(comm->Broadcast(folder.Path(""), 0)), "MPI");
  }
  comm.reset();
  MPI_Finalize();
  return 0;
}
