// `operator new` fails, once at each place where the allocators call it, or from there on: nothing is torn, nothing is
// lost, and no free and no destructor fails.

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"
#include "tensorcask/tensor/memory/internal/pool_allocator.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/pinned_allocator.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/emulator.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/failing_new.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_module.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::FailingNew;

struct Block {
  void* start;
  size_t bytes;
};

// What a test does with an allocator. Calls that may throw go through Try.
class Steps {
 public:
  // Whether fn returned.
  bool Try(absl::FunctionRef<void()> fn) {
    try {
      fn();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void Allocate(absl::FunctionRef<void*()> allocate, size_t bytes) {
    void* start = nullptr;
    if (Try([&] { start = allocate(); })) Add(start, bytes);
  }
  void Add(void* start, size_t bytes) {
    if (start != nullptr) live[num_live++] = {start, bytes};
  }
  // Frees live block number i, if there are so many.
  void Free(Allocator& allocator, size_t i) {
    if (i >= num_live) return;
    const Block block = live[i];
    live[i] = live[--num_live];
    allocator.Deallocate(block.start, block.bytes);
  }
  void FreeAll(Allocator& allocator) {
    while (num_live > 0) Free(allocator, 0);
  }

  Block live[64];
  size_t num_live = 0;
};

// Allocations, frees, work of another stream and releases.
void UseCache(DeviceBackend& device, CachingAllocator& cache, StreamId other, Steps& steps) {
  constexpr size_t kSizes[] = {600, size_t{3} << 20, 512, size_t{30} << 20, size_t{900} << 10, 5000, size_t{2} << 20};
  for (size_t i = 0; i < 30; ++i) {
    const size_t bytes = kSizes[i % 7];
    const StreamId stream = i % 5 == 4 ? other : kDefaultStream;
    const char* const pool = i % 11 == 10 ? "private" : "";
    steps.Allocate([&] { return cache.TryAllocate(bytes, stream, pool).value_or(nullptr); }, bytes);
    if (i % 6 == 5) steps.Add(cache.Allocate(bytes), bytes);  // never throws
    if (i % 3 == 0 && steps.num_live > 0) {
      const Block used = steps.live[0];
      steps.Try([&] { static_cast<void>(cache.RecordStream(used.start, i % 2 == 0 ? other : kDefaultStream)); });
      steps.Try([&] { static_cast<void>(device.Fill(used.start, 1, 1, other)); });
    }
    if (i % 2 == 1) steps.Free(cache, i % 4 == 1 ? 0 : 1);
    if (i % 8 == 7) steps.Try([&] { static_cast<void>(device.Synchronize(other)); });
    if (i % 13 == 12) steps.Try([&] { static_cast<void>(cache.EmptyCache()); });
  }
}

class CachingAllocatorFailure : public ::testing::TestWithParam<const char*> {
 protected:
  RefPtr<CachingAllocator> NewCache(const RefPtr<DeviceBackend>& device) {
    return CachingAllocator::Make(device, CachingOptions::Parse(GetParam()).value());
  }
  // What is true of a cache whatever has failed. Frees all blocks.
  void ExpectWhole(CachingAllocator& cache, Steps& steps) {
    uint64_t used_bytes = 0;
    for (const MemorySegment& segment : cache.Snapshot().segments) used_bytes += segment.allocated_bytes;
    EXPECT_EQ(static_cast<int64_t>(used_bytes), cache.statistics().allocated_bytes.all.current);
    EXPECT_EQ(static_cast<int64_t>(steps.num_live), cache.statistics().allocations.all.current);
    steps.FreeAll(cache);
    static_cast<void>(cache.RetirePool("private"));
    EXPECT_OK(cache.EmptyCache());
    EXPECT_EQ(cache.statistics().reserved_bytes.all.current, 0);
    EXPECT_EQ(cache.statistics().active_bytes.all.current, 0);
    EXPECT_TRUE(cache.Snapshot().segments.empty());
  }
};

TEST_P(CachingAllocatorFailure, LeavesAllBlocksWhole) {
  // Each simulated device reserves gibibytes of addresses.
  if (testing::IsEmulated()) GTEST_SKIP() << "an emulator uses memory for each page that was ever reserved";
  for (const auto extent : {FailingNew::kOnce, FailingNew::kFromThenOn}) {
    int64_t n = 0;
    for (bool failed = true; failed; ++n) {
      SCOPED_TRACE(n);
      SimulatedBackend::Options backend_options;
      backend_options.memory_bytes = uint64_t{128} << 20;
      const RefPtr<SimulatedBackend> device = SimulatedBackend::Create(backend_options).value();
      {
        const RefPtr<CachingAllocator> cache = NewCache(device);
        const StreamId other = device->CreateStream().value();
        Steps steps;
        {
          const FailingNew failing(n, extent, FailingNew::kThisThread);
          UseCache(*device, *cache, other, steps);
          failed = failing.has_failed();
        }
        ExpectWhole(*cache, steps);
      }
      EXPECT_EQ(device->live_allocations(), 0);
      EXPECT_EQ(device->live_events(), 0);
      EXPECT_EQ(device->MemoryInfo().value().free_bytes, backend_options.memory_bytes);
      if (HasFailure()) return;
    }
    EXPECT_GT(n, 50);
  }
}

TEST_P(CachingAllocatorFailure, TheDestructorDoesNotThrow) {
  if (testing::IsEmulated()) GTEST_SKIP() << "an emulator uses memory for each page that was ever reserved";
  for (int64_t n = 0; n < 40; ++n) {
    SCOPED_TRACE(n);
    const RefPtr<SimulatedBackend> device = SimulatedBackend::Create({}).value();
    RefPtr<CachingAllocator> cache = NewCache(device);
    Steps steps;
    UseCache(*device, *cache, device->CreateStream().value(), steps);
    for (size_t i = 0; i < steps.num_live; ++i) EXPECT_OK(cache->RecordStream(steps.live[i].start, 1));
    const FailingNew failing(n, FailingNew::kFromThenOn, FailingNew::kThisThread);
    steps.FreeAll(*cache);
    cache = nullptr;
  }
}

TEST_P(CachingAllocatorFailure, LeavesTheMemoryOfAGpuWhole) {
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE(n);
    CudaBackend::Options options;
    options.library = testing::TestModule("tests/tensor/memory/libfake_cuda.so");
    const RefPtr<CudaBackend> device = CudaBackend::Create(options).value();
    const uint64_t free_bytes = device->MemoryInfo().value().free_bytes;
    {
      const RefPtr<CachingAllocator> cache = NewCache(device);
      const StreamId other = device->CreateStream().value();
      Steps steps;
      {
        const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
        UseCache(*device, *cache, other, steps);
        failed = failing.has_failed();
      }
      ExpectWhole(*cache, steps);
    }
    EXPECT_EQ(device->MemoryInfo().value().free_bytes, free_bytes);
    if (HasFailure()) return;
  }
  EXPECT_GT(n, 50);
}

INSTANTIATE_TEST_SUITE_P(Options, CachingAllocatorFailure,
                         ::testing::Values("", "max_split_size_mb:25", "expandable_segments:True"));

TEST(BufferFailure, ABufferThatCannotBeMadeFreesItsBlock) {
  const RefPtr<SimulatedBackend> device = SimulatedBackend::Create({}).value();
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(device);
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
    try {
      static_cast<void>(TensorBuffer::Allocate(16, cache));
    } catch (const std::bad_alloc&) {
    }
    failed = failing.has_failed();
    EXPECT_EQ(cache->statistics().allocations.all.current, 0) << n;
  }
  EXPECT_GT(n, 2);
}

