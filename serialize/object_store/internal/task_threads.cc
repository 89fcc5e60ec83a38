#include "tensorcask/serialize/object_store/internal/task_threads.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::internal {

IoResult WithoutExceptions(absl::FunctionRef<IoResult()> fn, std::string* words) {
  IoResult result = 0;
  const absl::Status done = CatchExceptions([&] {
    result = fn();
    return absl::OkStatus();
  });
  if (done.ok()) return result;
  words->clear();
  CatchExceptions([&] {
    *words = std::string(done.message());
    return absl::OkStatus();
  }).IgnoreError();
  if (words->empty()) *words = "no memory";  // so few bytes need none
  return -ENOMEM;
}

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
      // Where the system has no more threads, those that there are do the work.
      CatchExceptions([&] {
        threads_.emplace_back([this] { Work(); });
        return absl::OkStatus();
      }).IgnoreError();
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
    CatchExceptions([&] {
      task();
      return absl::OkStatus();
    }).IgnoreError();
    lock.lock();
  }
}

absl::Status TaskThreads::RunAll(size_t count, const std::function<void(size_t)>& run) {
  // Outlives this call: a thread may find only later that nothing is left to do.
  struct State {
    std::mutex mutex;
    std::condition_variable done;
    size_t next = 0;
    size_t finished = 0;
    absl::Status status;
  };
  const auto state = std::make_shared<State>();
  // `run` is used only for an index below count, and so only before the last one has finished.
  const auto take_part = [state, count, &run] {
    std::unique_lock<std::mutex> lock(state->mutex);
    while (state->next < count) {
      const size_t index = state->next++;
      lock.unlock();
      absl::Status ran = CatchExceptions([&] {
        run(index);
        return absl::OkStatus();
      });
      lock.lock();
      state->status.Update(std::move(ran));
      if (++state->finished == count) state->done.notify_all();
    }
  };
  const size_t helpers = count < 2 ? 0 : std::min(count, max_threads_) - 1;
  // Where there is no memory for more helpers, those that there are and this thread do the work.
  CatchExceptions([&] {
    for (size_t i = 0; i < helpers; ++i) Submit(take_part);
    return absl::OkStatus();
  }).IgnoreError();
  take_part();
  std::unique_lock<std::mutex> lock(state->mutex);
  state->done.wait(lock, [&] { return state->finished == count; });
  return state->status;
}

}  // namespace tensorcask::internal
