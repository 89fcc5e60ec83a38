#include "tensorcask/tensor/base/parallel_for.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace tensorcask {
namespace {

constexpr size_t kMaxThreads = 1024;  // bounds what a large num_threads allocates

// What the threads of one call share. Lives on the caller's stack: the caller joins every thread before it returns.
struct Work {
  absl::FunctionRef<void(size_t)> fn;
  size_t count;
  std::atomic<size_t> next{0};

  Work(absl::FunctionRef<void(size_t)> function, size_t n) : fn(function), count(n) {}

  void Run() noexcept {  // a thread that unwound would leave the others without what they share
    // Indices only hand out work, they publish nothing: pthread_create and pthread_join order the memory.
    for (;;) {
      size_t i = next.load(std::memory_order_relaxed);
      do {
        if (i >= count) return;  // compared before counting on, so that `next` never wraps
      } while (!next.compare_exchange_weak(i, i + 1, std::memory_order_relaxed));
      fn(i);
    }
  }
};

void* RunWork(void* work) {
  static_cast<Work*>(work)->Run();
  return nullptr;
}

}  // namespace

void ParallelFor(int num_threads, size_t count, absl::FunctionRef<void(size_t)> fn) {
  const size_t wanted = num_threads <= 1 ? 1 : std::min({static_cast<size_t>(num_threads), count, kMaxThreads});
  if (wanted <= 1) {
    for (size_t i = 0; i < count; ++i) fn(i);
    return;
  }
  Work work(fn, count);
  // pthread_create rather than std::thread, whose constructor throws where the system gives no thread.
  const size_t max_helpers = wanted - 1;
  const auto helpers = std::make_unique<pthread_t[]>(max_helpers);
  size_t num_helpers = 0;
  while (num_helpers < max_helpers && work.next.load(std::memory_order_relaxed) < count &&
         pthread_create(&helpers[num_helpers], nullptr, RunWork, &work) == 0) {
    ++num_helpers;
  }
  work.Run();
  for (size_t i = 0; i < num_helpers; ++i) pthread_join(helpers[i], nullptr);
}

}  // namespace tensorcask
