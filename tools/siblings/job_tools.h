// What the program has from MPI. As with gRPC (remote_tools.h), two programs are made of the same commands:
// `tensorcask`, and `tensorcask-mpi`, which is linked with MPI. Where mpirun has started several processes of the first
// one for a command that runs as a job, each runs the second one in its place.

#ifndef TENSORCASK_TOOLS_SIBLINGS_JOB_TOOLS_H_
#define TENSORCASK_TOOLS_SIBLINGS_JOB_TOOLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/sharded/communicator.h"

namespace tensorcask::tools {

struct JobTools {
  // This process as a rank of the job that mpirun has started, until the communicator is destroyed. Called once.
  absl::StatusOr<std::unique_ptr<Communicator>> (*join)();
};

// Of this program; null without MPI. Defined beside main.
const JobTools* LinkedJobTools();

// What the commands use: main gives it what LinkedJobTools returns.
void SetJobTools(const JobTools* tools);
const JobTools* GetJobTools();

// Whether a command with these arguments runs as a job, and mpirun or the like has started this process.
bool RunsInJob(absl::Span<const std::string> arguments);
// Runs `tensorcask-mpi` in place of this process. Returns only errors: as RunSiblingProgram.
absl::Status RunJobProgram(char** argv);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SIBLINGS_JOB_TOOLS_H_
