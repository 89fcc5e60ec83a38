#include "tensorcask/tensor/base/memory_pages.h"

#include <cerrno>

#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/windows_api.h"

#ifndef _WIN32
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace tensorcask::internal {

#ifdef _WIN32

size_t PageBytes() {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

std::optional<uint64_t> MachineMemoryBytes() {
  MEMORYSTATUSEX memory = {};
  memory.dwLength = sizeof(memory);
  if (GlobalMemoryStatusEx(&memory) == 0) return std::nullopt;
  return memory.ullTotalPhys;
}

std::optional<uint64_t> FreeMemoryBytes() {
  MEMORYSTATUSEX memory = {};
  memory.dwLength = sizeof(memory);
  if (GlobalMemoryStatusEx(&memory) == 0) return std::nullopt;
  return memory.ullAvailPhys;
}

void* MapPages(size_t bytes, PageUse use) {
  if (use == PageUse::kAddresses) return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS);
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void UnmapPages(void* start, size_t) { VirtualFree(start, 0, MEM_RELEASE); }

void AdviseHugePages(void*, size_t) {}

int AdviseMemory(void*, size_t, int) {
  errno = EINVAL;
  return -1;
}

#else

size_t PageBytes() {
  static const long bytes = sysconf(_SC_PAGESIZE);  // NOLINT(google-runtime-int): as sysconf has it
  return bytes > 0 ? static_cast<size_t>(bytes) : 4096;
}

std::optional<uint64_t> MachineMemoryBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  if (pages <= 0) return std::nullopt;
  return CheckedMul<uint64_t>(static_cast<uint64_t>(pages), PageBytes());
}

std::optional<uint64_t> FreeMemoryBytes() {
#ifdef _SC_AVPHYS_PAGES
  const int64_t pages = sysconf(_SC_AVPHYS_PAGES);
  if (pages >= 0) return CheckedMul<uint64_t>(static_cast<uint64_t>(pages), PageBytes());
#endif
  return std::nullopt;
}

void* MapPages(size_t bytes, PageUse use) {
  const int protection = use == PageUse::kAddresses ? PROT_NONE : PROT_READ | PROT_WRITE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (use == PageUse::kMemory ? 0 : MAP_NORESERVE);
  void* const start = mmap(nullptr, bytes, protection, flags, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

void UnmapPages(void* start, size_t bytes) { munmap(start, bytes); }

#ifdef MADV_HUGEPAGE
void AdviseHugePages(void* start, size_t bytes) { static_cast<void>(madvise(start, bytes, MADV_HUGEPAGE)); }
#else
void AdviseHugePages(void*, size_t) {}
#endif

int AdviseMemory(void* start, size_t bytes, int advice) {
  constexpr int kNoAdvice = -1;
  static const bool accepts_everything = madvise(nullptr, 0, kNoAdvice) == 0;
  if (!accepts_everything) return madvise(start, bytes, advice);
  errno = EINVAL;
  return -1;
}

#endif

}  // namespace tensorcask::internal
