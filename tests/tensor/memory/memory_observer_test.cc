#include "tensorcask/tensor/memory/memory_observer.h"

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"
#include "tensorcask/tests/support/failing_allocator.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;

class Recorder final : public MemoryObserver {
 public:
  void OnMemoryEvent(const MemoryEvent& event) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks.push_back(event.block);
    bytes.push_back(event.bytes);
    totals.push_back(event.total_allocated);
    reserved.push_back(event.total_reserved);
    device = event.device;
  }

  std::vector<const void*> blocks;
  std::vector<int64_t> bytes;
  std::vector<int64_t> totals;
  std::vector<int64_t> reserved;
  Device device;

 private:
  std::mutex mutex_;
};

// The numbers of PyTorch's test of its memory reporting.
TEST(MemoryObserver, GetsEachAllocationAndFreeWithTheTotal) {
  const Device device = {DeviceType::kCuda, 1};
  const RefPtr<ObservedAllocator> allocator = ObservedAllocator::Make(CpuAllocator::Default(), device);
  Recorder recorder;
  {
    const ScopedThreadObserver scope(&recorder);
    void* const a = allocator->Allocate(42);
    void* const b = allocator->Allocate(1038);
    allocator->Deallocate(a, 42);
    allocator->Deallocate(b, 1038);
    EXPECT_THAT(recorder.blocks, ElementsAre(a, b, a, b));
  }
  EXPECT_THAT(recorder.bytes, ElementsAre(42, 1038, -42, -1038));
  EXPECT_THAT(recorder.totals, ElementsAre(42, 1080, 1038, 0));
  EXPECT_EQ(recorder.reserved, recorder.totals) << "this allocator keeps nothing";
  EXPECT_EQ(recorder.device, device);
  allocator->Deallocate(allocator->Allocate(1), 1);  // after the scope
  EXPECT_EQ(recorder.bytes.size(), 4u);
}

TEST(MemoryObserver, TellsWhatTheAllocatorHolds) {
  const RefPtr<ObservedAllocator> allocator = ObservedAllocator::Make(HostCachingAllocator::Make());
  Recorder recorder;
  const ScopedThreadObserver scope(&recorder);
  allocator->Deallocate(allocator->Allocate(1000), 1000);
  allocator->Deallocate(allocator->Allocate(1000), 1000);
  EXPECT_THAT(recorder.totals, ElementsAre(1000, 0, 1000, 0));
  EXPECT_THAT(recorder.reserved, ElementsAre(1024, 1024, 1024, 1024));
  EXPECT_EQ(allocator->reserved_bytes(), 1024u);
}

TEST(MemoryObserver, ScopesNestAndAFailedAllocationIsNoEvent) {
  const RefPtr<ObservedAllocator> allocator =
      ObservedAllocator::Make(MakeRef<testing::FailingAllocator>(/*fail_at=*/2));
  Recorder outer;
  Recorder inner;
  const ScopedThreadObserver outer_scope(&outer);
  void* block = nullptr;
  {
    const ScopedThreadObserver inner_scope(&inner);
    block = allocator->Allocate(10);
    EXPECT_EQ(allocator->Allocate(10), nullptr);
  }
  allocator->Deallocate(block, 10);
  EXPECT_THAT(inner.bytes, ElementsAre(10));
  EXPECT_THAT(outer.bytes, ElementsAre(-10));
}

TEST(MemoryObserver, TheProcessSeesAllThreads) {
  const RefPtr<ObservedAllocator> allocator = ObservedAllocator::Make(CpuAllocator::Default());
  Recorder process;
  Recorder thread;
  EXPECT_EQ(SetProcessObserver(&process), nullptr);
  const ScopedThreadObserver scope(&thread);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) allocator->Deallocate(allocator->Allocate(8), 8);
    });
  }
  for (std::thread& one : threads) one.join();
  allocator->Deallocate(allocator->Allocate(8), 8);
  EXPECT_EQ(SetProcessObserver(nullptr), &process);
  EXPECT_EQ(process.bytes.size(), 402u);
  EXPECT_EQ(thread.bytes.size(), 2u);
}

}  // namespace
}  // namespace tensorcask
