#include "tensorcask/serialize/payload/internal/ordered_for.h"

#include <atomic>
#include <cstdint>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::payload {
namespace {

using ::tensorcask::testing::StatusIs;
using Code = absl::StatusCode;

TEST(OrderedFor, UsesInOrderWhatWorkersDid) {
  for (const int threads : {-1, 1, 2, 5, 100}) {
    for (const uint64_t count : {0, 1, 3, 200}) {
      SCOPED_TRACE(absl::StrCat(threads, " threads, ", count));
      const size_t workers = NumWorkers(threads, count);
      EXPECT_LE(workers, count);
      std::vector<uint64_t> done(workers);
      std::vector<std::thread::id> thread_of(workers);
      std::vector<uint64_t> used;
      ASSERT_OK(OrderedFor(
          threads, count,
          [&](size_t worker, uint64_t i) {
            for (uint64_t spin = 0; spin < (i * 7919) % 50; ++spin) std::this_thread::yield();
            done.at(worker) = i;
            thread_of[worker] = std::this_thread::get_id();
            return absl::OkStatus();
          },
          [&](size_t worker, uint64_t i) {
            EXPECT_EQ(done.at(worker), i);
            EXPECT_EQ(thread_of[worker], std::this_thread::get_id());
            used.push_back(i);
            return absl::OkStatus();
          }));
      std::vector<uint64_t> wanted(count);
      std::iota(wanted.begin(), wanted.end(), 0);
      EXPECT_EQ(used, wanted);
    }
  }
}

TEST(OrderedFor, StopsAtTheFirstErrorInOrder) {
  for (const int threads : {1, 2, 5}) {
    for (const bool in_work : {true, false}) {
      std::atomic<int> begun{0};
      uint64_t used = 0;
      const auto fail = [](uint64_t i) {
        return i == 20 || i == 21 || i == 24 ? absl::DataLossError(absl::StrCat(i)) : absl::OkStatus();
      };
      const absl::Status status = OrderedFor(
          threads, 1000,
          [&](size_t, uint64_t i) {
            ++begun;
            if (i == 20) {
              for (int spin = 0; spin < 1000; ++spin) std::this_thread::yield();
            }
            return in_work ? fail(i) : absl::OkStatus();
          },
          [&](size_t, uint64_t i) {
            EXPECT_EQ(used, i);
            if (!in_work && !fail(i).ok()) return fail(i);
            ++used;
            return absl::OkStatus();
          });
      EXPECT_THAT(status, StatusIs(Code::kDataLoss, "20"));
      EXPECT_EQ(used, 20);
      EXPECT_LE(begun, 21 + threads);
    }
  }
}

// The workers that wait for their turn do not wait for a worker that threw.
TEST(OrderedFor, StopsAtAnException) {
  for (const int threads : {1, 2, 5}) {
    for (const bool in_work : {true, false}) {
      uint64_t used = 0;
      const auto fail = [](uint64_t i) -> absl::Status {
        if (i == 20) throw std::bad_alloc();
        return absl::OkStatus();
      };
      const absl::Status status = OrderedFor(
          threads, 1000, [&](size_t, uint64_t i) { return in_work ? fail(i) : absl::OkStatus(); },
          [&](size_t, uint64_t i) {
            if (!in_work) CASK_RETURN_IF_ERROR(fail(i));
            ++used;
            return absl::OkStatus();
          });
      EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, ::testing::HasSubstr("no memory")));
      EXPECT_EQ(used, 20);
    }
  }
}

}  // namespace
}  // namespace tensorcask::payload
