// Times of one task with an object store, for tests/benchmarks/object_store_peers.py. Prints a line for each round: the
// seconds that it took, the seconds of processor time of this process, and which part of the time the connections had
// a request, all of them together (1: always; the store makes 16).
//
//   object_store recv http://127.0.0.1:PORT/file 5        // a plain loop of recv: what a socket gives
//   object_store ranges s3://bucket/m.data-00000-of-00001 5   // requests of 8 MiB, 16 at a time, and nothing else
//   object_store fresh s3://bucket/m.data-00000-of-00001 5    // the same into new memory, which a load needs, too
//   object_store load s3://bucket/m 5                     // opens a checkpoint and loads all of it, verified
//   object_store parts s3://bucket/x 256 5                // uploads 256 MiB in parts, and nothing else
//   object_store save s3://bucket/x 256 5                 // saves a checkpoint of 256 MiB
//   object_store proxy PORT SERVER_PORT 0.020 80e6        // slow_proxy.h
//
// Keys, region and endpoint come from the environment. With TENSORCASK_TIMELINE, each request of a round is a line on
// stderr: the milliseconds of the round in which it began and ended, what it was for, its offset and its bytes.

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/slow_proxy.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int64_t kTensorBytes = int64_t{4} << 20;

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A GET of the whole file, read into one buffer again and again.
absl::Status Receive(const std::string& url) {
  const std::vector<std::string> steps = absl::StrSplit(url, absl::MaxSplits('/', 3));  // "http:", "", host, path
  int port = 0;
  if (steps.size() != 4 || !absl::SimpleAtoi(steps[2].substr(steps[2].find(':') + 1), &port)) {
    return absl::InvalidArgumentError(absl::StrCat(url, ": not http://127.0.0.1:PORT/PATH"));
  }
  const int connection = ConnectTo(port);
  if (connection < 0) return absl::UnavailableError(absl::StrCat(url, ": cannot connect"));
  const std::string request =
      absl::StrCat("GET /", steps[3], " HTTP/1.1\r\nHost: ", steps[2], "\r\nConnection: close\r\n\r\n");
  SendAll(connection, request.data(), request.size());
  static std::vector<char> bytes(512 << 10);
  uint64_t sum = 0;
  for (ssize_t got = 1; got > 0; sum += static_cast<uint64_t>(std::max<ssize_t>(got, 0))) {
    got = recv(connection, bytes.data(), bytes.size(), 0);
  }
  close(connection);
  return sum > bytes.size() ? absl::OkStatus() : absl::DataLossError(absl::StrCat(url, ": only ", sum, " bytes"));
}

// All bytes of a file, into memory that was used before or is new.
absl::Status ReadRangesOf(FileSystem* files, const std::string& path, bool into_new_memory) {
  const IoResult handle = files->OpenToRead(path);
  if (handle < 0) return absl::UnknownError(absl::StrCat(path, ": ", files->LastDetail()));
  static Tensor memory;
  const IoResult size = files->SizeOf(handle);
  if (into_new_memory || memory.num_elements() != size) {
    CASK_ASSIGN_OR_RETURN(memory, Tensor::Create(DType::kUint8, {size}));
  }
  const ReadRange range = {0, memory.mutable_bytes()};
  const IoResult read = files->ReadManyAt(handle, absl::MakeConstSpan(&range, 1));
  files->Close(handle);
  return read < 0 ? absl::UnknownError(absl::StrCat(path, ": ", files->LastDetail())) : absl::OkStatus();
}

absl::Status Load(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  return reader.ReadAll().status();
}

absl::StatusOr<std::vector<Tensor>> MakeTensors(int64_t mebibytes) {
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < (mebibytes << 20) / kTensorBytes; ++i) {
    CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(DType::kInt32, {kTensorBytes / 4}));
    int32_t* const data = tensor.mutable_data<int32_t>();
    for (int64_t k = 0; k < kTensorBytes / 4; ++k) data[k] = static_cast<int32_t>(k * 31 + i);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status Save(FileSystem* files, const std::string& prefix, const std::vector<Tensor>& tensors) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.overwrite = true;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  for (size_t i = 0; i < tensors.size(); ++i) CASK_RETURN_IF_ERROR(writer.Add(absl::StrCat("w", i), tensors[i]));
  return writer.Finish();
}

