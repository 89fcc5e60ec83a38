// The caching allocator on a device: reuse, streams, private pools, what goes back to the device, pinned memory.

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/pinned_allocator.h"
#include "tensorcask/tests/gpu/gpu_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AllAre;
using ::tensorcask::testing::GpuTest;
using ::tensorcask::testing::HoldsInATry;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class CachingTest : public GpuTest {
 protected:
  char* New(size_t bytes, StreamId stream = kDefaultStream) {
    return static_cast<char*>(cache()->TryAllocate(bytes, stream).value());
  }
  void Delete(void* block, size_t bytes) { cache()->Deallocate(block, bytes); }
};
CASK_ON_EACH_DEVICE(CachingTest);

TEST_P(CachingTest, ABlockIsReusedAfterTheRecordedWork) {
  for (const size_t bytes : {size_t{1000}, 3 * kMiB, 30 * kMiB}) {
    SCOPED_TRACE(bytes);
    const StreamId stream = NewStream();
    char* const block = New(bytes);
    char* const spare = New(bytes);  // so that the next request needs no memory of the device
    Delete(spare, bytes);
    Hold(stream);
    ASSERT_OK(backend().Fill(block, 7, bytes, stream));
    ASSERT_OK(cache()->RecordStream(block, stream));
    Delete(block, bytes);
    char* const other = New(bytes);
    EXPECT_NE(other, block) << "work of the stream still writes it";
    ASSERT_OK(backend().Fill(other, 1, bytes, kDefaultStream));
    Release(stream);
    EXPECT_THAT(Bytes(other, 1000), Each(1));
    char* const again = New(bytes);
    EXPECT_EQ(again, block);
    Delete(other, bytes);
    Delete(again, bytes);
    ASSERT_OK(cache()->EmptyCache());
  }
}

TEST_P(CachingTest, AStreamReusesItsOwnBlocksAtOnce) {
  const StreamId stream = NewStream();
  char* const block = New(kMiB, stream);
  Hold(stream);
  ASSERT_OK(backend().Fill(block, 7, kMiB, stream));
  Delete(block, kMiB);
  EXPECT_EQ(New(kMiB, stream), block) << "its work comes after that of the old block";
  ASSERT_OK(backend().Fill(block, 8, kMiB, stream));
  Release(stream);
  EXPECT_THAT(Bytes(block, 1000), Each(8));
  Delete(block, kMiB);
}

TEST_P(CachingTest, SeveralRecordedStreamsMustBeDone) {
  const StreamId first = NewStream();
  const StreamId second = NewStream();
  char* const block = New(1000);
  ASSERT_OK(backend().Fill(block, 1, 1000, first));
  ASSERT_OK(cache()->RecordStream(block, first));
  Hold(second);
  ASSERT_OK(backend().Fill(block, 2, 1000, second));
  ASSERT_OK(cache()->RecordStream(block, second));
  Delete(block, 1000);
  ASSERT_OK(backend().Synchronize(first));
  char* const other = New(1000);
  EXPECT_NE(other, block);
  Release(second);
  char* const again = New(1000);
  EXPECT_EQ(again, block);
  Delete(other, 1000);
  Delete(again, 1000);
}

TEST_P(CachingTest, SnapshotsSayWhatAwaitsItsStream) {
  const StreamId stream = NewStream();
  char* const block = New(1000);
  Hold(stream);
  ASSERT_OK(backend().Fill(block, 1, 1000, stream));
  ASSERT_OK(cache()->RecordStream(block, stream));
  Delete(block, 1000);
  const MemorySnapshot during = cache()->Snapshot();
  ASSERT_EQ(during.segments.size(), 1U);
  EXPECT_EQ(during.device, backend().device().ToString());
  EXPECT_EQ(during.segments[0].bytes, 2 * kMiB);
  ASSERT_EQ(during.segments[0].blocks.size(), 2U);
  EXPECT_EQ(during.segments[0].blocks[0].address, reinterpret_cast<uintptr_t>(block));
  EXPECT_EQ(during.segments[0].blocks[0].state, MemoryBlock::State::kAwaitingFree);
  Release(stream);
  Delete(New(512), 512);  // looks at the event
  EXPECT_EQ(cache()->Snapshot().segments[0].active_bytes, 0U);
}

