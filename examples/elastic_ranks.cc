// A training loop of any number of ranks, each a process of its own. When some of them are killed, the others go on
// from the newest whole checkpoint. docs/guide/sharded.md shows this file.

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

constexpr int kSaveEvery = 10;  // steps
constexpr int kPeerGone = 3;    // the exit status of a rank that has lost another one

// Processes of one host, with a socket between each two. A job of several hosts has MakeMpiCommunicator
// (serialize/mpi).
class SocketCommunicator final : public cask::Communicator {
 public:
  // `sockets` by rank; that of this rank is not used.
  SocketCommunicator(int rank, std::vector<int> sockets) : rank_(rank), sockets_(std::move(sockets)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }

  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    std::vector<std::string> all;
    if (rank_ != root) {
      CASK_RETURN_IF_ERROR(Send(root, mine));
      return all;
    }
    for (int from = 0; from < size(); ++from) {
      std::string part(mine);
      if (from != rank_) CASK_RETURN_IF_ERROR(Receive(from, &part));
      all.push_back(std::move(part));
    }
    return all;
  }

  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    std::string text(from_root);
    if (rank_ != root) {
      CASK_RETURN_IF_ERROR(Receive(root, &text));
      return text;
    }
    for (int to = 0; to < size(); ++to) {
      if (to != rank_) CASK_RETURN_IF_ERROR(Send(to, text));
    }
    return text;
  }

  absl::Status Barrier() override {
    CASK_RETURN_IF_ERROR(Gather("", /*root=*/0).status());
    return Broadcast("", /*root=*/0).status();
  }

 private:
  absl::Status Send(int to, absl::string_view text) {
    uint64_t bytes = text.size();
    CASK_RETURN_IF_ERROR(SendAll(to, {reinterpret_cast<const char*>(&bytes), sizeof(bytes)}));
    return SendAll(to, text);
  }
  absl::Status SendAll(int to, absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(sockets_[static_cast<size_t>(to)], bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return Gone(to);
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return absl::OkStatus();
  }
  absl::Status Receive(int from, std::string* text) {
    uint64_t bytes = 0;
    CASK_RETURN_IF_ERROR(ReceiveAll(from, reinterpret_cast<char*>(&bytes), sizeof(bytes)));
    text->resize(bytes);
    return ReceiveAll(from, &(*text)[0], bytes);
  }
  absl::Status ReceiveAll(int from, char* out, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    const ssize_t got = recv(sockets_[static_cast<size_t>(from)], out, bytes, MSG_WAITALL);
    return got == static_cast<ssize_t>(bytes) ? absl::OkStatus() : Gone(from);
  }
  static absl::Status Gone(int rank) { return absl::UnavailableError(absl::StrCat("rank ", rank, " is gone")); }

  const int rank_;
  const std::vector<int> sockets_;
};

