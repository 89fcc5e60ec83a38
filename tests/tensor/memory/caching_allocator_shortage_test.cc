// What CachingAllocator does when the memory of the device runs short: releasing, limits, garbage collection.

#include <cstdint>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/device_backend.h"
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

TEST_F(CachingAllocatorTest, EmptyCacheWaitsForEventsAndKeepsSegmentsInUse) {
  Start(64 * kMiB);
  char* const a = New(2 * kMiB);
  char* const b = New(20 * kMiB);
  char* const c = New(512);
  char* const d = New(512);
  const StreamId stream = BusyStream(b);
  EXPECT_OK(cache_->RecordStream(b, stream));
  Delete(b, 20 * kMiB);
  Delete(c, 512);
  EXPECT_EQ(Segments(), 3);
  EXPECT_OK(cache_->EmptyCache());
  EXPECT_EQ(device_->pending(stream), 0);
  EXPECT_EQ(Segments(), 2);  // those of a and d
  EXPECT_EQ(device_->live_allocations(), 2);
  Delete(a, 2 * kMiB);
  Delete(d, 512);
  EXPECT_OK(cache_->EmptyCache());
  EXPECT_EQ(device_->live_allocations(), 0);
  EXPECT_EQ(Stats().reserved_bytes.all.current, 0);
}

TEST_F(CachingAllocatorTest, AMissReleasesCachedSegmentsAndTriesAgain) {
  Start(40 * kMiB);
  char* const a = New(20 * kMiB);
  char* const b = New(12 * kMiB);
  Delete(b, 12 * kMiB);
  char* const c = New(14 * kMiB);
  EXPECT_EQ(Stats().alloc_retries, 1);
  EXPECT_EQ(Stats().ooms, 0);
  EXPECT_THAT(SegmentSizes(), ElementsAre(20 * kMiB, 14 * kMiB));
  Delete(a, 20 * kMiB);
  Delete(c, 14 * kMiB);
}

TEST_F(CachingAllocatorTest, ExhaustionNamesAllNumbersAndLeavesTheRestUsable) {
  Start(40 * kMiB);
  char* const a = New(20 * kMiB);
  const absl::Status error = cache_->TryAllocate(30 * kMiB).status();
  EXPECT_THAT(error, StatusIs(Code::kResourceExhausted,
                              HasSubstr("ext_dev:0: no memory for 31457280 bytes (block 31457280, segment 31457280): "
                                        "20971520 of 41943040 bytes of the device are free; this allocator has "
                                        "reserved 20971520, of which 20971520 are in use and 0 are cached")));
  EXPECT_EQ(Stats().ooms, 1);
  EXPECT_EQ(Stats().alloc_retries, 1);
  EXPECT_EQ(cache_->Allocate(30 * kMiB), nullptr);
  EXPECT_THAT(cache_->TryAllocate(SIZE_MAX), StatusIs(Code::kResourceExhausted));
  EXPECT_EQ(Stats().ooms, 3);
  char* const b = New(20 * kMiB);
  Delete(a, 20 * kMiB);
  Delete(b, 20 * kMiB);
}

TEST_F(CachingAllocatorTest, OtherErrorsOfTheDeviceEndTheSearch) {
  Start(40 * kMiB);
  device_->FailNext(Call::kAllocate, 1, 0, Code::kUnavailable);
  EXPECT_THAT(cache_->TryAllocate(512), StatusIs(Code::kUnavailable));
  EXPECT_EQ(Stats().ooms, 0);
  EXPECT_EQ(device_->calls(Call::kAllocate), 1);
}

TEST_F(CachingAllocatorTest, CallbacksComeFirst) {
  Start(40 * kMiB);
  char* const a = New(20 * kMiB);
  char* held = New(20 * kMiB);
  int calls = 0;
  cache_->AddMissCallback([&] {
    ++calls;
    if (held == nullptr) return false;
    Delete(held, 20 * kMiB);
    held = nullptr;
    return true;
  });
  char* const b = New(20 * kMiB);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(device_->calls(Call::kAllocate), 2);  // none for b
  EXPECT_EQ(cache_->Allocate(20 * kMiB), nullptr);
  EXPECT_EQ(calls, 2);
  Delete(a, 20 * kMiB);
  Delete(b, 20 * kMiB);
}

