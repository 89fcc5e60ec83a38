#include "tensorcask/serialize/object_store/internal/task_threads.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

namespace tensorcask::internal {

TaskThreads::~TaskThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskThreads::Submit(std::function<void()> task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_ <= tasks_.size() && threads_.size() < max_threads_) {
      try {  // NOLINT: of the standard library
        threads_.emplace_back([this] { Work(); });
      } catch (const std::system_error&) {
        // The system has no more threads. Those that there are do the work.
      }
    }
    if (!threads_.empty()) {
      tasks_.push_back(std::move(task));
      wake_.notify_one();
      return;
    }
  }
  task();
}

void TaskThreads::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void TaskThreads::RunAll(size_t count, const std::function<void(size_t)>& run) {
  // Outlives this call: a thread may find only later that nothing is left to do.
  struct State {
    std::mutex mutex;
    std::condition_variable done;
    size_t next = 0;
    size_t finished = 0;
  };
  const auto state = std::make_shared<State>();
  // `run` is used only for an index below count, and so only before the last one has finished.
  const auto take_part = [state, count, &run] {
    std::unique_lock<std::mutex> lock(state->mutex);
    while (state->next < count) {
      const size_t index = state->next++;
      lock.unlock();
      run(index);
      lock.lock();
      if (++state->finished == count) state->done.notify_all();
    }
  };
  const size_t helpers = count < 2 ? 0 : std::min(count, max_threads_) - 1;
  for (size_t i = 0; i < helpers; ++i) Submit(take_part);
  take_part();
  std::unique_lock<std::mutex> lock(state->mutex);
  state->done.wait(lock, [&] { return state->finished == count; });
}

}  // namespace tensorcask::internal
