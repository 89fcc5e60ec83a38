#include "tensorcask/tensor/memory/caching_allocator.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/memory/caching_allocator_testing.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CachingAllocatorTest;
using ::tensorcask::testing::kMiB;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

TEST_F(CachingAllocatorTest, SegmentsFollowTheSizeOfTheRequest) {
  Start(256 * kMiB);
  const std::vector<std::pair<size_t, int64_t>> kCases = {
      {1, 2 * kMiB},          {kMiB, 2 * kMiB},           {kMiB + 1, 20 * kMiB},  {10 * kMiB - 512, 20 * kMiB},
      {10 * kMiB, 10 * kMiB}, {10 * kMiB + 1, 12 * kMiB}, {33 * kMiB, 34 * kMiB},
  };
  for (const auto& [bytes, segment] : kCases) {
    SCOPED_TRACE(bytes);
    char* const block = New(bytes);
    EXPECT_THAT(SegmentSizes(), ElementsAre(segment));
    Delete(block, bytes);
    EXPECT_THAT(BlockSizes(), ElementsAre(-segment));
    EXPECT_OK(cache_->EmptyCache());
    EXPECT_EQ(Segments(), 0);
  }
}

TEST_F(CachingAllocatorTest, SmallBlocksAreSplitFrom512BytesOn) {
  Start(64 * kMiB);
  char* const a = New(1);
  char* const b = New(513);
  char* const c = New(kMiB);
  EXPECT_EQ(At(a), 0);
  EXPECT_EQ(At(b), 512);
  EXPECT_EQ(At(c), 1536);
  char* const d = New(kMiB - 1536);  // exactly the rest
  EXPECT_EQ(At(d), static_cast<int64_t>(kMiB) + 1536);
  EXPECT_THAT(BlockSizes(), ElementsAre(512, 1024, kMiB, kMiB - 1536));
  EXPECT_EQ(Stats().inactive_split.all.current, 0);
  Delete(a, 1);
  Delete(b, 513);
  EXPECT_THAT(BlockSizes(), ElementsAre(-1536, kMiB, kMiB - 1536));
  char* const e = New(1024);  // leaves 512, which is split off
  EXPECT_EQ(e, a);
  EXPECT_THAT(BlockSizes(), ElementsAre(1024, -512, kMiB, kMiB - 1536));
  Delete(c, kMiB);
  Delete(d, kMiB - 1536);
  Delete(e, 1024);
  EXPECT_THAT(BlockSizes(), ElementsAre(-2 * static_cast<int64_t>(kMiB)));
}

TEST_F(CachingAllocatorTest, LargeBlocksAreSplitIfMoreThanOneMebibyteRemains) {
  Start(64 * kMiB);
  char* const a = New(9 * kMiB);
  EXPECT_THAT(BlockSizes(), ElementsAre(9 * kMiB, -11 * static_cast<int64_t>(kMiB)));
  char* const b = New(10 * kMiB);  // exactly 1 MiB would remain: the block stays whole
  EXPECT_EQ(At(b), static_cast<int64_t>(9 * kMiB));
  EXPECT_THAT(BlockSizes(), ElementsAre(9 * kMiB, 11 * kMiB));
  EXPECT_EQ(Stats().allocated_bytes.large.current, static_cast<int64_t>(20 * kMiB));
  Delete(b, 10 * kMiB);
  char* const c = New(10 * kMiB - 512);
  EXPECT_THAT(BlockSizes(), ElementsAre(9 * kMiB, 10 * kMiB - 512, -static_cast<int64_t>(kMiB + 512)));
  Delete(a, 9 * kMiB);
  Delete(c, 10 * kMiB - 512);
  EXPECT_EQ(BlockSizes().size(), 1u);
}

TEST_F(CachingAllocatorTest, TheBestFitIsTheSmallestBlockThenTheLowestAddress) {
  Start(64 * kMiB);
  std::vector<char*> blocks;
  const std::vector<size_t> sizes = {4096, 512, 2048, 512, 1024, 512, 2048, 512};
  for (const size_t bytes : sizes) blocks.push_back(New(bytes));
  for (const size_t i : {0, 6, 2, 4}) Delete(blocks[i], sizes[i]);
  EXPECT_EQ(New(1536), blocks[2]);  // two blocks of 2048: the one at the lower address
  EXPECT_EQ(New(1024), blocks[4]);
  EXPECT_EQ(New(2048), blocks[6]);
  EXPECT_EQ(New(513), blocks[0]);
  Delete(blocks[0], 513);
  Delete(blocks[2], 1536);
  Delete(blocks[4], 1024);
  Delete(blocks[6], 2048);
  for (const size_t i : {1, 3, 5, 7}) Delete(blocks[i], 512);
}

