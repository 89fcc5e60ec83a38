#include "tensorcask/tests/benchmarks/exchange_bars.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/exchange_peers.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

using Answers = ChannelPeer::Answers;

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

RefPtr<SharedMemoryAllocator> SharedMemory() {
  SharedMemoryAllocator::Options options;
  options.max_total_bytes = static_cast<size_t>(6 * kGiB);
  return Require(SharedMemoryAllocator::Create(options));
}

// From the call that sends to the receipt of a process that has mapped the tensor and released it.
void HandOverRows() {
  constexpr int kRounds = 301;
  ChannelPeer peer(Answers::kReceipt);
  const RefPtr<SharedMemoryAllocator> shared = SharedMemory();
  {
    const Message message = MessageOf(kGiB, shared);
    const auto hand_over = [&] { return static_cast<int64_t>(peer.Ask(message).request); };
    hand_over();
    const int64_t faults_before = hand_over() + PageFaults();
    SocketPeer bare(1);
    Row("hand 1 GiB to another process", MedianRatio(kRounds, hand_over, [&] { bare.RoundTrip(); }), 10, "x socket",
        "a byte there and back by read() and write(); its receipt included");
    Row("page faults of both processes meanwhile",
        Exactly(static_cast<double>(hand_over() + PageFaults() - faults_before) / kRounds), 8, "a time",
        "a copy touches 262144 pages on each side");
  }
  const Message large = MessageOf(4 * kGiB, shared);
  const Message small = MessageOf(kMiB, shared);
  Row("hand over 4 GiB, to 1 MiB",
      MedianRatio(
          kRounds, [&] { peer.Ask(large); }, [&] { peer.Ask(small); }),
      1.3, "x", "handing over 1 MiB");
}

void RoundTripRow() {
  constexpr int kTrips = 20;
  ChannelPeer peer(Answers::kEcho);
  SocketPeer bare(kKiB);
  const Message message = MessageOf(kKiB, CpuAllocator::Default());
  const auto ours = [&] {
    for (int i = 0; i < kTrips; ++i) peer.Ask(message);
  };
  const auto theirs = [&] {
    for (int i = 0; i < kTrips; ++i) bare.RoundTrip();
  };
  Row("round trip of a 1 KiB tensor", MedianRatio(501, ours, theirs), 1.5, "x socket",
      "the same bytes by read() and write(); two processors");
}

void CopiedRow() {
  ChannelPeer peer(Answers::kReceipt);
  const int64_t size = 64 * kMiB;
  const Message plain = MessageOf(size, CpuAllocator::Default());
  const Message shared = MessageOf(size, SharedMemory());
  const RefPtr<TensorBuffer> warm = Require(TensorBuffer::Allocate(static_cast<size_t>(size)));
  const auto floor = [&] {
    std::memcpy(warm->mutable_data(), plain.tensors[0].view.buffer()->data(), static_cast<size_t>(size));
    peer.Ask(shared);
  };
  Row("hand over 64 MiB that are not in shared memory",
      MedianRatio(
          31, [&] { peer.Ask(plain); }, floor),
      1.3, "x memcpy", "one memcpy and one hand-over");
}

}  // namespace

void ExchangeRows() {
  const OwnProcessors processors;
  RoundTripRow();
  CopiedRow();
  HandOverRows();
}

}  // namespace tensorcask::benchmarks