// One rank. The weights are [12,1000], and each rank has some of the rows. Step n adds n to all of them.
absl::Status Train(cask::Communicator* comm, const std::string& folder, int64_t last_step) {
  const cask::TensorShape shape({12, 1000});
  CASK_ASSIGN_OR_RETURN(const cask::Mesh mesh, cask::Mesh::Parse(absl::StrCat("model=", comm->size())));
  CASK_ASSIGN_OR_RETURN(const cask::HeldPiece held, cask::PieceOf(shape, mesh, {"model"}, comm->rank()));
  if (!held.slice.has_value()) return absl::InvalidArgumentError("there are more ranks than rows");
  CASK_ASSIGN_OR_RETURN(const cask::TensorShape mine, held.slice->Apply(shape));
  CASK_ASSIGN_OR_RETURN(cask::Tensor rows, cask::Tensor::Zeros(cask::DType::kFloat32, mine));

  // Rank 0 looks for the newest step, so that all go on from the same one.
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> processes, comm->Gather(absl::StrCat(getpid()), /*root=*/0));
  std::string found;
  if (comm->rank() == 0) {
    const absl::StatusOr<cask::LatestCheckpoint> latest = cask::FindLatestCheckpoint(folder);
    if (latest.ok()) found = absl::StrCat(latest->step);
    std::cout << comm->size() << " ranks, processes " << absl::StrJoin(processes, " ") << ", from step "
              << (latest.ok() ? latest->step : 0) << std::endl;
  }
  CASK_ASSIGN_OR_RETURN(found, comm->Broadcast(found, /*root=*/0));
  const int64_t first_step = found.empty() ? 0 : std::stoll(found);
  if (!found.empty()) {
    CASK_RETURN_IF_ERROR(
        cask::ShardedLoad(comm, absl::StrCat(folder, "/ckpt-", found), {{"weights", *held.slice, rows}}));
  }

  for (int64_t step = first_step + 1; step <= last_step; ++step) {
    for (float& weight : rows.mutable_flat<float>()) weight += static_cast<float>(step);
    if (step % kSaveEvery != 0) continue;
    cask::ShardedSaveOptions options;
    options.overwrite = true;  // a save that was killed may have left files of this step
    CASK_RETURN_IF_ERROR(cask::ShardedSave(comm, absl::StrCat(folder, "/ckpt-", step),
                                           {{"weights", shape, *held.slice, rows, {}}}, options)
                             .status());
  }

  const auto values = rows.flat<float>();
  const bool is_equal = std::count(values.begin(), values.end(), values[0]) == rows.num_elements();
  const std::string of_rank = is_equal ? absl::StrCat(static_cast<int64_t>(values[0])) : "not equal";
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> all, comm->Gather(of_rank, /*root=*/0));
  if (comm->rank() == 0) {
    std::cout << "weights:";
    for (const std::string& rank : all) std::cout << ' ' << rank;
    std::cout << '\n';
  }
  return absl::OkStatus();
}

// Never returns: the process of one rank.
[[noreturn]] void RunRank(int rank, std::vector<int> sockets, const std::string& folder, int64_t last_step) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the job
  SocketCommunicator comm(rank, std::move(sockets));
  const absl::Status status = Train(&comm, folder, last_step);
  if (!status.ok() && !absl::IsUnavailable(status)) std::cerr << status << '\n';
  std::cout.flush();
  std::_Exit(status.ok() ? 0 : absl::IsUnavailable(status) ? kPeerGone : 1);
}

// Runs so many ranks to their end. How many of them were killed; -1 if one failed.
int RunRanks(int ranks, const std::string& folder, int64_t last_step) {
  const auto count = static_cast<size_t>(ranks);
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));  // [rank][other rank]
  for (size_t one = 0; one < count; ++one) {
    for (size_t two = one + 1; two < count; ++two) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return -1;
      sockets[one][two] = pair[0];
      sockets[two][one] = pair[1];
    }
  }
  // A socket shows that its other side is gone when no process has that side any more.
  const auto close_all_but = [&](size_t rank) {
    for (size_t one = 0; one < count; ++one) {
      for (const int socket : sockets[one]) {
        if (one != rank && socket >= 0) close(socket);
      }
    }
  };
  std::vector<pid_t> processes;
  for (size_t rank = 0; rank < count; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      close_all_but(rank);
      RunRank(static_cast<int>(rank), sockets[rank], folder, last_step);
    }
    processes.push_back(process);
  }
  close_all_but(count);
  int killed = 0;
  bool failed = false;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    if (WIFSIGNALED(status)) ++killed;
    failed = failed || (WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kPeerGone);
  }
  return failed ? -1 : killed;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: elastic_ranks FOLDER RANKS LAST_STEP\n";
    return 2;
  }
  int killed = 0;
  for (int ranks = std::stoi(argv[2]); ranks > 0; ranks -= killed) {
    killed = RunRanks(ranks, argv[1], std::stoll(argv[3]));
    if (killed <= 0) return killed == 0 ? 0 : 1;
  }
  return 1;
}
