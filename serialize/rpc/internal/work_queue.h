// A few threads that run work in the order in which it comes: reading files must not hold up the threads of gRPC.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_WORK_QUEUE_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tensorcask::rpc {

class WorkQueue {
 public:
  explicit WorkQueue(int num_threads) : num_threads_(num_threads) {}
  // Runs what was added, and ends.
  ~WorkQueue();

  // The first call starts the threads. `work` must not throw; it is not run if Add throws.
  void Add(std::function<void()> work);

 private:
  void Run();

  const int num_threads_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::function<void()>> work_;
  std::vector<std::thread> threads_;
  bool ends_ = false;
};

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_WORK_QUEUE_H_