// A read whose consumer fails while a copy is under way.
TEST(StagedMemoryFailure, ReadsGiveBackTheirBlocks) {
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE(n);
    const RefPtr<SimulatedBackend> device = SimulatedBackend::Create({}).value();
    const RefPtr<CachingAllocator> cache = CachingAllocator::Make(device);
    constexpr size_t kBytes = size_t{2} << 20;
    void* const block = cache->TryAllocate(kBytes).value();
    {
      const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
      try {
        EXPECT_FALSE(
            cache->device_memory()->Read(block, kBytes, [](absl::string_view) { return absl::CancelledError(); }).ok());
      } catch (const std::bad_alloc&) {
      }
      failed = failing.has_failed();
    }
    cache->Deallocate(block, kBytes);
    EXPECT_OK(cache->EmptyCache());
    EXPECT_OK(cache->pinned()->EmptyCache());
    EXPECT_EQ(device->live_host_bytes(), 0u);
    EXPECT_EQ(device->live_events(), 0);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n, 10);
}

TEST(PinnedAllocatorFailure, LeavesAllBlocksWhole) {
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE(n);
    const RefPtr<SimulatedBackend> device = SimulatedBackend::Create({}).value();
    const RefPtr<PinnedAllocator> pinned = PinnedAllocator::Make(device);
    const StreamId other = device->CreateStream().value();
    Steps steps;
    {
      const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
      for (size_t i = 0; i < 20; ++i) {
        const size_t bytes = 600 << (i % 3);
        steps.Allocate([&] { return pinned->TryAllocate(bytes).value_or(nullptr); }, bytes);
        if (i % 3 == 0 && steps.num_live > 0) {
          const Block used = steps.live[0];
          steps.Try([&] { static_cast<void>(pinned->RecordStream(used.start, i % 2 == 0 ? other : kDefaultStream)); });
        }
        if (i % 2 == 1) steps.Free(*pinned, i % 4 == 1 ? 0 : 1);
        if (i % 8 == 7) steps.Try([&] { device->Complete(other); });
        if (i % 9 == 8) steps.Try([&] { static_cast<void>(pinned->EmptyCache()); });
      }
      failed = failing.has_failed();
    }
    steps.FreeAll(*pinned);
    EXPECT_EQ(pinned->counters().used_bytes, 0u);
    EXPECT_OK(pinned->EmptyCache());
    EXPECT_EQ(pinned->counters().cached_bytes, 0u);
    EXPECT_EQ(pinned->counters().waiting_bytes, 0u);
    EXPECT_EQ(device->live_host_bytes(), 0u);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n, 20);
}

