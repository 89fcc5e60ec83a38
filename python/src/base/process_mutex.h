// A mutex of the process that made it. After fork(2) a child does not wait for a thread that it does not have.

#ifndef TENSORCASK_PYTHON_SRC_BASE_PROCESS_MUTEX_H_
#define TENSORCASK_PYTHON_SRC_BASE_PROCESS_MUTEX_H_

#include <mutex>

#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask::python {

// Works with std::lock_guard.
class ProcessMutex {
 public:
  void lock() {
    if (owner_.IsThisProcess()) mutex_.lock();
  }
  bool try_lock() { return !owner_.IsThisProcess() || mutex_.try_lock(); }
  void unlock() {
    if (owner_.IsThisProcess()) mutex_.unlock();
  }

 private:
  const OwnerProcess owner_;
  std::mutex mutex_;
};

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BASE_PROCESS_MUTEX_H_
