// Streams and events that work in threads, for fake_cuda.cc. Functions that take a stream add work to its queue; null
// is the default stream.

#ifndef TENSORCASK_TESTS_TENSOR_MEMORY_FAKE_CUDA_QUEUES_H_
#define TENSORCASK_TESTS_TENSOR_MEMORY_FAKE_CUDA_QUEUES_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace fake_cuda {

// Something that happens once.
class Moment {
 public:
  void Come() {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_come_ = true;
    come_.notify_all();
  }
  bool HasCome() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return has_come_;
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    come_.wait(lock, [this] { return has_come_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable come_;
  bool has_come_ = false;
};

class Queue {
 public:
  Queue() : thread_([this] { Run(); }) {}
  // Executes what was added.
  ~Queue() {
    Add(nullptr);
    thread_.join();
  }

  // An empty function ends the thread.
  void Add(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    ++unfinished_;
    added_.notify_one();
  }
  bool IsIdle() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return unfinished_ == 0;
  }
  // Comes when all work that was added so far has been executed.
  std::shared_ptr<Moment> Record() {
    auto moment = std::make_shared<Moment>();
    Add([moment] { moment->Come(); });
    return moment;
  }
  // Returns when the queue is idle.
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return unfinished_ == 0; });
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        added_.wait(lock, [this] { return !work_.empty(); });
        work = std::move(work_.front());
        work_.pop_front();
      }
      if (!work) return;
      work();
      work = nullptr;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--unfinished_ == 0) finished_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable finished_;
  std::deque<std::function<void()>> work_;
  int unfinished_ = 0;
  std::thread thread_;
};

class Queues {
 public:
  // Lives until the process ends.
  static Queues& All() {
    static Queues& all = *new Queues();
    return all;
  }

  void* Create() {
    auto* const queue = new Queue();
    const std::lock_guard<std::mutex> lock(mutex_);
    queues_.insert(queue);
    return queue;
  }
  void Destroy(void* stream) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queues_.erase(static_cast<Queue*>(stream));
    }
    delete static_cast<Queue*>(stream);
  }
  // 0, 1 and 2 name default streams, which are one here.
  Queue& Of(void* stream) { return reinterpret_cast<uintptr_t>(stream) <= 2 ? default_ : *static_cast<Queue*>(stream); }
  void WaitForAll() {
    std::set<std::shared_ptr<Moment>> moments = {default_.Record()};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (Queue* const queue : queues_) moments.insert(queue->Record());
    }
    for (const auto& moment : moments) moment->Wait();
  }

 private:
  std::mutex mutex_;
  std::set<Queue*> queues_;
  Queue default_;
};

}  // namespace fake_cuda

#endif  // TENSORCASK_TESTS_TENSOR_MEMORY_FAKE_CUDA_QUEUES_H_