TEST_F(CachingAllocatorTest, TheFractionLimitsSegments) {
  Start(80 * kMiB);
  EXPECT_THAT(cache_->SetMemoryFraction(1.5), StatusIs(Code::kInvalidArgument));
  EXPECT_OK(cache_->SetMemoryFraction(0.5));
  char* const a = New(20 * kMiB);
  EXPECT_THAT(cache_->TryAllocate(22 * kMiB), StatusIs(Code::kResourceExhausted, HasSubstr("its limit is 41943040")));
  EXPECT_EQ(device_->calls(Call::kAllocate), 1);
  char* const b = New(20 * kMiB);
  EXPECT_OK(cache_->SetMemoryFraction(0.1));  // what is there stays
  EXPECT_THAT(cache_->TryAllocate(512), StatusIs(Code::kResourceExhausted));
  Delete(a, 20 * kMiB);
  EXPECT_EQ(New(20 * kMiB), a);
  Delete(a, 20 * kMiB);
  Delete(b, 20 * kMiB);
}

TEST_F(CachingAllocatorTest, OversizeBlocksAreNeitherSplitNorWasted) {
  Start(300 * kMiB, "max_split_size_mb:32");
  char* const a = New(60 * kMiB);
  EXPECT_EQ(Stats().oversize_allocations.current, 1);
  EXPECT_EQ(Stats().oversize_segments.current, 1);
  Delete(a, 60 * kMiB);
  char* const small = New(30 * kMiB);  // below the limit: not from an oversize block
  EXPECT_EQ(At(small), static_cast<int64_t>(60 * kMiB));
  char* const wasteful = New(40 * kMiB);  // would waste 20 MiB
  EXPECT_NE(wasteful, a);
  char* const close = New(40 * kMiB + 512);  // wastes less; not split
  EXPECT_EQ(close, a);
  EXPECT_EQ(cache_->Describe(close).allocated_bytes, 60 * kMiB);
  Delete(small, 30 * kMiB);
  Delete(wasteful, 40 * kMiB);
  Delete(close, 40 * kMiB + 512);
}

TEST_F(CachingAllocatorTest, AMissReleasesOversizeBlocksBeforeAllOthers) {
  Start(150 * kMiB, "max_split_size_mb:32");
  char* const a = New(40 * kMiB);
  char* const b = New(50 * kMiB);
  char* const c = New(20 * kMiB);
  Delete(a, 40 * kMiB);
  Delete(b, 50 * kMiB);
  Delete(c, 20 * kMiB);
  char* const d = New(80 * kMiB);  // both oversize blocks together are enough
  EXPECT_THAT(SegmentSizes(), ElementsAre(80 * kMiB, 20 * kMiB));
  EXPECT_EQ(Stats().alloc_retries, 0);
  Delete(d, 80 * kMiB);
  char* const e = New(34 * kMiB);  // 46 MiB would be wasted; the device has memory
  Delete(e, 34 * kMiB);
  char* const f = New(60 * kMiB);  // one oversize block is enough: that of 80 MiB
  EXPECT_EQ(Segments(), 2 + 1);
  Delete(f, 60 * kMiB);
}

TEST_F(CachingAllocatorTest, GarbageCollectionReleasesBlocksByAge) {
  Start(100 * kMiB, "garbage_collection_threshold:0.5");
  EXPECT_OK(cache_->SetMemoryFraction(1));
  char* const old = New(20 * kMiB);
  char* const young = New(22 * kMiB);
  Delete(old, 20 * kMiB);
  Delete(young, 22 * kMiB);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(New(22 * kMiB), young);
    Delete(young, 22 * kMiB);
  }
  char* const held = New(30 * kMiB);  // 42 of 50 MiB are reserved: nothing is collected
  EXPECT_EQ(Segments(), 3);
  char* const trigger = New(26 * kMiB);  // 72 MiB: the older block goes, which is not enough; then the other one
  EXPECT_EQ(Stats().segments.all.freed, 2);
  EXPECT_EQ(Stats().alloc_retries, 0);
  EXPECT_EQ(Segments(), 2);
  Delete(held, 30 * kMiB);
  Delete(trigger, 26 * kMiB);
}

TEST_F(CachingAllocatorTest, GarbageCollectionStopsAtTheTarget) {
  Start(100 * kMiB, "garbage_collection_threshold:0.5");
  EXPECT_OK(cache_->SetMemoryFraction(1));
  char* const old = New(20 * kMiB);
  char* const young = New(22 * kMiB);
  char* const held = New(12 * kMiB);
  Delete(old, 20 * kMiB);
  Delete(young, 22 * kMiB);
  EXPECT_EQ(New(22 * kMiB), young);
  Delete(young, 22 * kMiB);
  char* const trigger = New(40 * kMiB);  // 54 MiB reserved, target 4: the older block alone is enough
  EXPECT_EQ(Stats().segments.all.freed, 1);
  EXPECT_EQ(New(22 * kMiB), young);
  Delete(young, 22 * kMiB);
  Delete(held, 12 * kMiB);
  Delete(trigger, 40 * kMiB);
}

}  // namespace
}  // namespace tensorcask
