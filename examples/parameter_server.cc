// A parameter server with workers: each pulls the rows that it needs, and pushes what is to be added to them.
// docs/guide/exchange.md shows this file.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

constexpr int64_t kRows = 12;
constexpr int64_t kColumns = 2;
constexpr int kUpdates = 100;  // by each worker

// A table that is served. What is pushed is added to it: "first" is a row, "update" what to add from there on.
class Parameters final : public cask::TensorSource {
 public:
  absl::Status Publish() { return live_.Publish(step_, {{"table", table_}}); }

  absl::StatusOr<cask::TensorSnapshot> Current() override { return live_.Current(); }
  absl::StatusOr<cask::TensorSnapshot> WaitForNewer(const cask::TensorVersion& version,
                                                    cask::Deadline deadline) override {
    return live_.WaitForNewer(version, deadline);
  }
  absl::StatusOr<cask::TensorVersion> Replace(cask::TensorSet set) override {
    const std::vector<cask::NamedView>& pushed = set.tensors;
    if (pushed.size() != 2 || pushed[0].name != "first" || pushed[1].name != "update" ||
        pushed[0].view.dtype() != cask::DType::kInt64 || pushed[0].view.shape() != cask::TensorShape() ||
        pushed[1].view.dtype() != cask::DType::kFloat32 || pushed[1].view.shape().rank() != 2 ||
        pushed[1].view.shape().dim(1) != kColumns) {
      return absl::InvalidArgumentError("wanted \"first\", an int64 [], and \"update\", a float32 [rows,2]");
    }
    CASK_ASSIGN_OR_RETURN(const cask::Tensor first, pushed[0].view.ToTensor());
    CASK_ASSIGN_OR_RETURN(const cask::Tensor update, pushed[1].view.ToTensor());
    const int64_t row = first.flat<int64_t>()[0];
    if (row < 0 || row > kRows - update.shape().dim(0)) return absl::OutOfRangeError("there are no such rows");
    const std::lock_guard<std::mutex> lock(mutex_);
    float* const values = table_.mutable_data<float>() + row * kColumns;  // copies the table if a client reads it
    for (int64_t i = 0; i < update.num_elements(); ++i) values[i] += update.flat<float>()[i];
    ++step_;
    CASK_RETURN_IF_ERROR(Publish());
    CASK_ASSIGN_OR_RETURN(const cask::TensorSnapshot snapshot, live_.Current());
    return snapshot.version;
  }

  std::string ToString() {
    const std::lock_guard<std::mutex> lock(mutex_);
    cask::SummaryOptions all;
    all.max_entries = kRows;
    return cask::SummarizeValue(table_, all);
  }

 private:
  std::mutex mutex_;
  int64_t step_ = 0;
  cask::Tensor table_ = *cask::Tensor::Zeros(cask::DType::kFloat32, cask::TensorShape({kRows, kColumns}));
  cask::LiveTensors live_;
};

// Serves until so many updates have come.
absl::Status Serve(uint64_t updates) {
  Parameters parameters;
  CASK_RETURN_IF_ERROR(parameters.Publish());
  cask::TensorServerOptions options;
  options.accept_pushes = true;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<cask::TensorServer> server,
                        cask::TensorServer::Start(&parameters, options));
  std::cout << "grpc://" << server->address() << std::endl;
  while (server->stats().pushes < updates) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  server->Drain(absl::Seconds(10));
  std::cout << parameters.ToString() << '\n';
  return absl::OkStatus();
}

// Adds 1 to the eight rows from `first` on, kUpdates times.
absl::Status Work(const std::string& address, int64_t first) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<cask::RemoteArchive> server, cask::RemoteArchive::Open(address, {}));
  CASK_ASSIGN_OR_RETURN(const cask::TensorSlice rows, cask::TensorSlice::Create({{first, 8}, {}}));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor mine,
                        cask::Tensor::Create(cask::DType::kFloat32, cask::TensorShape({8, kColumns})));
  cask::TensorView into = mine;
  CASK_ASSIGN_OR_RETURN(cask::Tensor update,
                        cask::Tensor::Create(cask::DType::kFloat32, cask::TensorShape({8, kColumns})));
  for (float& value : update.mutable_flat<float>()) value = 1;
  for (int i = 0; i < kUpdates; ++i) {
    absl::Status pulled = absl::AbortedError("");
    while (absl::IsAborted(pulled)) {  // another worker has pushed since the list was made
      CASK_RETURN_IF_ERROR(server->Refresh());
      pulled = cask::PullInto(server.get(), {{"table", rows, &into}}, {});
    }
    CASK_RETURN_IF_ERROR(pulled);
    if (mine.flat<float>()[0] < static_cast<float>(i)) return absl::DataLossError("an update was lost");
    CASK_RETURN_IF_ERROR(
        cask::PushTensors(address, i, {{"first", cask::Tensor::Scalar(first)}, {"update", update}}, {}).status());
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const std::string role = argc == 3 || argc == 4 ? argv[1] : "";
  if (role != (argc == 3 ? "server" : "worker")) {
    std::cerr << "usage: parameter_server server UPDATES | parameter_server worker ADDRESS FIRST_ROW\n";
    return 2;
  }
  const absl::Status status = role == "server" ? Serve(std::stoull(argv[2])) : Work(argv[2], std::stoll(argv[3]));
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