TEST_F(CachingAllocatorTest, ABlockIsReusedForItsOwnStreamOnly) {
  Start(64 * kMiB);
  const StreamId other = device_->CreateStream().value();
  char* const a = New(1000);
  Delete(a, 1000);
  char* const b = New(1000, other);
  EXPECT_EQ(At(b), static_cast<int64_t>(2 * kMiB));  // a segment of its own
  EXPECT_EQ(New(1000), a);
  Delete(a, 1000);
  Delete(b, 1000);
  const RefPtr<Allocator> on_other = CachingAllocator::OnStream(cache_, other);
  EXPECT_EQ(on_other->Allocate(1000), b);
  EXPECT_EQ(on_other->Describe(b).allocated_bytes, 1024u);
  on_other->Deallocate(b, 1000);
}

TEST_F(CachingAllocatorTest, SmallAndLargeRequestsNeverShareSegments) {
  Start(64 * kMiB);
  char* const large = New(2 * kMiB);
  Delete(large, 2 * kMiB);
  char* const small = New(512);
  EXPECT_EQ(At(small), static_cast<int64_t>(20 * kMiB));
  EXPECT_EQ(Stats().segments.small.current, 1);
  EXPECT_EQ(Stats().segments.large.current, 1);
  Delete(small, 512);
}

TEST_F(CachingAllocatorTest, ARecordedStreamDefersTheFree) {
  Start(64 * kMiB);
  char* const a = New(2 * kMiB);
  const StreamId stream = BusyStream(a);
  EXPECT_OK(cache_->RecordStream(a, stream));
  EXPECT_OK(cache_->RecordStream(a, kDefaultStream));  // its own: ignored
  Delete(a, 2 * kMiB);
  EXPECT_EQ(Stats().allocations.all.current, 0);
  EXPECT_EQ(Stats().active.all.current, 1);
  EXPECT_EQ(Stats().active_bytes.all.current, static_cast<int64_t>(2 * kMiB));
  EXPECT_THAT(cache_->Snapshot().segments[0].blocks[0].state, MemoryBlock::State::kAwaitingFree);
  EXPECT_THAT(cache_->RecordStream(a, stream), StatusIs(Code::kInvalidArgument));
  EXPECT_EQ(cache_->Describe(a).allocated_bytes, 0u);

  char* const b = New(2 * kMiB);
  EXPECT_EQ(b - a, static_cast<int64_t>(2 * kMiB));  // a is not reused
  Delete(b, 2 * kMiB);
  EXPECT_THAT(BlockSizes(), ElementsAre(2 * kMiB, -18 * static_cast<int64_t>(kMiB)));  // nor merged
  EXPECT_EQ(device_->Complete(stream), 2);
  EXPECT_EQ(New(2 * kMiB), a);
  EXPECT_EQ(Stats().active.all.current, 1);
  Delete(a, 2 * kMiB);
}

TEST_F(CachingAllocatorTest, AllRecordedStreamsMustFinish) {
  Start(64 * kMiB);
  char* const a = New(512);
  const StreamId first = BusyStream(a);
  const StreamId second = BusyStream(a);
  EXPECT_OK(cache_->RecordStream(a, first));
  EXPECT_OK(cache_->RecordStream(a, second));
  EXPECT_OK(cache_->RecordStream(a, second));  // once is enough
  Delete(a, 512);
  EXPECT_EQ(device_->calls(Call::kRecordEvent), 2);
  device_->Complete(first);
  char* const b = New(512);
  EXPECT_NE(b, a);
  device_->Complete(second);
  char* const c = New(512);
  EXPECT_EQ(c, a);
  Delete(b, 512);
  Delete(c, 512);
}

TEST_F(CachingAllocatorTest, ABlockOfEveryStreamIsReusedAfterAllWorkOfTheDevice) {
  Start(20 * kMiB);
  char* const a = New(10 * kMiB);
  char* const b = New(10 * kMiB);
  const StreamId stream = BusyStream(a);
  EXPECT_OK(cache_->RecordStream(a, kEveryStream));
  EXPECT_OK(cache_->RecordStream(a, kEveryStream));
  Delete(a, 10 * kMiB);
  EXPECT_EQ(device_->calls(Call::kRecordEvent), 0) << "the stream may be gone: nothing is asked of it";
  EXPECT_GT(device_->pending(stream), 0);
  Delete(b, 10 * kMiB);
  EXPECT_EQ(New(10 * kMiB), b) << "what is free comes first";
  EXPECT_GT(device_->pending(stream), 0);
  EXPECT_EQ(New(10 * kMiB), a);
  EXPECT_EQ(device_->pending(stream), 0);
  Delete(a, 10 * kMiB);
  Delete(b, 10 * kMiB);
}

