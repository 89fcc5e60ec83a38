#include "tensorcask/tensor/memory/internal/owner_lock.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

// The owner and two other threads add to a number that only the lock protects.
TEST(OwnerLock, LetsOneThreadInAtATime) {
  constexpr int64_t kOwnersTurns = 2000000;
  constexpr int64_t kOthersTurns = 2000;
  OwnerLock lock;
  std::mutex others;
  int64_t first = 0;
  int64_t second = 0;  // equal to `first` outside of the lock
  int64_t torn = 0;
  const auto turn = [&] {
    if (first != second) ++torn;
    ++first;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++second;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int64_t j = 0; j < kOthersTurns; ++j) {
        const std::lock_guard<std::mutex> one(others);
        const OwnerLock::ByOther held(lock);
        turn();
      }
    });
  }
  std::thread owner([&] {
    for (int64_t j = 0; j < kOwnersTurns; ++j) {
      const OwnerLock::ByOwner held(lock);
      turn();
    }
  });
  owner.join();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, kOwnersTurns + 2 * kOthersTurns);
  EXPECT_EQ(second, first);
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace tensorcask::internal
