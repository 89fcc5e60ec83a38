#include "tensorcask/tensor/base/parallel_for.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(ParallelFor, CallsEachIndexOnce) {
  for (int num_threads : {INT_MIN, -1, 0, 1, 2, 3, 8}) {
    for (size_t count : {0, 1, 2, 3, 7, 1000}) {
      SCOPED_TRACE(testing::Message() << count << " on " << num_threads);
      std::vector<std::atomic<int>> calls(count);
      ParallelFor(num_threads, count, [&](size_t i) { calls[i].fetch_add(1); });
      for (const std::atomic<int>& n : calls) EXPECT_EQ(n.load(), 1);
    }
  }
}

TEST(ParallelFor, StartsNoMoreThreadsThanThereIsWork) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  ParallelFor(INT_MAX, 3, [&](size_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_LE(ids.size(), 3u);
}

TEST(ParallelFor, RunsOnTheCallerWhenAlone) {
  const std::thread::id caller = std::this_thread::get_id();
  ParallelFor(1, 5, [&](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  ParallelFor(8, 1, [&](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST(ParallelFor, ReallyUsesSeveralThreads) {
  // Each call waits until both are running.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::atomic<int> arrived{0};
  std::atomic<int> met{0};
  ParallelFor(2, 2, [&](size_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    met.fetch_add(arrived.load() == 2 ? 1 : 0);
  });
  EXPECT_EQ(met.load(), 2);
}

TEST(ParallelFor, WhatThreadsWroteIsVisibleAfterwards) {
  std::vector<uint64_t> results(10000);
  ParallelFor(4, results.size(), [&](size_t i) { results[i] = i * i; });
  for (size_t i = 0; i < results.size(); ++i) ASSERT_EQ(results[i], i * i);
}

TEST(ParallelFor, Nests) {
  std::atomic<int> calls{0};
  ParallelFor(3, 4, [&](size_t) { ParallelFor(3, 5, [&](size_t) { calls.fetch_add(1); }); });
  EXPECT_EQ(calls.load(), 20);
}

// Ends the process with 0 if ParallelFor did all the work on this thread. A process that may map no more memory gets no
// stack for a new one.
[[noreturn]] void ExitAfterWorkWithoutThreads() {
  const rlimit limit = {64 << 10, 64 << 10};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
  const std::thread::id caller = std::this_thread::get_id();
  size_t sum = 0;
  bool alone = true;
  ParallelFor(8, 100, [&](size_t i) {
    if (std::this_thread::get_id() != caller) alone = false;
    sum += i;
  });
  std::_Exit(alone && sum == 4950 ? 0 : 1);
}

TEST(ParallelForDeathTest, CompletesWithoutThreads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve memory without bound";
#endif
  EXPECT_EXIT(ExitAfterWorkWithoutThreads(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensorcask
