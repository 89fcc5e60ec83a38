// A tensor to another thread and an answer back, beside the same bytes over a bare socket.
//
//   bazel run //tests/benchmarks:exchange_benchmark
//
// The other end runs in a thread of its own, so that each trip takes two switches between threads, as between
// processes. The counter socket_ratio is the median time over that of the bare socket, measured in turns.

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

void MustBeOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Sends back each message that comes, until the end.
class EchoChannel {
 public:
  EchoChannel() : EchoChannel(*UnixSocket::Pair()) {}
  ~EchoChannel() {
    MustBeOk(near_.Close(kLong));
    thread_.join();
  }

  void RoundTrip(const Message& message) {
    MustBeOk(near_.Send(message, kLong));
    MustBeOk(near_.Receive(kLong).status());
  }

 private:
  explicit EchoChannel(std::pair<UnixSocket, UnixSocket> ends)
      : near_(Channel::FromSocket(std::move(ends.first))),
        far_(Channel::FromSocket(std::move(ends.second))),
        thread_([this] {
          while (true) {
            const absl::StatusOr<Message> message = far_.Receive(kLong);
            if (!message.ok()) return;
            MustBeOk(far_.Send(*message, kLong));
          }
        }) {}

  Channel near_;
  Channel far_;
  std::thread thread_;
};

// The same with read(2) and write(2) and nothing else.
class EchoSocket {
 public:
  explicit EchoSocket(size_t size) : bytes_(size, 'x') {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::exit(1);
    near_ = ends[0];
    far_ = ends[1];
    thread_ = std::thread([this, echo = bytes_]() mutable {
      while (Read(far_, &echo)) Write(far_, echo);
    });
  }
  ~EchoSocket() {
    close(near_);
    thread_.join();
    close(far_);
  }

  void RoundTrip() {
    Write(near_, bytes_);
    if (!Read(near_, &bytes_)) std::exit(1);
  }

 private:
  static bool Read(int socket, std::string* bytes) {
    for (size_t done = 0; done < bytes->size();) {
      const ssize_t got = read(socket, &(*bytes)[done], bytes->size() - done);
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }
  static void Write(int socket, const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t put = write(socket, bytes.data() + done, bytes.size() - done);
      if (put <= 0) std::exit(1);
      done += static_cast<size_t>(put);
    }
  }

  std::string bytes_;
  int near_ = -1;
  int far_ = -1;
  std::thread thread_;
};

Message MessageOf(int64_t bytes, const RefPtr<Allocator>& allocator) {
  absl::StatusOr<Tensor> tensor = Tensor::Create(DType::kFloat32, TensorShape({bytes / 4}), allocator);
  MustBeOk(tensor.status());
  for (float& x : tensor->mutable_flat<float>()) x = 1;
  Message message;
  message.tensors.push_back({*std::move(tensor), {}});
  return message;
}

// By value, through the socket. Argument: bytes of the tensor.
void Inline(benchmark::State& state) {
  constexpr int kTripsPerRound = 20;
  const Message message = MessageOf(state.range(0), CpuAllocator::Default());
  EchoChannel channel;
  EchoSocket socket(static_cast<size_t>(state.range(0)));
  const int trips = state.range(0) > 65536 ? 1 : kTripsPerRound;
  const auto ours = [&] {
    for (int i = 0; i < trips; ++i) channel.RoundTrip(message);
  };
  const auto bare = [&] {
    for (int i = 0; i < trips; ++i) socket.RoundTrip();
  };
  ours();
  bare();
  std::vector<double> ratios;
  std::vector<double> bare_seconds;
  std::vector<double> our_seconds;
  for (auto _ : state) {
    our_seconds.push_back(benchmarks::SecondsOf(ours) / trips);
    bare_seconds.push_back(benchmarks::SecondsOf(bare) / trips);
    state.SetIterationTime(our_seconds.back());
    ratios.push_back(our_seconds.back() / bare_seconds.back());
  }
  state.counters["socket_ratio"] = benchmarks::Median(ratios);
  state.counters["us"] = 1e6 * benchmarks::Median(our_seconds);
  state.counters["socket_us"] = 1e6 * benchmarks::Median(bare_seconds);
}
BENCHMARK(Inline)->Arg(1 << 10)->Arg(64 << 10)->Arg(16 << 20)->Iterations(100)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

// By descriptor: the time is that of the message, not of the tensor.
void ByDescriptor(benchmark::State& state) {
  const absl::StatusOr<RefPtr<SharedMemoryAllocator>> allocator = SharedMemoryAllocator::Create({});
  MustBeOk(allocator.status());
  const Message message = MessageOf(state.range(0), *allocator);
  EchoChannel channel;
  channel.RoundTrip(message);
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(benchmarks::SecondsOf([&] { channel.RoundTrip(message); }));
    state.SetIterationTime(seconds.back());
  }
  state.counters["us"] = 1e6 * benchmarks::Median(seconds);
}
BENCHMARK(ByDescriptor)
    ->Arg(64 << 10)
    ->Arg(16 << 20)
    ->Arg(int64_t{1} << 30)
    ->Iterations(500)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tensorcask