TEST_P(CachingTest, EmptyCacheReturnsMemoryToTheDevice) {
  EXPECT_TRUE(HoldsInATry([&] {
    const uint64_t before = FreeBytes();
    std::map<char*, size_t> blocks;
    for (const size_t bytes : {size_t{1000}, kMiB, 3 * kMiB, 9 * kMiB, 100 * kMiB, 200 * kMiB})
      blocks[New(bytes)] = bytes;
    const int64_t reserved = cache()->statistics().reserved_bytes.all.current;
    EXPECT_EQ(reserved, static_cast<int64_t>(322 * kMiB));
    for (const auto& [block, bytes] : blocks) Delete(block, bytes);
    EXPECT_EQ(cache()->statistics().reserved_bytes.all.current, reserved) << "cached";
    const uint64_t cached = FreeBytes();
    EXPECT_OK(cache()->EmptyCache());
    EXPECT_EQ(cache()->statistics().reserved_bytes.all.current, 0);
    EXPECT_TRUE(cache()->Snapshot().segments.empty());
    return cached + 300 * kMiB <= before && FreeBytes() >= cached + 300 * kMiB;  // a driver may keep small blocks
  }));
}

TEST_P(CachingTest, EmptyCacheWaitsForRecordedWork) {
  const StreamId stream = NewStream();
  ASSERT_OK_AND_ASSIGN(void* const host, backend().AllocateHost(64 * kMiB));
  char* const block = New(64 * kMiB);
  ASSERT_OK(backend().Fill(block, 5, 64 * kMiB, stream));
  ASSERT_OK(backend().Copy(CopyKind::kDeviceToHost, host, block, 64 * kMiB, stream));
  ASSERT_OK(cache()->RecordStream(block, stream));
  Delete(block, 64 * kMiB);
  ASSERT_OK(cache()->EmptyCache());
  EXPECT_EQ(cache()->statistics().reserved_bytes.all.current, 0);
  EXPECT_EQ(static_cast<const char*>(host)[64 * kMiB - 1], 5);
  ASSERT_OK(backend().FreeHost(host, 64 * kMiB));
}

TEST_P(CachingTest, PrivatePoolsKeepTheirAddresses) {
  const RefPtr<Allocator> graph = CachingAllocator::OnPool(cache(), "graph");
  char* const common = New(1000);
  std::vector<void*> first;
  for (const size_t bytes : {size_t{1000}, 5 * kMiB, 40 * kMiB}) first.push_back(graph->TryAllocate(bytes).value());
  EXPECT_EQ(cache()->statistics().segments.all.current, 4);
  graph->Deallocate(first[0], 1000);
  graph->Deallocate(first[1], 5 * kMiB);
  graph->Deallocate(first[2], 40 * kMiB);
  char* const elsewhere = New(40 * kMiB);
  EXPECT_NE(elsewhere, first[2]);
  ASSERT_OK(cache()->EmptyCache());
  EXPECT_EQ(graph->TryAllocate(1000).value(), first[0]);
  EXPECT_EQ(graph->TryAllocate(5 * kMiB).value(), first[1]);
  EXPECT_EQ(graph->TryAllocate(40 * kMiB).value(), first[2]);
  graph->Deallocate(first[0], 1000);
  graph->Deallocate(first[1], 5 * kMiB);
  graph->Deallocate(first[2], 40 * kMiB);
  ASSERT_OK(cache()->RetirePool("graph"));
  ASSERT_OK(cache()->EmptyCache());
  EXPECT_EQ(cache()->statistics().segments.all.current, 2);
  Delete(common, 1000);
  Delete(elsewhere, 40 * kMiB);
}