TEST_F(CachingAllocatorTest, PollingStopsAtTheFirstUnfinishedEventOfAStream) {
  Start(64 * kMiB);
  char* const a = New(512);
  char* const b = New(512);
  char* const c = New(512);
  const StreamId stream = BusyStream(a);
  for (char* const block : {a, b}) {
    EXPECT_OK(cache_->RecordStream(block, stream));
    Delete(block, 512);
  }
  Delete(New(512), 512);
  EXPECT_EQ(device_->calls(Call::kQueryEvent), 1);
  device_->Complete(stream, 2);  // the work and the first event
  EXPECT_EQ(New(512), a);
  EXPECT_EQ(device_->calls(Call::kQueryEvent), 3);
  Delete(a, 512);
  Delete(c, 512);
}

TEST_F(CachingAllocatorTest, StatisticsCountAsPyTorchDoes) {
  Start(64 * kMiB);
  char* const a = New(100);
  char* const b = New(2 * kMiB);
  Delete(a, 100);
  const MemoryStatistics statistics = Stats();
  const auto equal = [](const MemoryCounter& counter, int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
    EXPECT_EQ(counter, (MemoryCounter{current, peak, allocated, freed}))
        << counter.current << " " << counter.peak << " " << counter.allocated << " " << counter.freed;
  };
  constexpr int64_t kM = kMiB;
  equal(statistics.allocations.all, 1, 2, 2, 1);
  equal(statistics.allocations.small, 0, 1, 1, 1);
  equal(statistics.allocations.large, 1, 1, 1, 0);
  equal(statistics.allocated_bytes.all, 2 * kM, 2 * kM + 512, 2 * kM + 512, 512);
  equal(statistics.active.all, 1, 2, 2, 1);
  equal(statistics.segments.all, 2, 2, 2, 0);
  equal(statistics.reserved_bytes.small, 2 * kM, 2 * kM, 2 * kM, 0);
  equal(statistics.reserved_bytes.all, 22 * kM, 22 * kM, 22 * kM, 0);
  equal(statistics.inactive_split.all, 1, 2, 2, 1);
  equal(statistics.inactive_split_bytes.small, 0, 2 * kM - 512, 2 * kM - 512, 2 * kM - 512);
  equal(statistics.inactive_split_bytes.large, 18 * kM, 18 * kM, 18 * kM, 0);
  EXPECT_THAT(statistics.ToString(), HasSubstr("allocated_bytes      all           2097152         2097664         "
                                               "2097664             512\n"));
  cache_->ResetPeakStatistics();
  cache_->ResetAccumulatedStatistics();
  equal(Stats().allocations.all, 1, 1, 0, 0);
  Delete(b, 2 * kMiB);
}

// The figures of PyTorch's own test of its allocator's settings (test_allocator_settings in test/test_cuda.py).
TEST(CachingAllocatorSettings, RoundAsPyTorchsTestExpects) {
  const size_t bytes = size_t{4} * 21 * kMiB;
  const auto active_bytes = [&](const char* settings) {
    const RefPtr<SimulatedBackend> device = SimulatedBackend::Create({/*memory_bytes=*/256 * kMiB}).value();
    const auto cache = CachingAllocator::Make(device, CachingOptions::Parse(settings).value());
    void* const block = cache->TryAllocate(bytes, kDefaultStream).value();
    const int64_t allocated = cache->statistics().active_bytes.all.allocated;
    cache->Deallocate(block, bytes);
    return allocated;
  };
  EXPECT_EQ(active_bytes(""), 84 * kMiB);
  EXPECT_EQ(active_bytes("roundup_power2_divisions:4"), 96 * kMiB);
  EXPECT_EQ(active_bytes("garbage_collection_threshold:0.5,max_split_size_mb:40"), 84 * kMiB);
  for (const char* const refused : {"foo:1,bar:2", "garbage_collection_threshold:1.2", "max_split_size_mb:2"}) {
    EXPECT_FALSE(CachingOptions::Parse(refused).ok()) << refused;
  }
}

