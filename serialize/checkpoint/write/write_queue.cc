#include "tensorcask/serialize/checkpoint/write/write_queue.h"

#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::checkpoint {

absl::Status FirstError::Get() const {
  if (!any()) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void FirstError::Report(absl::Status status) {
  if (status.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
  any_.store(true, std::memory_order_release);
}

WriteQueue::WriteQueue(Write write, std::function<absl::Status()> end, uint64_t max_waiting_bytes, FirstError* error)
    : write_(std::move(write)), end_(std::move(end)), max_waiting_bytes_(max_waiting_bytes), error_(error) {}

WriteQueue::~WriteQueue() {
  if (!has_thread_) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    dropped_ = true;
    waiting_.clear();
  }
  Close();
  Join();
}

void WriteQueue::StartThread() {
  if (has_thread_) return;
  const auto run = [](void* queue) -> void* {
    static_cast<WriteQueue*>(queue)->Run();
    return nullptr;
  };
  // pthread_create rather than std::thread, whose constructor throws where the system gives no thread.
  has_thread_ = pthread_create(&thread_, nullptr, run, this) == 0;
}

void WriteQueue::Push(TensorJob job) {
  Lock lock(mutex_);
  if (has_thread_ && waiting_bytes_ >= max_waiting_bytes_) {
    has_room_.wait(lock, [&] { return waiting_bytes_ <= max_waiting_bytes_ / 2 || error_->any(); });
  }
  waiting_bytes_ += job.held_bytes();
  waiting_file_bytes_ += job.file_bytes;
  waiting_.push_back(std::move(job));
  if (has_thread_) {
    has_work_.notify_one();
  } else if (waiting_bytes_ >= max_waiting_bytes_) {
    WriteWaiting(&lock);
  }
}

void WriteQueue::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  has_work_.notify_one();
}

void WriteQueue::Join() {
  if (has_thread_) {
    pthread_join(thread_, nullptr);
    has_thread_ = false;
  } else {
    Lock lock(mutex_);
    WriteWaiting(&lock);
    End();
  }
}

void WriteQueue::Run() {
  error_->Report(CatchExceptions([&] {
    WriteUntilClosed();
    return absl::OkStatus();
  }));
  if (!error_->any()) return;
  const Lock lock(mutex_);
  DropWaiting();
}

void WriteQueue::WriteUntilClosed() {
  Lock lock(mutex_);
  while (!closed_ || !waiting_.empty()) {
    has_work_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    WriteWaiting(&lock);
  }
  End();
}

void WriteQueue::DropWaiting() {
  waiting_.clear();
  waiting_bytes_ = 0;
  waiting_file_bytes_ = 0;
  has_room_.notify_one();
}

void WriteQueue::WriteWaiting(Lock* lock) {
  while (!waiting_.empty() && !error_->any()) {
    {
      const TensorJob job = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= job.held_bytes();
      waiting_file_bytes_ -= job.file_bytes;
      const uint64_t waiting_file_bytes = waiting_file_bytes_;
      if (waiting_bytes_ <= max_waiting_bytes_ / 2) has_room_.notify_one();
      lock->unlock();
      error_->Report(write_(job, waiting_file_bytes));
    }
    lock->lock();
  }
  if (error_->any()) DropWaiting();
}

void WriteQueue::End() {
  if (end_ && !dropped_ && !error_->any()) error_->Report(end_());
}

}  // namespace tensorcask::checkpoint