TEST_P(CachingTest, TheLimitIsAnErrorWithNumbers) {
  ASSERT_OK_AND_ASSIGN(const DeviceMemoryInfo info, backend().MemoryInfo());
  ASSERT_OK(cache()->SetMemoryFraction(100.0 * kMiB / static_cast<double>(info.total_bytes)));
  char* const block = New(80 * kMiB);
  EXPECT_THAT(cache()->TryAllocate(30 * kMiB),
              StatusIs(Code::kResourceExhausted,
                       AllOf(HasSubstr(backend().device().ToString()), HasSubstr(std::to_string(30 * kMiB)),
                             HasSubstr(std::to_string(80 * kMiB)), HasSubstr(std::to_string(info.total_bytes)))));
  Delete(block, 80 * kMiB);
  char* const other = New(90 * kMiB);
  EXPECT_EQ(cache()->statistics().segments.all.current, 1) << "the cached segment was released";
  Delete(other, 90 * kMiB);
}

// Blocks in use never overlap: each keeps the value that it was filled with.
TEST_P(CachingTest, RandomRequestsOfThreads) {
  constexpr int kThreads = 4;
  std::vector<StreamId> streams;
  for (int t = 0; t < kThreads; ++t) streams.push_back(NewStream());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      const StreamId stream = streams[static_cast<size_t>(t)];
      struct Live {
        char* block;
        size_t bytes;
        uint8_t value;
      };
      std::vector<Live> live;
      for (int i = 0; i < 250; ++i) {
        if (live.size() < 8 && random() % 5 < 3) {
          const size_t bytes = 1 + random() % (random() % 4 == 0 ? 12 * kMiB : kMiB / 2);
          const absl::StatusOr<void*> block = cache()->TryAllocate(bytes, stream);
          ASSERT_OK(block);
          const auto value = static_cast<uint8_t>(random());
          live.push_back({static_cast<char*>(*block), bytes, value});
          ASSERT_OK(backend().Fill(*block, value, bytes, stream));
        } else if (!live.empty()) {
          const size_t chosen = random() % live.size();
          const Live one = live[chosen];
          live[chosen] = live.back();
          live.pop_back();
          if (random() % 4 == 0) {
            EXPECT_TRUE(AllAre(Bytes(one.block + one.bytes / 2, one.bytes - one.bytes / 2, stream), one.value));
          }
          if (random() % 3 == 0) {
            ASSERT_OK(cache()->RecordStream(one.block, streams[random() % streams.size()]));
          }
          Delete(one.block, one.bytes);
        }
      }
      for (const Live& one : live) Delete(one.block, one.bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(cache()->EmptyCache());
  EXPECT_EQ(cache()->statistics().reserved_bytes.all.current, 0);
}

TEST_P(CachingTest, PinnedBlocksAreReusedAfterTheRecordedWork) {
  const RefPtr<PinnedAllocator> pinned = PinnedAllocator::Make(device());
  const StreamId stream = NewStream();
  char* const block = New(8192);
  void* const host = pinned->TryAllocate(8192).value();
  pinned->Deallocate(pinned->TryAllocate(8192).value(), 8192);
  Hold(stream);
  ASSERT_OK(backend().Copy(CopyKind::kHostToDevice, block, host, 8192, stream));
  ASSERT_OK(pinned->RecordStream(host, stream));
  pinned->Deallocate(host, 8192);
  void* const other = pinned->TryAllocate(8192).value();
  EXPECT_NE(other, host);
  Release(stream);
  void* const again = pinned->TryAllocate(8192).value();
  EXPECT_EQ(again, host);
  pinned->Deallocate(other, 8192);
  pinned->Deallocate(again, 8192);
  ASSERT_OK(pinned->EmptyCache());
  EXPECT_EQ(pinned->counters().cached_bytes, 0U);
  Delete(block, 8192);
}

}  // namespace
}  // namespace tensorcask
