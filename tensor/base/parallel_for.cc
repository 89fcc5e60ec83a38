#include "tensorcask/tensor/base/parallel_for.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask {
namespace {

constexpr size_t kMaxThreads = 1024;  // bounds what a large num_threads allocates

// The state that the threads of one call share. It lives on the caller's stack: the caller joins every thread before it
// returns.
class Work {
 public:
  Work(absl::FunctionRef<void(size_t)> fn, size_t count) : fn_(fn), count_(count) {}

  bool has_more() const { return next_.load(std::memory_order_relaxed) < count_; }

  // Takes indices until none are left. Throws nothing: the caller has to join the other threads.
  void Run() {
    absl::Status status = CatchExceptions([&] {
      // The index only distributes work, so relaxed order is enough: pthread_create and pthread_join order the memory.
      for (;;) {
        size_t i = next_.load(std::memory_order_relaxed);
        do {
          if (i >= count_) return absl::OkStatus();  // compared before counting on, so that next_ never wraps
        } while (!next_.compare_exchange_weak(i, i + 1, std::memory_order_relaxed));
        fn_(i);
      }
    });
    if (status.ok()) return;
    next_.store(count_, std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
  }

  absl::Status status() && { return std::move(status_); }

 private:
  const absl::FunctionRef<void(size_t)> fn_;
  const size_t count_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  absl::Status status_;  // the first exception as a status
};

void* RunWork(void* work) {
  static_cast<Work*>(work)->Run();
  return nullptr;
}

}  // namespace

absl::Status ParallelFor(int num_threads, size_t count, absl::FunctionRef<void(size_t)> fn) {
  const size_t wanted = num_threads <= 1 ? 1 : std::min({static_cast<size_t>(num_threads), count, kMaxThreads});
  Work work(fn, count);
  // pthread_create rather than std::thread, whose constructor throws where the system gives no thread.
  const size_t max_helpers = wanted <= 1 ? 0 : wanted - 1;
  const std::unique_ptr<pthread_t[]> helpers(max_helpers == 0 ? nullptr : new (std::nothrow) pthread_t[max_helpers]);
  size_t num_helpers = 0;
  while (helpers != nullptr && num_helpers < max_helpers && work.has_more() &&
         pthread_create(&helpers[num_helpers], nullptr, RunWork, &work) == 0) {
    ++num_helpers;
  }
  work.Run();
  for (size_t i = 0; i < num_helpers; ++i) pthread_join(helpers[i], nullptr);
  return std::move(work).status();
}

}  // namespace tensorcask
