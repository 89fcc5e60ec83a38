// A lock that one thread, its owner, takes millions of times a second and other threads nearly never.
//
//   OwnerLock lock;   // a member of the owner's data
//   { const OwnerLock::ByOwner held(lock); ... }    // a nanosecond
//   { const OwnerLock::ByOther held(lock); ... }    // some microseconds; one such thread at a time
//   if (lock.TryLock()) { ...; lock.Unlock(); }     // the owner again, where a call that waits would cost too much
//
// The owner stores a flag and reads another one, without an atomic read-modify-write. The other thread makes each
// processor that runs a thread of this process execute a memory barrier (membarrier(2) of Linux), which orders the
// owner's store and load. Where the system has no such call, the owner pays for an atomic exchange.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_OWNER_LOCK_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_OWNER_LOCK_H_

#include <atomic>
#include <thread>

namespace tensorcask::internal {

class OwnerLock {
 public:
  OwnerLock() : has_process_barrier_(RegisterProcessBarrier()) {}

  // False if another thread holds the lock or waits for it.
  bool TryLock() {
    if (has_process_barrier_) {
      owner_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // orders the compiler
    } else {
      owner_.exchange(true, std::memory_order_seq_cst);
    }
    if (!other_.load(std::memory_order_seq_cst)) return true;
    Unlock();
    return false;
  }
  void Unlock() { owner_.store(false, std::memory_order_release); }

  class ByOwner {
   public:
    explicit ByOwner(OwnerLock& lock) : lock_(lock) {
      while (!lock.TryLock()) std::this_thread::yield();
    }
    ~ByOwner() { lock_.Unlock(); }
    ByOwner(const ByOwner&) = delete;
    ByOwner& operator=(const ByOwner&) = delete;

   private:
    OwnerLock& lock_;
  };

  class ByOther {
   public:
    explicit ByOther(OwnerLock& lock) : lock_(lock) { lock.LockByOther(); }
    ~ByOther() { lock_.other_.store(false, std::memory_order_release); }
    ByOther(const ByOther&) = delete;
    ByOther& operator=(const ByOther&) = delete;

   private:
    OwnerLock& lock_;
  };

 private:
  void LockByOther();
  static bool RegisterProcessBarrier();  // whether the system has one

  std::atomic<bool> owner_{false};
  std::atomic<bool> other_{false};
  const bool has_process_barrier_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_OWNER_LOCK_H_
