// A server follows the folder of a run, and a client pulls while the run saves: each pull is whole, of one step.
// docs/guide/exchange.md shows this file.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/checkpoint_format.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/rpc/follow_folder.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

// Saves steps 1 to `steps`, and keeps the last two.
absl::Status Train(const std::string& folder, int64_t steps) {
  cask::CheckpointManagerOptions options;
  options.keep_last = 2;
  CASK_ASSIGN_OR_RETURN(cask::CheckpointManager manager, cask::CheckpointManager::Open(folder, options));
  CASK_ASSIGN_OR_RETURN(cask::Tensor weights, cask::Tensor::Zeros(cask::DType::kInt64, cask::TensorShape({400, 1000})));
  for (int64_t step = 1; step <= steps; ++step) {
    for (int64_t& weight : weights.mutable_flat<int64_t>()) weight = step;
    CASK_RETURN_IF_ERROR(manager.Save(step, [&](cask::CheckpointWriter& writer) -> absl::Status {
      CASK_RETURN_IF_ERROR(writer.Add("bias", weights));
      return writer.Add("weights", weights);
    }));
  }
  return absl::OkStatus();
}

// Serves the newest step until standard input ends.
absl::Status Serve(const std::string& folder) {
  const cask::CheckpointArchiveFormat format;
  cask::FollowFolderOptions follow;
  follow.interval = absl::Milliseconds(20);
  follow.in_memory = true;  // the run removes steps that clients may still pull
  const std::unique_ptr<cask::TensorSource> newest = cask::FollowFolder(
      folder, [&](const std::string& prefix) { return cask::OpenArchive(prefix, {&format}); }, follow);
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<cask::TensorServer> server, cask::TensorServer::Start(newest.get(), {}));
  std::cout << "grpc://" << server->address() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  server->Drain(absl::Seconds(10));
  return absl::OkStatus();
}

// Pulls until the server has step `last`.
absl::Status Use(const std::string& address, int64_t last) {
  cask::RemoteOptions options;
  options.pull.max_attempts = 100;  // there may be no step yet
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<cask::RemoteArchive> server, cask::RemoteArchive::Open(address, options));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor bias,
                        cask::Tensor::Create(cask::DType::kInt64, cask::TensorShape({400, 1000})));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor weights, cask::Tensor::Create(bias.dtype(), bias.shape()));
  cask::TensorView into[] = {bias, weights};
  while (true) {
    const absl::Status pulled = cask::PullInto(
        server.get(), {{"bias", std::nullopt, &into[0]}, {"weights", std::nullopt, &into[1]}}, options.pull);
    if (pulled.ok()) {
      const int64_t step = server->version().step;
      for (const cask::Tensor& tensor : {bias, weights}) {
        const auto values = tensor.flat<int64_t>();
        if (std::count(values.begin(), values.end(), step) != tensor.num_elements()) {
          return absl::DataLossError("a pull has elements of two steps");
        }
      }
      if (step == last) break;
    } else if (!absl::IsAborted(pulled)) {  // Aborted: the server has a newer step than the list
      return pulled;
    }
    CASK_RETURN_IF_ERROR(server->Refresh());
  }
  std::cout << "step " << last << ": every pull was whole and of one step\n";
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const std::string role = argc >= 3 ? argv[1] : "";
  if (role != "serve" && (argc != 4 || (role != "train" && role != "use"))) {
    std::cerr << "usage: follow_run serve FOLDER | follow_run train FOLDER STEPS | follow_run use ADDRESS STEP\n";
    return 2;
  }
  const absl::Status status = role == "serve"   ? Serve(argv[2])
                              : role == "train" ? Train(argv[2], std::stoll(argv[3]))
                                                : Use(argv[2], std::stoll(argv[3]));
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
