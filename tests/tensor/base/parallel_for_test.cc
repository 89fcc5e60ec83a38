#include "tensorcask/tensor/base/parallel_for.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;

TEST(ParallelFor, CallsEachIndexOnce) {
  for (int num_threads : {INT_MIN, -1, 0, 1, 2, 3, 8}) {
    for (size_t count : {0, 1, 2, 3, 7, 1000}) {
      SCOPED_TRACE(::testing::Message() << count << " on " << num_threads);
      std::vector<std::atomic<int>> calls(count);
      ASSERT_OK(ParallelFor(num_threads, count, [&](size_t i) { calls[i].fetch_add(1); }));
      for (const std::atomic<int>& n : calls) EXPECT_EQ(n.load(), 1);
    }
  }
}

TEST(ParallelFor, StartsNoMoreThreadsThanThereIsWork) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  ASSERT_OK(ParallelFor(INT_MAX, 3, [&](size_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    ids.insert(std::this_thread::get_id());
  }));
  EXPECT_LE(ids.size(), 3u);
}

TEST(ParallelFor, RunsOnTheCallerWhenAlone) {
  const std::thread::id caller = std::this_thread::get_id();
  ASSERT_OK(ParallelFor(1, 5, [&](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); }));
  ASSERT_OK(ParallelFor(8, 1, [&](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); }));
}

TEST(ParallelFor, ReallyUsesSeveralThreads) {
  // Each call waits until both are running.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::atomic<int> arrived{0};
  std::atomic<int> met{0};
  ASSERT_OK(ParallelFor(2, 2, [&](size_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    met.fetch_add(arrived.load() == 2 ? 1 : 0);
  }));
  EXPECT_EQ(met.load(), 2);
}

TEST(ParallelFor, WhatThreadsWroteIsVisibleAfterwards) {
  std::vector<uint64_t> results(10000);
  ASSERT_OK(ParallelFor(4, results.size(), [&](size_t i) { results[i] = i * i; }));
  for (size_t i = 0; i < results.size(); ++i) ASSERT_EQ(results[i], i * i);
}

TEST(ParallelFor, Nests) {
  std::atomic<int> calls{0};
  ASSERT_OK(ParallelFor(3, 4, [&](size_t) { EXPECT_OK(ParallelFor(3, 5, [&](size_t) { calls.fetch_add(1); })); }));
  EXPECT_EQ(calls.load(), 20);
}

TEST(ParallelFor, AnExceptionBecomesAnErrorInWhicheverThreadItIsThrown) {
  for (const int num_threads : {1, 2, 8}) {
    for (const size_t thrower : {0, 1, 50, 99}) {
      SCOPED_TRACE(::testing::Message() << num_threads << " threads, " << thrower);
      std::atomic<int> calls{0};
      const absl::Status status = ParallelFor(num_threads, 100, [&](size_t i) {
        calls.fetch_add(1);
        if (i == thrower) throw std::bad_alloc();
      });
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("no memory")));
      EXPECT_TRUE(IsResourceFailure(status));
      EXPECT_GT(calls.load(), static_cast<int>(thrower));
    }
  }
  std::atomic<int> calls{0};
  EXPECT_FALSE(ParallelFor(4, 1000, [&](size_t) {
                 calls.fetch_add(1);
                 throw std::bad_alloc();
               }).ok());
  EXPECT_LE(calls.load(), 4);  // no index is handed out after an exception
}

bool LimitAddressSpace() {
  const rlimit limit = {64 << 10, 64 << 10};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

// Whether a limited process may map no more memory. An emulator may accept the limit and not keep it.
bool SystemKeepsLimits() {
  const pid_t child = fork();
  if (child == 0) {
    const bool may_map =
        !LimitAddressSpace() || mmap(nullptr, 8 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    std::_Exit(may_map ? 1 : 0);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0;
}

// Ends the process with 0 if ParallelFor did all the work on this thread. A process that may map no more memory gets no
// stack for a new one.
[[noreturn]] void ExitAfterWorkWithoutThreads() {
  if (!LimitAddressSpace()) std::_Exit(2);
  const std::thread::id caller = std::this_thread::get_id();
  size_t sum = 0;
  bool alone = true;
  const absl::Status status = ParallelFor(8, 100, [&](size_t i) {
    if (std::this_thread::get_id() != caller) alone = false;
    sum += i;
  });
  std::_Exit(status.ok() && alone && sum == 4950 ? 0 : 1);
}

TEST(ParallelForDeathTest, CompletesWithoutThreads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve memory without bound";
#endif
  if (!SystemKeepsLimits()) GTEST_SKIP() << "this system does not keep RLIMIT_AS";
  EXPECT_EXIT(ExitAfterWorkWithoutThreads(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensorcask
