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
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::internal {

// Returns fn(). If fn throws: -ENOMEM, with a reason in *words, which is not empty then.
IoResult WithoutExceptions(absl::FunctionRef<IoResult()> fn, std::string* words);

class TaskThreads {
 public:
  explicit TaskThreads(int max_threads) : max_threads_(static_cast<size_t>(max_threads)) {}
  ~TaskThreads();  // waits for all tasks. Requires: this is no child of fork, which has none of the threads
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // Runs the task on another thread, or on this one where none can be made. An exception of a task ends it and has no
  // other effect: whoever waits for the task must learn of it from the task itself (WithoutExceptions).
  void Submit(std::function<void()> task);
  // Calls run(0) to run(count - 1), several at the same time, and returns when all have returned.
  // Errors: after an exception of `run`, whichever thread it was thrown in, as CatchExceptions (catch_exceptions.h).
  absl::Status RunAll(size_t count, const std::function<void(size_t)>& run);

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
