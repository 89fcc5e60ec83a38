#include "tensorcask/tensor/memory/internal/owner_lock.h"

#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <thread>

#include "tensorcask/tensor/base/check.h"

namespace tensorcask::internal {
namespace {

#ifdef __linux__
long MemoryBarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }
constexpr int kRegister = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
constexpr int kExecute = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
#else
long MemoryBarrier(int) { return -1; }
constexpr int kRegister = 0;
constexpr int kExecute = 0;
#endif

}  // namespace

bool OwnerLock::RegisterProcessBarrier() {
  static const bool is_registered = MemoryBarrier(kRegister) == 0;
  return is_registered;
}

void OwnerLock::LockByOther() {
  other_.store(true, std::memory_order_seq_cst);
  if (has_process_barrier_)
    CASK_CHECK(MemoryBarrier(kExecute) == 0, "a process that registered for memory barriers may ask for one");
  while (owner_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

}  // namespace tensorcask::internal
