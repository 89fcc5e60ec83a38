#include "tensorcask/tensor/memory/internal/owner_lock.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

// With process barriers where the system has them, and with atomic exchanges.
class OwnerLockTest : public ::testing::TestWithParam<bool> {
 protected:
  OwnerLock lock_{GetParam() && OwnerLock::RegisterProcessBarrier()};
};

TEST_P(OwnerLockTest, ARequestKeepsTheOwnerOut) {
  EXPECT_TRUE(lock_.TryLock());
  lock_.Unlock();
  lock_.Request();
  EXPECT_FALSE(lock_.TryLock());
  lock_.Withdraw();
  EXPECT_TRUE(lock_.TryLock());
  lock_.Unlock();
}

TEST_P(OwnerLockTest, AnotherThreadWaitsForTheOwner) {
  ASSERT_TRUE(lock_.TryLock());
  std::atomic<bool> has_entered{false};
  std::thread other([&] {
    lock_.Request();
    ASSERT_TRUE(OwnerLock::ProcessBarrier());
    lock_.WaitForOwner();
    has_entered = true;
    lock_.Withdraw();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_entered);
  lock_.Unlock();
  other.join();
  EXPECT_TRUE(has_entered);
  EXPECT_TRUE(lock_.TryLock());
  lock_.Unlock();
}

// The owner and two other threads change two numbers together, with pauses between them.
TEST_P(OwnerLockTest, LetsOneThreadInAtATime) {
  std::mutex others;
  int64_t first = 0;
  int64_t second = 0;  // each turn adds 1 to `first` and then to this
  int64_t num_torn = 0;
  const auto change_both = [&](uint32_t pause) {
    if (first != second) ++num_torn;
    ++first;
    if (pause % 64 == 0) std::this_thread::yield();
    for (uint32_t i = 0; i < pause % 32; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    ++second;
  };
  constexpr int kTurns = 3000;
  std::atomic<int> num_others{2};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::lock_guard<std::mutex> one(others);
        lock_.Request();
        ASSERT_TRUE(OwnerLock::ProcessBarrier());
        lock_.WaitForOwner();
        change_both(static_cast<uint32_t>(random()));
        lock_.Withdraw();
      }
      --num_others;
    });
  }
  std::mt19937 random(7);
  int64_t num_turns = 0;
  while (num_others > 0) {
    if (!lock_.TryLock()) continue;
    change_both(static_cast<uint32_t>(random()));
    lock_.Unlock();
    ++num_turns;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, num_turns + 2 * kTurns);
  EXPECT_EQ(second, first);
  EXPECT_EQ(num_torn, 0);
}

INSTANTIATE_TEST_SUITE_P(Paths, OwnerLockTest, ::testing::Bool());

}  // namespace
}  // namespace tensorcask::internal
