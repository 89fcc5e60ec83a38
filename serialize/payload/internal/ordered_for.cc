#include "tensorcask/serialize/payload/internal/ordered_for.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tensorcask/tensor/base/parallel_for.h"

namespace tensorcask::payload {
namespace {

constexpr uint64_t kMaxWorkers = 1024;  // as ParallelFor

// What the workers of one call share.
class Order {
 public:
  explicit Order(uint64_t count) : count_(count) {}

  // The next i in *i; false if there is none, or an error.
  bool Claim(uint64_t* i) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok() || next_ == count_) return false;
    *i = next_++;
    return true;
  }

  // Waits until all before `i` are used; false after an error of theirs. Whoever is waited for is at work, as they were
  // taken in order.
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
  uint64_t next_ = 0;  // to be taken
  uint64_t turn_ = 0;  // to be used
  absl::Status status_;
};

}  // namespace

size_t NumWorkers(int num_threads, uint64_t count) {
  return static_cast<size_t>(std::min({static_cast<uint64_t>(std::max(num_threads, 1)), count, kMaxWorkers}));
}

absl::Status OrderedFor(int num_threads, uint64_t count, OrderedStep work, OrderedStep use) {
  Order order(count);
  const size_t workers = NumWorkers(num_threads, count);
  ParallelFor(num_threads, workers, [&](size_t worker) {
    for (uint64_t i; order.Claim(&i);) {
      absl::Status status = work(worker, i);
      if (!order.AwaitTurn(i)) return;
      if (status.ok()) status = use(worker, i);
      order.Done(status);
    }
  });
  return order.status();
}

}  // namespace tensorcask::payload
