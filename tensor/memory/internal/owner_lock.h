// A lock for data that one thread, the owner, uses often and other threads use rarely.
//
//   if (lock.TryLock()) { ...; lock.Unlock(); }    // the owner: about a nanosecond
//
//   lock.Request();                                // another thread: from now on TryLock fails
//   if (OwnerLock::ProcessBarrier()) {             // microseconds, for any number of requested locks
//     lock.WaitForOwner();
//     ...
//   }
//   lock.Withdraw();
//
// The owner only stores one flag and loads another. The other thread makes this safe: it executes membarrier(2), which
// makes each processor that runs a thread of this process execute a memory barrier. Where the system has no such call,
// the owner pays for an atomic exchange instead.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_OWNER_LOCK_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_OWNER_LOCK_H_

#include <atomic>

namespace tensorcask::internal {

class OwnerLock {
 public:
  OwnerLock() : OwnerLock(RegisterProcessBarrier()) {}
  // For tests: whether the owner relies on ProcessBarrier.
  explicit OwnerLock(bool has_process_barrier) : has_process_barrier_(has_process_barrier) {}

  // For the owner. False if another thread has requested the lock.
  bool TryLock() {
    if (has_process_barrier_) {
      owner_holds_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler from exchanging the two
    } else {
      owner_holds_.exchange(true, std::memory_order_seq_cst);
    }
    if (!is_requested_.load(std::memory_order_seq_cst)) return true;
    Unlock();
    return false;
  }
  void Unlock() { owner_holds_.store(false, std::memory_order_release); }

  // For other threads. Requires: a mutex of the callers admits one of them at a time.
  void Request() { is_requested_.store(true, std::memory_order_seq_cst); }
  // Requires: Request and then ProcessBarrier were called. The caller holds the lock afterwards.
  void WaitForOwner();
  void Withdraw() { is_requested_.store(false, std::memory_order_release); }

  // True if the system has process barriers. The first call takes milliseconds in a process with several threads.
  static bool RegisterProcessBarrier();
  // False if the system refuses, for want of memory or by a filter of system calls.
  static bool ProcessBarrier();

 private:
  std::atomic<bool> owner_holds_{false};
  std::atomic<bool> is_requested_{false};
  const bool has_process_barrier_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_OWNER_LOCK_H_
