// A training loop of any number of ranks, which goes on from the newest whole checkpoint of another number of ranks.
// docs/guide/sharded.md shows this file.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

constexpr int kSaveEvery = 10;  // steps

// One rank. The weights are [12,1000], and each rank has some of the rows. Step n adds n to all of them.
absl::Status Train(cask::Communicator* comm, const std::string& folder, int64_t last_step) {
  const cask::TensorShape shape({12, 1000});
  CASK_ASSIGN_OR_RETURN(const cask::Mesh mesh, cask::Mesh::Parse(absl::StrCat("model=", comm->size())));
  CASK_ASSIGN_OR_RETURN(const cask::HeldPiece held, cask::PieceOf(shape, mesh, {"model"}, comm->rank()));
  if (!held.slice.has_value()) return absl::InvalidArgumentError("there are more ranks than rows");
  CASK_ASSIGN_OR_RETURN(const cask::TensorShape mine, held.slice->Apply(shape));
  CASK_ASSIGN_OR_RETURN(cask::Tensor rows, cask::Tensor::Zeros(cask::DType::kFloat32, mine));

  // Rank 0 looks for the newest step, so that all go on from the same one.
  std::string found;
  if (comm->rank() == 0) {
    const absl::StatusOr<cask::LatestCheckpoint> latest = cask::FindLatestCheckpoint(folder);
    if (latest.ok()) found = absl::StrCat(latest->step);
    std::cout << comm->size() << " ranks, from step " << (latest.ok() ? latest->step : 0) << std::endl;
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

// The ranks are threads here. With MakeMpiCommunicator (serialize/mpi) they are the processes of an MPI job.
int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: elastic_ranks FOLDER RANKS LAST_STEP\n";
    return 2;
  }
  std::vector<std::unique_ptr<cask::Communicator>> ranks = cask::MakeThreadCommunicators(std::stoi(argv[2]));
  std::vector<absl::Status> statuses(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = Train(ranks[i].get(), argv[1], std::stoll(argv[3])); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) std::cerr << status << '\n';
    if (!status.ok()) return 1;
  }
  return 0;
}
