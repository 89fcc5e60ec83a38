#include "tensorcask/tensor/memory/host_caching_allocator.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/internal/owner_lock.h"
#include "tensorcask/tests/support/failing_allocator.h"

namespace tensorcask {
namespace {

using ::tensorcask::internal::OwnerLock;
using ::tensorcask::testing::FailingAllocator;

TEST(HostCachingAllocator, ReusesPowersOfTwoAndExactSizes) {
  const auto below = MakeRef<FailingAllocator>();
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
  void* const small = cache->Allocate(1000);
  void* const large = cache->Allocate(100000);
  EXPECT_EQ(below->live_bytes(), 1024 + 100032);
  cache->Deallocate(small, 1000);
  cache->Deallocate(large, 100000);
  EXPECT_EQ(cache->cached_bytes(), 1024u + 100032u);
  EXPECT_EQ(cache->reserved_bytes(), 1024u + 100032u);
  EXPECT_EQ(cache->statistics().used_bytes, 0u);
  EXPECT_EQ(cache->Allocate(600), small);
  EXPECT_EQ(cache->Allocate(100001), large);
  EXPECT_EQ(cache->statistics().used_bytes, 1024u + 100032u);
  EXPECT_EQ(cache->statistics().from_below, 2);
  cache->Deallocate(small, 600);
  cache->Deallocate(large, 100001);
  EXPECT_EQ(below->calls(), 2);
  EXPECT_EQ(cache->Trim(), 1024u + 100032u);
  EXPECT_EQ(cache->cached_bytes(), 0u);
  EXPECT_EQ(cache->reserved_bytes(), 0u);
  EXPECT_EQ(below->live_blocks(), 0);
}

TEST(HostCachingAllocator, AThreadKeepsAFewBlocksForItself) {
  for (const size_t bytes : {size_t{64}, HostCachingAllocator::kMaxSmallBytes}) {
    SCOPED_TRACE(bytes);
    const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make();
    std::vector<void*> blocks;
    for (size_t i = 0; i < HostCachingAllocator::kSmallPerThread + 1; ++i) blocks.push_back(cache->Allocate(bytes));
    for (void* const block : blocks) cache->Deallocate(block, bytes);
    std::thread([&] {
      void* const shared = cache->Allocate(bytes);
      EXPECT_EQ(shared, blocks.back());  // the one that the first thread had too many of
      void* const fresh = cache->Allocate(bytes);
      for (void* const block : blocks) EXPECT_NE(fresh, block);
      cache->Deallocate(shared, bytes);
      cache->Deallocate(fresh, bytes);
    }).join();
    EXPECT_EQ(cache->cached_bytes(), bytes * (blocks.size() + 1));
  }
}

TEST(HostCachingAllocator, BlocksOfAThreadThatEndedAreReused) {
  const auto below = MakeRef<FailingAllocator>();
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
  void* block = nullptr;
  std::thread([&] {
    block = cache->Allocate(64);
    cache->Deallocate(block, 64);
  }).join();
  EXPECT_EQ(cache->Allocate(64), block);
  cache->Deallocate(block, 64);
}

TEST(HostCachingAllocator, AThreadMayOutliveTheAllocator) {
  const auto below = MakeRef<FailingAllocator>();
  for (int i = 0; i < 3; ++i) {
    const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
    cache->Deallocate(cache->Allocate(64), 64);
  }
  EXPECT_EQ(below->live_blocks(), 0);
}

TEST(HostCachingAllocator, ReturnsKeptBlocksBeforeItFails) {
  const auto below = MakeRef<FailingAllocator>(/*fail_at=*/2);
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
  cache->Deallocate(cache->Allocate(64), 64);
  void* const block = cache->Allocate(100000);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(below->live_blocks(), 1);
  cache->Deallocate(block, 100000);
}

TEST(HostCachingAllocator, AThreadKeepsTheLastLargerBlocks) {
  constexpr size_t kBytes = 100000;  // the size of the first; each other one has 64 more
  const auto below = MakeRef<FailingAllocator>();
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
  constexpr size_t kBlocks = HostCachingAllocator::kLargePerThread + 1;
  std::vector<void*> blocks;
  for (size_t i = 0; i < kBlocks; ++i) blocks.push_back(cache->Allocate(kBytes + i * 64));
  for (size_t i = 0; i < kBlocks; ++i) cache->Deallocate(blocks[i], kBytes + i * 64);
  std::thread([&] {
    void* const oldest = cache->Allocate(kBytes);
    EXPECT_EQ(oldest, blocks[0]);  // it made room
    void* const second = cache->Allocate(kBytes + 64);
    EXPECT_NE(second, blocks[1]);
    cache->Deallocate(oldest, kBytes);
    cache->Deallocate(second, kBytes + 64);
  }).join();
  for (size_t i = kBlocks; i-- > 1;) EXPECT_EQ(cache->Allocate(kBytes + i * 64), blocks[i]);
  for (size_t i = 1; i < kBlocks; ++i) cache->Deallocate(blocks[i], kBytes + i * 64);
  // Too large for the cache of a thread.
  constexpr size_t kShared = HostCachingAllocator::kMaxThreadBytes + 64;
  void* const shared = cache->Allocate(kShared);
  cache->Deallocate(shared, kShared);
  std::thread([&] {
    EXPECT_EQ(cache->Allocate(kShared), shared);
    cache->Deallocate(shared, kShared);
  }).join();
  EXPECT_EQ(cache->cached_bytes(), static_cast<uint64_t>(below->live_bytes()));
}

TEST(HostCachingAllocator, ALimitHoldsForThreadsToo) {
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(nullptr, size_t{8} << 20);
  for (const size_t bytes : {size_t{100000}, (size_t{128} << 10) + 64}) {  // the second is more than 8 MiB / 8 / 8
    void* const block = cache->Allocate(bytes);
    cache->Deallocate(block, bytes);
    std::thread([&] {
      void* const other = cache->Allocate(bytes);
      EXPECT_EQ(other == block, bytes != 100000);
      cache->Deallocate(other, bytes);
    }).join();
  }
}

#ifdef __x86_64__
// Refuses a system call in this process from now on.
void Refuse(uint32_t number) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(3);
}

TEST(HostCachingAllocatorDeathTest, WithoutMemoryBarriersThreadsKeepTheirBlocks) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const auto below = MakeRef<FailingAllocator>();
        {
          const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
          cache->Deallocate(cache->Allocate(64), 64);
          Refuse(SYS_membarrier);
          cache->Trim();
          if (OwnerLock::ProcessBarrier() || below->live_blocks() != 1) _exit(1);
          cache->Deallocate(cache->Allocate(64), 64);
        }
        _exit(below->live_blocks() == 0 ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "");
}
#endif