void ExpectNoBlockIsLost(FailingNew::Extent extent,
                         absl::FunctionRef<RefPtr<Allocator>(RefPtr<Allocator> below)> make) {
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE(n);
    const auto below = MakeRef<FailingAllocator>();
    {
      const RefPtr<Allocator> cache = make(below);
      Steps steps;
      {
        const FailingNew failing(n, extent, FailingNew::kThisThread);
        for (size_t i = 0; i < 120; ++i) {
          const size_t bytes = (i % 4 == 3 ? 70000 : 40) + i / 8 * 64;
          if (steps.num_live < 60) steps.Add(cache->Allocate(bytes), bytes);  // never throws
          if (i % 3 == 2) steps.Free(*cache, i % 7);
        }
        failed = failing.has_failed();
      }
      steps.FreeAll(*cache);
    }
    EXPECT_EQ(below->live_blocks(), 0);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(n, 3);
}

TEST(PoolAllocatorFailure, LosesNoBlock) {
  for (const auto extent : {FailingNew::kOnce, FailingNew::kFromThenOn}) {
    for (const bool exact_sizes : {false, true}) {
      ExpectNoBlockIsLost(extent, [&](RefPtr<Allocator> below) {
        return PoolAllocator::Make(std::move(below), {exact_sizes, /*max_cached_bytes=*/200000});
      });
    }
  }
}

TEST(HostCachingAllocatorFailure, LosesNoBlock) {
  for (const auto extent : {FailingNew::kOnce, FailingNew::kFromThenOn}) {
    ExpectNoBlockIsLost(extent, [](RefPtr<Allocator> below) { return HostCachingAllocator::Make(std::move(below)); });
  }
}

}  // namespace
}  // namespace tensorcask
