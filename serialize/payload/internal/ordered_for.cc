#include "tensorcask/serialize/payload/internal/ordered_for.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

constexpr uint64_t kMaxWorkers = 1024;  // as ParallelFor

// What the workers of one call share.
class Order {
 public:
  explicit Order(uint64_t count) : count_(count) {}

  // Sets *i to the next index. False if all are claimed, or after an error.
  bool Claim(uint64_t* i) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok() || next_ == count_) return false;
    *i = next_++;
    return true;
  }

  // Waits until all results before `i` are used; false if one of them failed. This cannot deadlock: indices are claimed
  // in order, so the workers that this one waits for are running.
  bool AwaitTurn(uint64_t i) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !status_.ok() || turn_ == i; });
    return status_.ok();
  }

  void Done(const absl::Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      status_ = status;
      ++turn_;
    }
    changed_.notify_all();
  }

  const absl::Status& status() const { return status_; }

 private:
  const uint64_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;  // the next index to claim
  uint64_t turn_ = 0;  // the next index to use
  absl::Status status_;
};

}  // namespace

size_t NumWorkers(int num_threads, uint64_t count) {
  return static_cast<size_t>(std::min({static_cast<uint64_t>(std::max(num_threads, 1)), count, kMaxWorkers}));
}

absl::Status OrderedFor(int num_threads, uint64_t count, OrderedStep work, OrderedStep use) {
  Order order(count);
  const size_t workers = NumWorkers(num_threads, count);
  // An exception is the result of its i: a worker that left without Done would make the others wait for ever.
  CASK_RETURN_IF_ERROR(ParallelFor(num_threads, workers, [&](size_t worker) {
    for (uint64_t i; order.Claim(&i);) {
      absl::Status status = CatchExceptions([&] { return work(worker, i); });
      if (!order.AwaitTurn(i)) return;
      if (status.ok()) status = CatchExceptions([&] { return use(worker, i); });
      order.Done(status);
    }
  }));
  return order.status();
}

}  // namespace tensorcask::payload
