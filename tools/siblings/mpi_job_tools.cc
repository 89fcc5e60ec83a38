// Of `tensorcask-mpi`: this process as a rank of an MPI job.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/mpi/mpi_communicator.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/siblings/job_tools.h"

namespace tensorcask::tools {
namespace {

// Ends MPI with itself. After an error of MPI it does not: this process then ends without, and mpirun ends the others.
class JobCommunicator final : public Communicator {
 public:
  explicit JobCommunicator(std::unique_ptr<Communicator> mpi) : mpi_(std::move(mpi)) {}
  ~JobCommunicator() override {
    if (failed_) {
      mpi_.release();
    } else {
      mpi_.reset();
      MPI_Finalize();
    }
  }
  JobCommunicator(const JobCommunicator&) = delete;
  JobCommunicator& operator=(const JobCommunicator&) = delete;

  int rank() const override { return mpi_->rank(); }
  int size() const override { return mpi_->size(); }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    return Noted(mpi_->Gather(mine, root));
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    return Noted(mpi_->Broadcast(from_root, root));
  }
  absl::Status Barrier() override { return Noted(mpi_->Barrier()); }

 private:
  template <typename Result>
  Result Noted(Result result) {
    failed_ = failed_ || !result.ok();
    return result;
  }

  std::unique_ptr<Communicator> mpi_;
  bool failed_ = false;
};

absl::StatusOr<std::unique_ptr<Communicator>> Join() {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return absl::UnavailableError("MPI_Init failed");
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> mpi, MakeMpiCommunicator(MPI_COMM_WORLD));
  return std::make_unique<JobCommunicator>(std::move(mpi));
}

}  // namespace

const JobTools* LinkedJobTools() {
  static constexpr JobTools kTools = {Join};
  return &kTools;
}

}  // namespace tensorcask::tools
