// A server of tensors and its clients, each a process of its own, which tests and benchmarks start, measure and kill.
//
//   tensor_peer serve 127.0.0.1:0 16 7        // 16 MiB of version id 7; prints its address, and the bytes of its
//   tensors tensor_peer pull grpc://127.0.0.1:PORT 3  // 3 times: prints "begin", pulls, prints the seconds, checks all
//   elements tensor_peer clients grpc://127.0.0.1:PORT 64 60   // 64 clients for a minute; a line each: pulls
//
// A server ends with its standard input. What it serves depends on the size alone: a server that was killed and is
// started again, at the same port and with the same version, is the same server. Clients print `peak BYTES` at the end,
// the most memory that the process had, and `tensors BYTES`, how much of it was for tensors.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {
namespace {

constexpr int64_t kColumns = 512;
constexpr int64_t kTurnedRows = 1024;
constexpr int64_t kWords = 1000;

uint32_t ElementAt(int64_t index) { return static_cast<uint32_t>(index) * 2654435761u + 12345u; }
std::string WordAt(int64_t index) { return std::string(static_cast<size_t>(index % 90), static_cast<char>(index)); }

Tensor Elements(const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(DType::kUint32, shape);
  uint32_t* const data = tensor.mutable_data<uint32_t>();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) data[i] = ElementAt(i);
  return tensor;
}

// The tensors of a server, always of the same version.
class FixedVersion final : public TensorSource {
 public:
  static absl::StatusOr<std::unique_ptr<FixedVersion>> Create(int64_t mebibytes, uint64_t id) {
    Tensor words = *Tensor::Create(DType::kString, TensorShape({kWords}));
    for (int64_t i = 0; i < kWords; ++i) words.mutable_data<std::string>()[i] = WordAt(i);
    const TensorView turned = *TensorView(Elements(TensorShape({kColumns, kTurnedRows}))).Transpose(0, 1);
    auto source = std::make_unique<FixedVersion>();
    CASK_RETURN_IF_ERROR(source->live_.Publish(
        1, {{"dense", Elements(TensorShape({mebibytes << 18}))}, {"turned", turned}, {"words", words}}));
    CASK_ASSIGN_OR_RETURN(source->snapshot_, source->live_.Current());
    source->snapshot_.version.id = id;
    source->tensor_bytes_ = (static_cast<uint64_t>(mebibytes) << 20) + kColumns * kTurnedRows * sizeof(uint32_t);
    return source;
  }

  absl::StatusOr<TensorSnapshot> Current() override { return snapshot_; }
  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) override {
    if (version != snapshot_.version) return snapshot_;
    absl::SleepFor(std::min(deadline.remaining(), absl::Seconds(1)));
    return absl::DeadlineExceededError("there is one version");
  }
  uint64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  LiveTensors live_;
  TensorSnapshot snapshot_;
  uint64_t tensor_bytes_ = 0;
};

absl::Status Serve(const std::string& address, int64_t mebibytes, uint64_t id) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<FixedVersion> source, FixedVersion::Create(mebibytes, id));
  TensorServerOptions options;
  options.address = address;
  options.insecure = true;  // between network namespaces
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorServer> server, TensorServer::Start(source.get(), options));
  std::printf("%s %llu\n", server->address().c_str(), static_cast<unsigned long long>(source->tensor_bytes()));
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  return absl::OkStatus();
}

