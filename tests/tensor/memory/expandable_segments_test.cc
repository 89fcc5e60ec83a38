// Expandable segments of the caching allocator.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;
using Call = SimulatedBackend::Call;

constexpr size_t kMiB = size_t{1} << 20;

class ExpandableSegmentsTest : public ::testing::Test {
 protected:
  void Start(uint64_t device_bytes) {
    SimulatedBackend::Options options;
    options.memory_bytes = device_bytes;
    device_ = SimulatedBackend::Create(options).value();
    cache_ = CachingAllocator::Make(device_, CachingOptions::Parse("expandable_segments:True").value());
  }
  void TearDown() override {
    cache_ = nullptr;
    EXPECT_EQ(device_->live_allocations(), 0) << "neither memory nor addresses";
  }

  char* New(size_t bytes, StreamId stream = kDefaultStream) {
    return static_cast<char*>(cache_->TryAllocate(bytes, stream).value());
  }
  void Delete(void* block, size_t bytes) { cache_->Deallocate(block, bytes); }
  int64_t Reserved() const { return cache_->statistics().reserved_bytes.all.current; }
  uint64_t Used() const {
    const DeviceMemoryInfo info = device_->MemoryInfo().value();
    return info.total_bytes - info.free_bytes;
  }
  // Bytes of the mapped runs; blocks that are free are negative.
  std::vector<int64_t> Blocks() const {
    std::vector<int64_t> sizes;
    for (const MemorySegment& segment : cache_->Snapshot().segments) {
      EXPECT_TRUE(segment.is_expandable);
      for (const MemoryBlock& block : segment.blocks) {
        const auto bytes = static_cast<int64_t>(block.bytes);
        sizes.push_back(block.state == MemoryBlock::State::kInactive ? -bytes : bytes);
      }
    }
    return sizes;
  }

  RefPtr<SimulatedBackend> device_;
  RefPtr<CachingAllocator> cache_;
};

TEST_F(ExpandableSegmentsTest, TheEndOfASegmentIsUsedLast) {
  Start(128 * kMiB);
  char* const a = New(8 * kMiB);
  char* const b = New(8 * kMiB);
  Delete(a, 8 * kMiB);
  char* const c = New(2 * kMiB);
  EXPECT_EQ(c, a) << "rather than the 4 MiB at the end, which can grow";
  Delete(b, 8 * kMiB);
  Delete(c, 2 * kMiB);
}

