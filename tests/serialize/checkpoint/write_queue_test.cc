#include "tensorcask/serialize/checkpoint/write/write_queue.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/write/tensor_job.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kALittle = std::chrono::milliseconds(50);
constexpr auto kLong = std::chrono::seconds(60);

TensorJob Job(int number) {
  TensorJob job;
  job.shard = number;
  return job;
}
// What a job without elements holds.
uint64_t JobBytes() { return Job(0).held_bytes(); }

// Lets so many jobs be written as it is told, and notes their numbers.
class Gate {
 public:
  absl::Status Write(const TensorJob& job) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return allowed_ > 0; });
    --allowed_;
    written_.push_back(job.shard);
    changed_.notify_all();
    return absl::OkStatus();
  }
  void Allow(int jobs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    allowed_ += jobs;
    changed_.notify_all();
  }
  void WaitForBegun(int jobs) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= jobs; });
  }
  void WaitForWritten(size_t jobs) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return written_.size() >= jobs; });
  }
  std::vector<int> written() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return written_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  int allowed_ = 0;
  std::vector<int> written_;
};

TEST(WriteQueue, WritesInOrderAndThenEnds) {
  for (const bool has_thread : {false, true}) {
    Gate gate;
    gate.Allow(1000);
    FirstError error;
    size_t written_at_end = 0;
    WriteQueue queue([&](const TensorJob& job, uint64_t) { return gate.Write(job); },
                     [&] {
                       written_at_end = gate.written().size();
                       return absl::OkStatus();
                     },
                     /*max_waiting_bytes=*/3 * JobBytes(), &error);
    if (has_thread) queue.StartThread();
    for (int i = 0; i < 10; ++i) queue.Push(Job(i));
    queue.Close();
    queue.Join();
    EXPECT_THAT(gate.written(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_EQ(written_at_end, 10);
    EXPECT_OK(error.Get());
  }
}

TEST(WriteQueue, WithoutAThreadWritesAtOnceOrWhenEnoughWaits) {
  Gate gate;
  gate.Allow(1000);
  FirstError error;
  WriteQueue at_once([&](const TensorJob& job, uint64_t) { return gate.Write(job); }, {}, /*max_waiting_bytes=*/0,
                     &error);
  at_once.Push(Job(1));
  EXPECT_THAT(gate.written(), ElementsAre(1));
  WriteQueue later([&](const TensorJob& job, uint64_t) { return gate.Write(job); }, {}, 2 * JobBytes(), &error);
  later.Push(Job(2));
  EXPECT_THAT(gate.written(), ElementsAre(1));
  later.Push(Job(3));
  EXPECT_THAT(gate.written(), ElementsAre(1, 2, 3));
}

TEST(WriteQueue, TellsHowMuchOfTheFileWaitsBehindEachTensor) {
  FirstError error;
  std::vector<uint64_t> waiting;
  const auto note = [&](const TensorJob&, uint64_t waiting_file_bytes) {
    waiting.push_back(waiting_file_bytes);
    return absl::OkStatus();
  };
  WriteQueue queue(note, {}, 100 * JobBytes(), &error);
  for (const uint64_t file_bytes : {100, 20, 3}) {
    TensorJob job = Job(0);
    job.file_bytes = file_bytes;
    queue.Push(std::move(job));
  }
  queue.Close();
  queue.Join();
  EXPECT_THAT(waiting, ElementsAre(23, 3, 0));
}

// A caller that was stopped by a full queue goes on when half of it is written, not after each job.
TEST(WriteQueue, AFullQueueStopsTheCallerUntilHalfIsWritten) {
  Gate gate;
  FirstError error;
  WriteQueue queue([&](const TensorJob& job, uint64_t) { return gate.Write(job); }, {}, 8 * JobBytes(), &error);
  queue.StartThread();
  queue.Push(Job(0));
  gate.WaitForBegun(1);  // the thread has one job in its hands
  for (int i = 1; i <= 8; ++i) queue.Push(Job(i));
  std::promise<void> pushed;
  std::thread caller([&] {
    for (int i = 9; i <= 11; ++i) queue.Push(Job(i));
    pushed.set_value();
  });
  const std::future<void> done = pushed.get_future();
  EXPECT_EQ(done.wait_for(kALittle), std::future_status::timeout) << "8 of 8 wait";
  gate.Allow(3);
  gate.WaitForWritten(3);
  EXPECT_EQ(done.wait_for(kALittle), std::future_status::timeout) << "5 of 8 wait";
  gate.Allow(1);
  EXPECT_EQ(done.wait_for(kLong), std::future_status::ready) << "4 of 8 wait";
  caller.join();
  gate.Allow(1000);
  queue.Close();
  queue.Join();
  EXPECT_THAT(gate.written(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(WriteQueue, AnErrorOrAnExceptionDropsWhatWaitsInEveryQueue) {
  for (const bool throws : {false, true}) {
    FirstError error;
    int ended = 0;
    const auto end = [&] {
      ++ended;
      return absl::OkStatus();
    };
    const auto fail = [&](const TensorJob&, uint64_t) -> absl::Status {
      if (throws) throw std::runtime_error("thrown");
      return absl::DataLossError("lost");
    };
    Gate gate;
    WriteQueue other([&](const TensorJob& job, uint64_t) { return gate.Write(job); }, end, 100 * JobBytes(), &error);
    WriteQueue queue(fail, end, JobBytes(), &error);
    queue.StartThread();
    other.Push(Job(0));
    for (int i = 0; i < 10; ++i) queue.Push(Job(i));  // a full queue does not stop the caller any more
    queue.Close();
    queue.Join();
    EXPECT_TRUE(error.any());
    if (throws) {
      EXPECT_THAT(error.Get().message(), HasSubstr("thrown"));
    } else {
      EXPECT_THAT(error.Get(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("lost")));
    }
    other.Close();
    other.Join();
    EXPECT_THAT(gate.written(), ElementsAre());
    EXPECT_EQ(ended, 0);
  }
}

TEST(WriteQueue, ADroppedQueueDoesNotEnd) {
  FirstError error;
  int ended = 0;
  Gate gate;
  gate.Allow(1);
  {
    WriteQueue queue([&](const TensorJob& job, uint64_t) { return gate.Write(job); },
                     [&] {
                       ++ended;
                       return absl::OkStatus();
                     },
                     100 * JobBytes(), &error);
    queue.StartThread();
    queue.Push(Job(7));
    gate.WaitForWritten(1);
  }
  EXPECT_EQ(ended, 0);
  EXPECT_OK(error.Get());
}

}  // namespace
}  // namespace tensorcask::checkpoint
