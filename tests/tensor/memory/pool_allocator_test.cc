#include "tensorcask/tensor/memory/internal/pool_allocator.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tests/support/failing_allocator.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;

TEST(PoolAllocator, BucketsArePowersOfTwo) {
  const RefPtr<PoolAllocator> pool = PoolAllocator::Make();
  EXPECT_EQ(pool->BlockBytes(1), 32u);
  EXPECT_EQ(pool->BlockBytes(32), 32u);
  EXPECT_EQ(pool->BlockBytes(33), 64u);
  EXPECT_EQ(pool->BlockBytes(size_t{1} << 32), size_t{1} << 32);
  EXPECT_EQ(pool->BlockBytes((size_t{1} << 32) + 1), size_t{1} << 33);
  EXPECT_EQ(pool->BlockBytes(SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(PoolAllocator::BucketOf(1), 0);
  EXPECT_EQ(PoolAllocator::BucketOf(32), 0);
  EXPECT_EQ(PoolAllocator::BucketOf(33), 1);
  EXPECT_EQ(PoolAllocator::BucketOf(1024), 5);
  EXPECT_EQ(PoolAllocator::BucketOf(SIZE_MAX), 31);
}

TEST(PoolAllocator, ReusesBlocksOfABucketAndCounts) {
  const auto below = MakeRef<FailingAllocator>();
  const RefPtr<PoolAllocator> pool = PoolAllocator::Make(below, {});
  void* const a = pool->Allocate(1000);
  void* const b = pool->Allocate(100);
  EXPECT_EQ(pool->counters().used_bytes, 1024u + 128u);
  pool->Deallocate(a, 1000);
  EXPECT_EQ(pool->Allocate(513), a);
  void* const c = pool->Allocate(513);
  EXPECT_NE(c, a);
  const PoolAllocator::Counters counters = pool->counters();
  EXPECT_EQ(counters.hits, 1);
  EXPECT_EQ(counters.misses, 3);
  EXPECT_EQ(counters.peak_used_bytes, 2048u + 128u);
  EXPECT_EQ(below->live_bytes(), 2048 + 128);
  pool->Deallocate(a, 513);
  pool->Deallocate(b, 100);
  EXPECT_EQ(pool->Trim(128), 1024u);
  EXPECT_EQ(pool->counters().cached_bytes, 128u);
  EXPECT_EQ(pool->Trim(), 128u);
  EXPECT_EQ(below->live_blocks(), 1);
  pool->Deallocate(c, 513);
}

TEST(PoolAllocator, KeepsExactSizesAndNotMoreThanItMay) {
  const auto below = MakeRef<FailingAllocator>();
  PoolAllocator::Options options;
  options.exact_sizes = true;
  options.max_cached_bytes = 1024;
  const RefPtr<PoolAllocator> pool = PoolAllocator::Make(below, options);
  EXPECT_EQ(pool->BlockBytes(1000), 1024u);
  EXPECT_EQ(pool->BlockBytes(1025), 1088u);
  void* const a = pool->Allocate(1000);
  void* const b = pool->Allocate(1000);
  pool->Deallocate(a, 1000);
  pool->Deallocate(b, 1000);  // beyond the limit
  EXPECT_EQ(below->live_blocks(), 1);
  void* const c = pool->Allocate(960);
  EXPECT_NE(c, a);
  pool->Deallocate(c, 960);
}

TEST(PoolAllocator, GivesKeptBlocksBackBeforeItFails) {
  const auto below = MakeRef<FailingAllocator>(/*fail_at=*/2);
  const RefPtr<PoolAllocator> pool = PoolAllocator::Make(below, {});
  pool->Deallocate(pool->Allocate(100), 100);
  void* const block = pool->Allocate(1000);  // call 2 fails; the kept block is returned; call 3 works
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(below->live_blocks(), 1);
  pool->Deallocate(block, 1000);
}

TEST(PoolAllocator, AnyThreadMayFree) {
  const auto below = MakeRef<FailingAllocator>();
  const RefPtr<PoolAllocator> pool = PoolAllocator::Make(below, {});
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(pool->Allocate(64 + i));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < blocks.size(); i += 4) {
        std::memset(blocks[i], 1, 64 + i);
        pool->Deallocate(blocks[i], 64 + i);
        void* const again = pool->Allocate(64 + i);
        std::memset(again, 2, 64 + i);
        pool->Deallocate(again, 64 + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->counters().used_bytes, 0u);
  EXPECT_EQ(pool->counters().hits + pool->counters().misses, 400);
}

}  // namespace
}  // namespace tensorcask
