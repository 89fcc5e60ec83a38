#include "tensorcask/serialize/rpc/internal/work_queue.h"

#include <utility>

namespace tensorcask::rpc {

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::Add(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (threads_.empty()) {
      for (int i = 0; i < num_threads_; ++i) threads_.emplace_back([this] { Run(); });
    }
    work_.push_back(std::move(work));
  }
  added_.notify_one();
}

void WorkQueue::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    added_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace tensorcask::rpc
