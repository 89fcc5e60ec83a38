// The ranks of an MPI job as a Communicator, for ShardedSave and ShardedLoad.
//
//   MPI_Init(&argc, &argv);
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm, MakeMpiCommunicator(MPI_COMM_WORLD));
//   CASK_RETURN_IF_ERROR(ShardedSave(comm.get(), "/models/step-100", pieces).status());
//
// Links MPI; nothing else of the library does. Any MPI from version 2 on. Counts of MPI are int, so bytes travel in
// chunks of 256 MiB. By default an MPI job ends when a rank dies (mpirun exits with 137 after SIGKILL), and then no
// call returns. An error that MPI reports to its caller is Unavailable, with MPI's own text.

#ifndef TENSORCASK_SERIALIZE_MPI_MPI_COMMUNICATOR_H_
#define TENSORCASK_SERIALIZE_MPI_MPI_COMMUNICATOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <mpi.h>

#include <memory>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/sharded/communicator.h"

namespace tensorcask {

// Every rank of `comm` calls it: it makes a communicator of its own (MPI_Comm_dup), so that messages of the program and
// of the library never meet. Destroy it before MPI_Finalize, by all ranks. The thread that uses it may call MPI.
// Errors: FailedPrecondition before MPI_Init and after MPI_Finalize; Unavailable for an error of MPI.
absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator(MPI_Comm comm);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_MPI_MPI_COMMUNICATOR_H_