#ifndef __SANITIZE_THREAD__  // which does not follow a child
// The child has copies of the locks of threads that it does not have.
TEST(HostCachingAllocator, AChildOfForkUsesCachesOfItsOwn) {
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make();
  cache->Deallocate(cache->Allocate(64), 64);
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) static_cast<void>(cache->cached_bytes());
  });
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);
      {
        const RefPtr<HostCachingAllocator> mine = HostCachingAllocator::Make();
        mine->Deallocate(mine->Allocate(64), 64);
        mine->Trim();
      }
      std::exit(0);  // ends the thread, too
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "in round " << round;
  }
  ends = true;
  other.join();
}
#endif

// Eight threads free each other's blocks, trim, and end with kept memory.
TEST(HostCachingAllocator, ServesThreadsThatFreeEachOthersBlocks) {
  const auto below = MakeRef<FailingAllocator>();
  const RefPtr<HostCachingAllocator> cache = HostCachingAllocator::Make(below);
  std::mutex mutex;
  std::vector<std::pair<void*, size_t>> shared;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 300; ++i) {
          const size_t bytes = 1 + (i * 7919 + t * 131) % (i % 10 == 0 ? 200000 : 3000);
          void* const block = cache->Allocate(bytes);
          ASSERT_NE(block, nullptr);
          std::memset(block, static_cast<int>(t), bytes);
          std::pair<void*, size_t> other = {nullptr, 0};
          {
            const std::lock_guard<std::mutex> lock(mutex);
            shared.emplace_back(block, bytes);
            std::swap(shared[i % shared.size()], shared.back());
            if (shared.size() > 20) {
              other = shared.back();
              shared.pop_back();
            }
          }
          if (other.first != nullptr) cache->Deallocate(other.first, other.second);
          if (i % 100 == t) cache->Trim();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& [block, bytes] : shared) cache->Deallocate(block, bytes);
  cache->Trim();
  EXPECT_EQ(below->live_blocks(), 0);
}

}  // namespace
}  // namespace tensorcask
