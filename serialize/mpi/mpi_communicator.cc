#include "tensorcask/serialize/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 20;
constexpr int kTag = 1;

absl::Status FromMpi(int code, absl::string_view call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return absl::UnavailableError(absl::StrCat(call, ": ", absl::string_view(text, static_cast<size_t>(length))));
}

// Calls move(data, count) for each chunk of the `size` bytes at `data`.
template <typename Char, typename Move>
absl::Status InChunks(Char* data, size_t size, Move&& move) {
  for (size_t begin = 0; begin < size; begin += kChunkBytes) {
    CASK_RETURN_IF_ERROR(move(data + begin, static_cast<int>(std::min(kChunkBytes, size - begin))));
  }
  return absl::OkStatus();
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {}
  ~MpiCommunicator() override {
    int finalized = 0;
    if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    const auto bytes = static_cast<uint64_t>(mine.size());
    std::vector<uint64_t> sizes(rank_ == root ? static_cast<size_t>(size_) : 0);
    CASK_RETURN_IF_ERROR(
        FromMpi(MPI_Gather(&bytes, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, root, comm_), "MPI_Gather"));
    std::vector<std::string> all;
    if (rank_ != root) {
      CASK_RETURN_IF_ERROR(InChunks(mine.data(), mine.size(), [&](const char* data, int count) {
        return FromMpi(MPI_Send(data, count, MPI_BYTE, root, kTag, comm_), "MPI_Send");
      }));
      return all;
    }
    all.resize(sizes.size());
    for (int from = 0; from < size_; ++from) {
      std::string& theirs = all[static_cast<size_t>(from)];
      if (from == root) {
        theirs.assign(mine.data(), mine.size());
        continue;
      }
      theirs.resize(static_cast<size_t>(sizes[static_cast<size_t>(from)]));
      CASK_RETURN_IF_ERROR(InChunks(theirs.data(), theirs.size(), [&](char* data, int count) {
        return FromMpi(MPI_Recv(data, count, MPI_BYTE, from, kTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      }));
    }
    return all;
  }

  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    uint64_t bytes = from_root.size();
    CASK_RETURN_IF_ERROR(FromMpi(MPI_Bcast(&bytes, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast"));
    std::string answer;
    if (rank_ == root) {
      answer.assign(from_root.data(), from_root.size());
    } else {
      answer.resize(static_cast<size_t>(bytes));
    }
    CASK_RETURN_IF_ERROR(InChunks(answer.data(), answer.size(), [&](char* data, int count) {
      return FromMpi(MPI_Bcast(data, count, MPI_BYTE, root, comm_), "MPI_Bcast");
    }));
    return answer;
  }

  absl::Status Barrier() override { return FromMpi(MPI_Barrier(comm_), "MPI_Barrier"); }

 private:
  MPI_Comm comm_;
  const int rank_;
  const int size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator(MPI_Comm comm) {
  int initialized = 0;
  int finalized = 0;
  CASK_RETURN_IF_ERROR(FromMpi(MPI_Initialized(&initialized), "MPI_Initialized"));
  CASK_RETURN_IF_ERROR(FromMpi(MPI_Finalized(&finalized), "MPI_Finalized"));
  if (initialized == 0 || finalized != 0) {
    return absl::FailedPreconditionError("MakeMpiCommunicator wants a call between MPI_Init and MPI_Finalize");
  }
  MPI_Comm own = MPI_COMM_NULL;
  CASK_RETURN_IF_ERROR(FromMpi(MPI_Comm_dup(comm, &own), "MPI_Comm_dup"));
  int rank = 0;
  int size = 0;
  absl::Status status = FromMpi(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (status.ok()) status = FromMpi(MPI_Comm_rank(own, &rank), "MPI_Comm_rank");
  if (status.ok()) status = FromMpi(MPI_Comm_size(own, &size), "MPI_Comm_size");
  if (!status.ok()) {
    MPI_Comm_free(&own);
    return status;
  }
  return std::make_unique<MpiCommunicator>(own, rank, size);
}

}  // namespace tensorcask
