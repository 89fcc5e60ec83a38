// Tensors that wait to be written, and who writes them: a thread, the caller when there are enough of them, or the
// caller at the end.
//
//   FirstError error;
//   WriteQueue queue([&](const TensorJob& job) { return WriteTensor(job, 64, &payloads[job.shard], sinks[job.shard]);
//   },
//                    [&] { return sinks[0]->Flush(/*sync=*/true); }, /*max_waiting_bytes=*/64 << 20, &error);
//   queue.StartThread();
//   queue.Push(std::move(job));
//   queue.Close();   // of several queues: first all are closed, then all joined, so that they end side by side
//   queue.Join();    // everything is written, and the end was called; or error.any()
//
// Jobs are written one after the other in the order of Push. After an error, in this queue or in another that shares
// the FirstError, what waits is dropped.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_WRITE_QUEUE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_WRITE_QUEUE_H_

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "absl/status/status.h"
#include "tensorcask/serialize/checkpoint/write/tensor_job.h"

namespace tensorcask::checkpoint {

// What went wrong first. Safe from several threads.
class FirstError {
 public:
  bool any() const { return any_.load(std::memory_order_acquire); }
  absl::Status Get() const;
  void Report(absl::Status status);  // OK is none

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  absl::Status status_;
};

class WriteQueue {
 public:
  // `write` writes one tensor; `end`, which may be empty, is called behind the last. `error` outlives the queue.
  WriteQueue(std::function<absl::Status(const TensorJob&)> write, std::function<absl::Status()> end,
             uint64_t max_waiting_bytes, FirstError* error);
  // Drops what waits, without calling `end`, and joins the thread.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // From now on a thread writes. Without effect if there is one, or if the system gives none.
  void StartThread();

  // Once jobs that hold max_waiting_bytes or more wait: with a thread this waits for it to take some; without one it
  // writes them all. So with 0 and no thread each job is written here and now.
  void Push(TensorJob job);

  void Close();  // no more is pushed
  void Join();   // without a thread: writes here what waits

 private:
  using Lock = std::unique_lock<std::mutex>;

  void Run();                     // of the thread
  void WriteWaiting(Lock* lock);  // held when called and afterwards, not while a job is written
  void End();

  const std::function<absl::Status(const TensorJob&)> write_;
  const std::function<absl::Status()> end_;
  const uint64_t max_waiting_bytes_;
  FirstError* const error_;

  bool has_thread_ = false;
  pthread_t thread_{};

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable has_room_;
  std::deque<TensorJob> waiting_;
  uint64_t waiting_bytes_ = 0;
  bool closed_ = false;
  bool dropped_ = false;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_WRITE_QUEUE_H_
