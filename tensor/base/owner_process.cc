#include "tensorcask/tensor/base/owner_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "tensorcask/tensor/base/memory_advice.h"

namespace tensorcask::internal {
namespace {

// Memory that a child of fork(2) finds filled with zeros; null if the system has none.
std::atomic<pid_t>* MakeClearedInChildren() {
#ifdef MADV_WIPEONFORK
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (page_bytes <= 0) return nullptr;
  const auto size = static_cast<size_t>(page_bytes);
  void* const page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (AdviseMemory(page, size, MADV_WIPEONFORK) == 0) return new (page) std::atomic<pid_t>(0);
  munmap(page, size);
#endif
  return nullptr;
}

}  // namespace

pid_t CurrentProcess() {
  static std::atomic<pid_t>* const known = MakeClearedInChildren();
  if (known == nullptr) return getpid();
  pid_t id = known->load(std::memory_order_relaxed);
  if (id == 0) {
    id = getpid();
    known->store(id, std::memory_order_relaxed);
  }
  return id;
}

}  // namespace tensorcask::internal
