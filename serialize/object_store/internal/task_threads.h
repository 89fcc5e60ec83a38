// Threads that wait for work, up to a number of them, made when they are first needed.
//
//   TaskThreads threads(16);
//   threads.RunAll(ranges.size(), [&](size_t i) { Read(ranges[i]); });   // this thread takes part
//   threads.Submit([part] { Send(part); });

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_TASK_THREADS_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_TASK_THREADS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tensorcask::internal {

class TaskThreads {
 public:
  explicit TaskThreads(int max_threads) : max_threads_(static_cast<size_t>(max_threads)) {}
  ~TaskThreads();  // waits for all tasks. Requires: this is no child of fork, which has none of the threads
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // Runs the task on another thread, or on this one where none can be made.
  void Submit(std::function<void()> task);
  // Calls run(0) to run(count - 1), several at the same time, and returns when all have returned.
  void RunAll(size_t count, const std::function<void(size_t)>& run);

 private:
  void Work();

  const size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool ends_ = false;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_TASK_THREADS_H_