absl::Status UploadParts(FileSystem* files, const std::string& path, const std::vector<Tensor>& tensors) {
  const std::string temporary = path + ".tmp-0123456789abcdef";
  const IoResult handle = files->CreateToPublish(temporary, path);
  const auto check = [&](IoResult result) {
    return result < 0 ? absl::UnknownError(absl::StrCat(path, ": ", files->LastDetail())) : absl::OkStatus();
  };
  CASK_RETURN_IF_ERROR(check(handle));
  for (const Tensor& tensor : tensors) {
    const auto* const data = reinterpret_cast<const char*>(tensor.data<int32_t>());
    CASK_RETURN_IF_ERROR(check(files->Append(handle, absl::string_view(data, tensor.TotalBytes()))));
  }
  CASK_RETURN_IF_ERROR(check(files->Sync(handle)));
  CASK_RETURN_IF_ERROR(check(files->Close(handle)));
  return check(files->Rename(temporary, path, FileSystem::OnExisting::kReplace));
}

std::atomic<int64_t> busy_microseconds{0};  // of all requests
std::chrono::steady_clock::time_point round_start;

void Observe(const RequestRecord& request) {
  static const bool draws = std::getenv("TENSORCASK_TIMELINE") != nullptr;
  busy_microseconds += request.microseconds;
  if (!draws) return;
  const double end = std::chrono::duration<double>(std::chrono::steady_clock::now() - round_start).count();
  std::fprintf(stderr, "%8.1f %8.1f  %-9s %10llu %9llu\n",
               1e3 * (end - 1e-6 * static_cast<double>(request.microseconds)), 1e3 * end, request.purpose.c_str(),
               static_cast<unsigned long long>(request.offset), static_cast<unsigned long long>(request.bytes));
}

int Repeat(int rounds, const std::function<absl::Status()>& task) {
  for (int round = -1; round < rounds; ++round) {  // the first one opens connections
    const double cpu = CpuSeconds();
    busy_microseconds = 0;
    round_start = std::chrono::steady_clock::now();
    const absl::Status status = task();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - round_start).count();
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    const double busy = 1e-6 * static_cast<double>(busy_microseconds) / seconds / ObjectStoreOptions().connections;
    if (round >= 0) std::printf("%.6f %.6f %.3f\n", seconds, CpuSeconds() - cpu, busy);
  }
  return 0;
}

int Run(const std::vector<std::string>& words) {
  const std::string task = words.empty() ? "" : words[0];
  if (task == "proxy" && words.size() == 5) {
    return RunSlowProxy(std::atoi(words[1].c_str()), std::atoi(words[2].c_str()), std::atof(words[3].c_str()),
                        std::atof(words[4].c_str()));
  }
  const bool writes = task == "save" || task == "parts";
  const bool reads = task == "recv" || task == "ranges" || task == "fresh" || task == "load";
  if (!(writes && words.size() == 4) && !(reads && words.size() == 3)) {
    std::fprintf(stderr,
                 "usage: object_store recv|ranges|fresh|load WHAT ROUNDS\n       object_store save|parts WHAT MIB "
                 "ROUNDS\n       object_store proxy PORT SERVER_PORT DELAY BYTES_PER_SECOND\n");
    return 2;
  }
  const std::string& what = words[1];
  const int rounds = std::atoi(words.back().c_str());
  if (task == "recv") return Repeat(rounds, [&] { return Receive(what); });
  ObjectStoreOptions options;
  options.observer = Observe;
  const absl::StatusOr<std::unique_ptr<ObjectStore>> store = ObjectStore::Create(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  FileSystem* const files = (*store)->files();
  if (task == "ranges") return Repeat(rounds, [&] { return ReadRangesOf(files, what, false); });
  if (task == "fresh") return Repeat(rounds, [&] { return ReadRangesOf(files, what, true); });
  if (task == "load") return Repeat(rounds, [&] { return Load(files, what); });
  const absl::StatusOr<std::vector<Tensor>> tensors = MakeTensors(std::atoi(words[2].c_str()));
  if (!tensors.ok()) return 1;
  if (task == "parts") return Repeat(rounds, [&] { return UploadParts(files, what, *tensors); });
  return Repeat(rounds, [&] { return Save(files, what, *tensors); });
}

}  // namespace
}  // namespace tensorcask::benchmarks

int main(int argc, char** argv) { return tensorcask::benchmarks::Run({argv + 1, argv + argc}); }
