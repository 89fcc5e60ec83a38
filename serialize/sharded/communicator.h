// The calls by which the processes of a job exchange bytes: the engine is whatever runs the job.
//
//   std::vector<std::unique_ptr<Communicator>> ranks = MakeThreadCommunicators(4);   // four threads of this process
//   // In the thread of rank r; every rank makes the same calls in the same order:
//   CASK_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks[r]->Gather("part of r", /*root=*/0));
//   CASK_ASSIGN_OR_RETURN(std::string answer, ranks[r]->Broadcast(r == 0 ? "done" : "", /*root=*/0));
//
// serialize/mpi makes one of an MPI communicator. Python passes any object with these methods. One caller at a time.
// Errors of all calls: Unavailable if a rank is gone and the engine reports that; some engines end the job instead. A
// caller that got an error makes no further call.

#ifndef TENSORCASK_SERIALIZE_SHARDED_COMMUNICATOR_H_
#define TENSORCASK_SERIALIZE_SHARDED_COMMUNICATOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // 0 to size() - 1
  virtual int size() const = 0;

  // What each rank passed, by rank, at `root`; an empty vector at all others. The sizes may differ.
  virtual absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) = 0;
  // What `root` passed; the argument of all others is not read.
  virtual absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) = 0;
  // Returns when all ranks have called it.
  virtual absl::Status Barrier() = 0;
};

// Ranks 0 to size - 1 in one process: for tests, and for programs with one process. Each is used by one thread. When
// one is destroyed, calls of the others that wait for it return Unavailable. Requires: size >= 1.
std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SHARDED_COMMUNICATOR_H_
