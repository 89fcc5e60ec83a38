// A queue of tensors to write. A thread writes them, or without a thread the caller: when enough tensors wait, and at
// the end.
//
//   FirstError error;
//   const auto write = [&](const TensorJob& job, uint64_t waiting_file_bytes) {
//     return WriteTensor(job, /*alignment=*/64, &payloads[job.shard], sinks[job.shard]);
//   };
//   WriteQueue queue(write, [&] { return sinks[0]->Flush(/*sync=*/true); }, /*max_waiting_bytes=*/64 << 20, &error);
//   queue.StartThread();
//   queue.Push(std::move(job));
//   queue.Close();   // for several queues: first close all, then join all, so that they end side by side
//   queue.Join();    // everything is written, and the end was called; or error.any()
//
// Jobs are written one after the other in the order of Push. After an error in this queue, or in another that shares
// the FirstError, waiting jobs are dropped. An exception that `write` or `end` throws in the thread is an error, too
// (tensor/base/catch_exceptions.h); in the caller's thread it passes to the caller.

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

// Keeps the first error. Safe from several threads.
class FirstError {
 public:
  bool any() const { return any_.load(std::memory_order_acquire); }
  absl::Status Get() const;
  void Report(absl::Status status);  // OK is ignored

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  absl::Status status_;
};

class WriteQueue {
 public:
  // `write` writes one tensor. `waiting_file_bytes` is the sum of the file_bytes of the jobs that still wait. `end`,
  // which may be empty, is called after the last tensor. `error` outlives the queue.
  using Write = std::function<absl::Status(const TensorJob& job, uint64_t waiting_file_bytes)>;
  WriteQueue(Write write, std::function<absl::Status()> end, uint64_t max_waiting_bytes, FirstError* error);
  // Drops waiting jobs without calling `end`, and joins the thread.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // From now on a thread writes the jobs. No effect if the queue has a thread already, or if the system gives none.
  void StartThread();

  // Adds a job. With a thread, once the waiting jobs hold max_waiting_bytes or more, first waits until they hold half
  // as much: to wait for each job would take the processor from a thread that writes. Without a thread, writes all
  // waiting jobs once they hold that much: with max_waiting_bytes 0 each job is written before Push returns.
  void Push(TensorJob job);

  void Close();  // no more is pushed
  void Join();   // without a thread, writes the waiting jobs here

 private:
  using Lock = std::unique_lock<std::mutex>;

  void Run();  // what the thread runs
  void WriteUntilClosed();
  void DropWaiting();             // after an error; mutex_ is held
  void WriteWaiting(Lock* lock);  // held when called and afterwards, not while a job is written
  void End();

  const Write write_;
  const std::function<absl::Status()> end_;
  const uint64_t max_waiting_bytes_;
  FirstError* const error_;

  bool has_thread_ = false;
  pthread_t thread_{};

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable has_room_;
  std::deque<TensorJob> waiting_;
  uint64_t waiting_bytes_ = 0;       // sum of held_bytes()
  uint64_t waiting_file_bytes_ = 0;  // sum of file_bytes
  bool closed_ = false;
  bool dropped_ = false;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_WRITE_QUEUE_H_