TEST_F(CachingAllocatorTest, SnapshotsAreStructsJsonAndDrawings) {
  Start(64 * kMiB);
  char* const a = New(5 * kMiB);
  char* const b = New(5 * kMiB - 100);
  const StreamId stream = BusyStream(b);
  EXPECT_OK(cache_->RecordStream(b, stream));
  Delete(b, 5 * kMiB - 100);
  const MemorySnapshot snapshot = cache_->Snapshot();
  ASSERT_EQ(snapshot.segments.size(), 1u);
  EXPECT_EQ(snapshot.segments[0].allocated_bytes, 5 * kMiB);
  EXPECT_EQ(snapshot.segments[0].active_bytes, 10 * kMiB);
  EXPECT_THAT(snapshot.Draw(16), HasSubstr("  20971520 bytes  large  stream 0  ####~~~~........\n"));

  const nlohmann::json json = nlohmann::json::parse(snapshot.ToJson());
  const auto& segment = json.at("segments").at(0);
  EXPECT_EQ(segment.at("total_size"), 20 * kMiB);
  EXPECT_EQ(segment.at("segment_type"), "large");
  EXPECT_EQ(segment.at("device"), "ext_dev:0");
  EXPECT_EQ(segment.at("address"), reinterpret_cast<uintptr_t>(a));
  ASSERT_EQ(segment.at("blocks").size(), 3u);
  EXPECT_EQ(segment.at("blocks").at(0).at("state"), "active_allocated");
  EXPECT_EQ(segment.at("blocks").at(1).at("state"), "active_pending_free");
  EXPECT_EQ(segment.at("blocks").at(1).at("requested_size"), 5 * kMiB - 100);
  EXPECT_EQ(segment.at("blocks").at(2).at("state"), "inactive");
  EXPECT_EQ(segment.at("blocks").at(2).at("size"), 10 * kMiB);
  Delete(a, 5 * kMiB);
}

TEST_F(CachingAllocatorTest, FailedEventsKeepBlocksOutOfTheCache) {
  Start(64 * kMiB);
  char* const a = New(512);
  const StreamId stream = BusyStream(a);
  EXPECT_OK(cache_->RecordStream(a, stream));
  device_->FailNext(Call::kRecordEvent, 2);
  Delete(a, 512);
  char* const b = New(512);  // recording is tried again, and fails again
  EXPECT_NE(b, a);
  device_->Complete(stream);
  char* const c = New(512);  // now it is recorded, on an idle stream
  EXPECT_EQ(c, a);
  Delete(b, 512);
  Delete(c, 512);
}

TEST_F(CachingAllocatorTest, SegmentsThatCannotBeFreedStayCached) {
  Start(64 * kMiB);
  char* const a = New(20 * kMiB);
  Delete(a, 20 * kMiB);
  device_->FailNext(Call::kFree, 1);
  EXPECT_THAT(cache_->EmptyCache(), StatusIs(Code::kInternal));
  EXPECT_EQ(Segments(), 1);
  EXPECT_EQ(New(20 * kMiB), a);
  Delete(a, 20 * kMiB);
}

TEST_F(CachingAllocatorTest, DestructionWaitsForStreams) {
  Start(64 * kMiB);
  char* const a = New(512);
  const StreamId stream = BusyStream(a);
  EXPECT_OK(cache_->RecordStream(a, stream));
  Delete(a, 512);
  device_->FailNext(Call::kSynchronize, 1);  // and even if waiting fails
}

RefPtr<SimulatedBackend> AutomaticDevice() {
  SimulatedBackend::Options options;
  options.automatic = true;
  return SimulatedBackend::Create(options).value();
}

TEST(CachingAllocatorOfOneDevice, ServesBuffersAndSeveralThreads) {
  const RefPtr<SimulatedBackend> device = AutomaticDevice();
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(device);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(1000, cache));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&cache, &device, t] {
      std::vector<std::pair<void*, size_t>> blocks;
      for (size_t i = 0; i < 300; ++i) {
        const size_t bytes = 1 + (i * 7919 + static_cast<size_t>(t) * 131) % 9000;
        void* const block = cache->Allocate(bytes);
        ASSERT_NE(block, nullptr);
        ASSERT_OK(device->Fill(block, static_cast<uint8_t>(t), bytes, kDefaultStream));
        blocks.emplace_back(block, bytes);
        if (i % 3 == 0) {
          const auto [old, old_bytes] = blocks.front();
          EXPECT_EQ(device->Peek(static_cast<const char*>(old) + old_bytes - 1), t);
          cache->Deallocate(old, old_bytes);
          blocks.erase(blocks.begin());
        }
      }
      for (const auto& [block, bytes] : blocks) cache->Deallocate(block, bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->statistics().allocations.all.current, 1);
  EXPECT_EQ(cache->statistics().allocations.all.allocated, 8 * 300 + 1);
}

TEST(CachingAllocatorDeathTest, FreeingTwiceIsABug) {
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(AutomaticDevice());
  void* const block = cache->Allocate(10);
  cache->Deallocate(block, 10);
  EXPECT_DEATH(cache->Deallocate(block, 10), "the block is in use");
}

}  // namespace
}  // namespace tensorcask
