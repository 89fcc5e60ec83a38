#include "tensorcask/tensor/base/owner_process.h"

#ifdef __linux__
#include <sys/mman.h>
#endif
#include <unistd.h>

#include <atomic>
#include <new>

#include "tensorcask/tensor/base/memory_pages.h"

namespace tensorcask::internal {
namespace {

// Memory that a child of fork(2) finds filled with zeros; null if the system has none.
std::atomic<pid_t>* MakeClearedInChildren() {
#ifdef MADV_WIPEONFORK
  void* const page = MapPages(PageBytes(), PageUse::kMemory);
  if (page == nullptr) return nullptr;
  if (AdviseMemory(page, PageBytes(), MADV_WIPEONFORK) == 0) return new (page) std::atomic<pid_t>(0);
  UnmapPages(page, PageBytes());
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