// A client, and the memory into which it pulls.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Open(const std::string& address) {
    auto client = std::make_unique<Client>();
    RemoteOptions options;
    options.pull.max_attempts = 40;  // a server that was killed is started again, soon
    options.pull.first_delay = absl::Milliseconds(5);
    CASK_ASSIGN_OR_RETURN(client->archive_, RemoteArchive::Open(address, options));
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const dense, client->archive_->Find("dense"));
    CASK_ASSIGN_OR_RETURN(client->dense_, Tensor::Zeros(DType::kUint32, dense->shape));
    CASK_ASSIGN_OR_RETURN(client->turned_, Tensor::Zeros(DType::kUint32, TensorShape({kTurnedRows, kColumns})));
    client->options_ = options.pull;
    return client;
  }

  // Errors: DataLoss if an element differs from what the server has.
  absl::Status Pull() {
    TensorView dense = dense_;
    TensorView turned = turned_;
    return PullInto(archive_.get(), {{"turned", std::nullopt, &turned}, {"dense", std::nullopt, &dense}}, options_);
  }
  absl::Status Check() const {
    const uint32_t* const dense = dense_.data<uint32_t>();
    for (int64_t i = 0; i < dense_.num_elements(); ++i) {
      if (dense[i] != ElementAt(i)) return absl::DataLossError(absl::StrCat("dense: element ", i));
    }
    const uint32_t* const turned = turned_.data<uint32_t>();
    for (int64_t i = 0; i < turned_.num_elements(); ++i) {
      if (turned[i] != ElementAt(i % kColumns * kTurnedRows + i / kColumns)) {
        return absl::DataLossError(absl::StrCat("turned: element ", i));
      }
    }
    CASK_ASSIGN_OR_RETURN(const Tensor words, archive_->Read("words"));
    for (int64_t i = 0; i < kWords; ++i) {
      if (words.data<std::string>()[i] != WordAt(i)) return absl::DataLossError(absl::StrCat("words: element ", i));
    }
    return absl::OkStatus();
  }
  uint64_t tensor_bytes() const { return dense_.TotalBytes() + turned_.TotalBytes(); }

 private:
  std::unique_ptr<RemoteArchive> archive_;
  Tensor dense_;
  Tensor turned_;
  PullOptions options_;
};

void PrintMemory(uint64_t tensor_bytes) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) std::printf("peak %llu\n", std::strtoull(line.c_str() + 6, nullptr, 10) << 10);
  }
  std::printf("tensors %llu\n", static_cast<unsigned long long>(tensor_bytes));
}

absl::Status Pull(const std::string& address, int rounds) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Open(address));
  for (int round = 0; round < rounds; ++round) {
    std::printf("begin\n");
    std::fflush(stdout);
    const auto start = std::chrono::steady_clock::now();
    CASK_RETURN_IF_ERROR(client->Pull());
    std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::fflush(stdout);
    CASK_RETURN_IF_ERROR(client->Check());
  }
  PrintMemory(client->tensor_bytes());
  return absl::OkStatus();
}

// Each client goes on pulling until the time is over.
absl::Status PullAsMany(const std::string& address, int num_clients, absl::Duration time) {
  std::vector<std::unique_ptr<Client>> clients;
  uint64_t tensor_bytes = 0;
  for (int i = 0; i < num_clients; ++i) {
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Open(address));
    tensor_bytes += client->tensor_bytes();
    clients.push_back(std::move(client));
  }
  const absl::Time end = absl::Now() + time;
  std::mutex mutex;
  absl::Status result;
  std::vector<int> pulls(clients.size(), 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      absl::Status status;
      while (status.ok() && absl::Now() < end) {
        status = clients[i]->Pull();
        ++pulls[i];
      }
      if (status.ok()) status = clients[i]->Check();
      const std::lock_guard<std::mutex> lock(mutex);
      result.Update(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CASK_RETURN_IF_ERROR(result);
  for (const int count : pulls) std::printf("%d\n", count);
  PrintMemory(tensor_bytes);
  return absl::OkStatus();
}

int Run(const std::vector<std::string>& words) {
  int64_t number = 0;
  uint64_t more = 0;
  const std::string task = words.empty() ? "" : words[0];
  const bool numbers = words.size() > 2 && absl::SimpleAtoi(words[2], &number) &&
                       (words.size() == 3 || (words.size() == 4 && absl::SimpleAtoi(words[3], &more)));
  absl::Status status = absl::InvalidArgumentError(
      "usage: tensor_peer serve ADDRESS MIB VERSION | pull ADDRESS ROUNDS"
      " | clients ADDRESS CLIENTS SECONDS");
  if (numbers && task == "serve" && more != 0) status = Serve(words[1], number, more);
  if (numbers && task == "pull") status = Pull(words[1], static_cast<int>(number));
  if (numbers && task == "clients" && more != 0) {
    status = PullAsMany(words[1], static_cast<int>(number), absl::Seconds(more));
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace tensorcask::testing

int main(int argc, char** argv) { return tensorcask::testing::Run({argv + 1, argv + argc}); }
