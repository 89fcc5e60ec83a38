#include "tensorcask/tensor/memory/internal/owner_lock.h"

#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace tensorcask::internal {
namespace {

#ifdef __linux__
bool MemoryBarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }
constexpr int kRegister = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
constexpr int kExecute = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
#else
bool MemoryBarrier(int) { return false; }
constexpr int kRegister = 0;
constexpr int kExecute = 0;
#endif

}  // namespace

bool OwnerLock::RegisterProcessBarrier() {
  static const bool is_registered = MemoryBarrier(kRegister);
  return is_registered;
}

bool OwnerLock::ProcessBarrier() {
  if (!RegisterProcessBarrier()) return true;  // no owner relies on it
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i) {
    if (MemoryBarrier(kExecute)) return true;
    if (errno != ENOMEM) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

void OwnerLock::WaitForOwner() {
  constexpr int kYields = 100;
  for (int i = 0; owner_holds_.load(std::memory_order_seq_cst); ++i) {
    if (i < kYields) {
      std::this_thread::yield();
    } else {  // an owner of a lower priority gets a processor
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace tensorcask::internal