TEST_F(ExpandableSegmentsTest, OneSegmentGrowsInSteps) {
  Start(128 * kMiB);
  char* const a = New(8 * kMiB);
  EXPECT_EQ(Reserved(), 20 * static_cast<int64_t>(kMiB));
  char* const b = New(8 * kMiB);
  EXPECT_EQ(b, a + 8 * kMiB);
  EXPECT_EQ(Reserved(), 20 * static_cast<int64_t>(kMiB));
  char* const c = New(30 * kMiB);
  EXPECT_EQ(c, b + 8 * kMiB) << "the free end of the segment and two more steps";
  EXPECT_EQ(Reserved(), 60 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(Used(), 60 * kMiB);
  EXPECT_THAT(Blocks(), ElementsAre(8 * kMiB, 8 * kMiB, 30 * kMiB, -14 * static_cast<int64_t>(kMiB)));
  EXPECT_EQ(cache_->statistics().segments.all.current, 0);
  EXPECT_EQ(cache_->statistics().inactive_split.all.current, 0);
  // The small pool has a segment of its own, and so has each stream.
  char* const small = New(1000);
  EXPECT_GT(small, c + 30 * kMiB);
  EXPECT_EQ(Reserved(), 62 * static_cast<int64_t>(kMiB));
  char* const other = New(1000, device_->CreateStream().value());
  EXPECT_EQ(Reserved(), 64 * static_cast<int64_t>(kMiB));
  for (char* const block : {a, b}) Delete(block, 8 * kMiB);
  Delete(c, 30 * kMiB);
  Delete(small, 1000);
  Delete(other, 1000);
}

TEST_F(ExpandableSegmentsTest, SlowlyGrowingRequestsFit) {
  // With ordinary segments each request needs a new one, and the device is full after a few.
  Start(100 * kMiB);
  for (size_t mib = 11; mib <= 95; ++mib) {
    const size_t bytes = mib * kMiB;
    Delete(New(bytes), bytes);
  }
  EXPECT_EQ(Reserved(), 100 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(cache_->statistics().alloc_retries, 0);
}

TEST_F(ExpandableSegmentsTest, FreeStepsAreUnmapped) {
  Start(128 * kMiB);
  char* const a = New(30 * kMiB);
  char* const b = New(30 * kMiB);
  char* const c = New(30 * kMiB);
  Delete(b, 30 * kMiB);
  EXPECT_EQ(Reserved(), 100 * static_cast<int64_t>(kMiB));
  ASSERT_OK(cache_->EmptyCache());
  // Bytes 40 to 60 MiB are a whole step; those from 30 to 40, and the end of the last step, are not.
  EXPECT_EQ(Reserved(), 80 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(Used(), 80 * kMiB);
  EXPECT_THAT(Blocks(),
              ElementsAre(30 * kMiB, -10 * static_cast<int64_t>(kMiB), 30 * kMiB, -10 * static_cast<int64_t>(kMiB)));
  // What stayed is used without a new step, and the gap is filled before the end.
  EXPECT_EQ(New(9 * kMiB), b);
  EXPECT_EQ(Reserved(), 80 * static_cast<int64_t>(kMiB));
  Delete(b, 9 * kMiB);
  EXPECT_EQ(New(25 * kMiB), b);
  EXPECT_EQ(Reserved(), 100 * static_cast<int64_t>(kMiB));
  Delete(a, 30 * kMiB);
  Delete(b, 25 * kMiB);
  Delete(c, 30 * kMiB);
  EXPECT_THAT(Blocks(), ElementsAre(-100 * static_cast<int64_t>(kMiB)));
  ASSERT_OK(cache_->EmptyCache());
  EXPECT_THAT(Blocks(), IsEmpty());
  EXPECT_EQ(device_->live_allocations(), 0);
}

TEST_F(ExpandableSegmentsTest, WhenMemoryIsShortCachedStepsAreUnmapped) {
  Start(64 * kMiB);
  const StreamId stream = device_->CreateStream().value();
  Delete(New(40 * kMiB, stream), 40 * kMiB);
  char* const block = New(60 * kMiB);
  EXPECT_EQ(Used(), 60 * kMiB);
  EXPECT_EQ(cache_->statistics().alloc_retries, 1);
  EXPECT_THAT(cache_->TryAllocate(20 * kMiB), StatusIs(Code::kResourceExhausted, HasSubstr("67108864 bytes")));
  Delete(block, 60 * kMiB);
  Delete(New(20 * kMiB), 20 * kMiB);
}

TEST_F(ExpandableSegmentsTest, TheLimitHolds) {
  Start(128 * kMiB);
  ASSERT_OK(cache_->SetMemoryFraction(0.5));
  Delete(New(60 * kMiB), 60 * kMiB);
  EXPECT_THAT(cache_->TryAllocate(61 * kMiB), StatusIs(Code::kResourceExhausted, HasSubstr("its limit is 67108864")));
}

TEST_F(ExpandableSegmentsTest, AFailedMappingKeepsWhatWasMapped) {
  Start(128 * kMiB);
  device_->FailNext(Call::kAllocate, 1, 1, Code::kUnavailable);
  EXPECT_THAT(cache_->TryAllocate(50 * kMiB), StatusIs(Code::kUnavailable, HasSubstr("simulated")));
  EXPECT_EQ(Reserved(), 20 * static_cast<int64_t>(kMiB));
  EXPECT_THAT(Blocks(), ElementsAre(-20 * static_cast<int64_t>(kMiB)));
  device_->FailNext(Call::kFree, 1);
  EXPECT_THAT(cache_->EmptyCache(), StatusIs(Code::kInternal, HasSubstr("Free")));
  EXPECT_EQ(Reserved(), 20 * static_cast<int64_t>(kMiB));
  char* const block = New(50 * kMiB);
  EXPECT_EQ(Reserved(), 60 * static_cast<int64_t>(kMiB));
  Delete(block, 50 * kMiB);
}

TEST_F(ExpandableSegmentsTest, PrivatePoolsHaveSegmentsOfTheirOwn) {
  Start(128 * kMiB);
  ASSERT_OK_AND_ASSIGN(void* const block, cache_->TryAllocate(8 * kMiB, kDefaultStream, "graph"));
  char* const common = New(8 * kMiB);
  EXPECT_EQ(Reserved(), 40 * static_cast<int64_t>(kMiB));
  Delete(block, 8 * kMiB);
  Delete(common, 8 * kMiB);
  ASSERT_OK(cache_->EmptyCache());
  EXPECT_EQ(Reserved(), 20 * static_cast<int64_t>(kMiB));
}

TEST(ExpandableSegmentsOptionTest, DevicesWithoutVirtualMemoryUseOrdinarySegments) {
  SimulatedBackend::Options options;
  options.virtual_memory = false;
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(
      SimulatedBackend::Create(options).value(), CachingOptions::Parse("expandable_segments:True").value());
  void* const block = cache->Allocate(1000);
  EXPECT_EQ(cache->statistics().segments.all.current, 1);
  cache->Deallocate(block, 1000);
}

// Random requests: live blocks never overlap, all of their memory is mapped, and the numbers agree with the device's.
TEST_F(ExpandableSegmentsTest, RandomOperations) {
  for (uint32_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    Start(256 * kMiB);
    std::mt19937 random(seed);
    const auto draw = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
    const std::vector<StreamId> streams = {kDefaultStream, device_->CreateStream().value()};
    std::map<char*, size_t> live;
    for (int i = 0; i < 1500; ++i) {
      const size_t choice = draw(100);
      if (choice < 55 || live.empty()) {
        const size_t bytes = draw(3) == 0 ? 1 + draw(30 * kMiB) : 1 + draw(2 * kMiB);
        const absl::StatusOr<void*> block = cache_->TryAllocate(bytes, streams[draw(2)]);
        if (!block.ok()) {
          ASSERT_TRUE(absl::IsResourceExhausted(block.status())) << block.status();
          continue;
        }
        char* const start = static_cast<char*>(*block);
        const auto next = live.lower_bound(start);
        ASSERT_TRUE(next == live.end() || start + bytes <= next->first);
        ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= start);
        ASSERT_OK(device_->Fill(start, 1, bytes, kDefaultStream)) << "the block has memory";
        live[start] = bytes;
      } else if (choice < 97) {
        const auto freed = std::next(live.begin(), static_cast<int64_t>(draw(live.size())));
        if (draw(5) == 0) {
          ASSERT_OK(cache_->RecordStream(freed->first, streams[draw(2)]));
        }
        Delete(freed->first, freed->second);
        live.erase(freed);
      } else if (choice < 99) {
        device_->Complete(streams[draw(2)]);
      } else {
        ASSERT_OK(cache_->EmptyCache());
      }
      ASSERT_EQ(static_cast<uint64_t>(Reserved()), Used());
    }
    for (const auto& [start, bytes] : live) Delete(start, bytes);
    ASSERT_OK(cache_->EmptyCache());
    ASSERT_EQ(Used(), 0U);
    ASSERT_EQ(device_->live_allocations(), 0);
  }
}

}  // namespace
}  // namespace tensorcask
