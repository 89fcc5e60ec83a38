// A CachingAllocator on a simulated device.

#ifndef TENSORCASK_TESTS_TENSOR_MEMORY_CACHING_ALLOCATOR_TESTING_H_
#define TENSORCASK_TESTS_TENSOR_MEMORY_CACHING_ALLOCATOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/caching_options.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/memory_snapshot.h"
#include "tensorcask/tensor/memory/memory_statistics.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

inline constexpr size_t kMiB = size_t{1} << 20;

class CachingAllocatorTest : public ::testing::Test {
 protected:
  void Start(uint64_t device_bytes, const char* options = "") {
    SimulatedBackend::Options backend_options;
    backend_options.memory_bytes = device_bytes;
    device_ = SimulatedBackend::Create(backend_options).value();
    cache_ = CachingAllocator::Make(device_, CachingOptions::Parse(options).value());
  }
  void TearDown() override {
    cache_ = nullptr;
    EXPECT_EQ(device_->live_allocations(), 0);
    EXPECT_EQ(device_->live_events(), 0);
  }

  char* New(size_t bytes, StreamId stream = kDefaultStream) {
    return static_cast<char*>(cache_->TryAllocate(bytes, stream).value());
  }
  void Delete(void* block, size_t bytes) { cache_->Deallocate(block, bytes); }
  int64_t At(const char* block) const { return block - device_->base(); }
  MemoryStatistics Stats() const { return cache_->statistics(); }
  int64_t Segments() const { return Stats().segments.all.current; }
  // Sizes of the segments, and of the blocks of all segments, in order of address; blocks that are free are negative.
  std::vector<int64_t> SegmentSizes() const {
    std::vector<int64_t> sizes;
    for (const auto& segment : cache_->Snapshot().segments) sizes.push_back(static_cast<int64_t>(segment.bytes));
    return sizes;
  }
  std::vector<int64_t> BlockSizes() const {
    std::vector<int64_t> sizes;
    for (const auto& segment : cache_->Snapshot().segments) {
      for (const auto& block : segment.blocks) {
        const auto bytes = static_cast<int64_t>(block.bytes);
        sizes.push_back(block.state == MemoryBlock::State::kInactive ? -bytes : bytes);
      }
    }
    return sizes;
  }
  // A stream with work that has not finished.
  StreamId BusyStream(void* block) {
    const StreamId stream = device_->CreateStream().value();
    EXPECT_OK(device_->Fill(block, 1, 1, stream));
    return stream;
  }

  RefPtr<SimulatedBackend> device_;
  RefPtr<CachingAllocator> cache_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_TENSOR_MEMORY_CACHING_ALLOCATOR_TESTING_H_
