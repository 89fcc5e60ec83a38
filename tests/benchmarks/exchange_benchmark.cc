// A tensor to another process and an answer back, beside the same bytes over a bare socket.
//
//   bazel run //tests/benchmarks:exchange_benchmark
//
// The counter socket_ratio is the median time over that of the bare socket, measured in turns.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/exchange_peers.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

using Answers = ChannelPeer::Answers;

// There and back. Arguments: bytes of the tensor; whether copies in shared memory are allowed.
void Plain(benchmark::State& state) {
  const OwnProcessors processors;
  ChannelOptions options;
  if (state.range(1) == 0) options.recycled_bytes = 0;
  ChannelPeer peer(Answers::kEcho, options);
  SocketPeer socket(static_cast<size_t>(state.range(0)));
  const Message message = MessageOf(state.range(0), CpuAllocator::Default());
  const int trips = state.range(0) > 65536 ? 1 : 20;
  const auto ours = [&] {
    for (int i = 0; i < trips; ++i) peer.Ask(message);
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
    our_seconds.push_back(SecondsOf(ours) / trips);
    bare_seconds.push_back(SecondsOf(bare) / trips);
    state.SetIterationTime(our_seconds.back());
    ratios.push_back(our_seconds.back() / bare_seconds.back());
  }
  state.counters["socket_ratio"] = Median(ratios);
  state.counters["us"] = 1e6 * Median(our_seconds);
  state.counters["socket_us"] = 1e6 * Median(bare_seconds);
}
BENCHMARK(Plain)
    ->ArgNames({"bytes", "copies"})
    ->ArgsProduct({{1 << 10, 64 << 10}, {1}})
    ->ArgsProduct({{256 << 10, 1 << 20, 16 << 20}, {0, 1}})
    ->Iterations(100)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// There and a receipt: the time is that of the message, not of the tensor.
void ByDescriptor(benchmark::State& state) {
  const OwnProcessors processors;
  ChannelPeer peer(Answers::kReceipt);
  const Message message = MessageOf(state.range(0), Require(SharedMemoryAllocator::Create({})));
  peer.Ask(message);
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(SecondsOf([&] { peer.Ask(message); }));
    state.SetIterationTime(seconds.back());
  }
  state.counters["us"] = 1e6 * Median(seconds);
}
BENCHMARK(ByDescriptor)
    ->ArgName("bytes")
    ->Arg(64 << 10)
    ->Arg(16 << 20)
    ->Arg(int64_t{1} << 30)
    ->Iterations(500)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tensorcask::benchmarks

BENCHMARK_MAIN();
