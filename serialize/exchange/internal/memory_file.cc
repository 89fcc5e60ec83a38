#include "tensorcask/serialize/exchange/internal/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/memory_pages.h"

// Newer than some C libraries; the numbers are the kernel's (linux/memfd.h, asm-generic/mman-common.h).
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tensorcask::exchange {
namespace {

constexpr int kBirthSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

// Allocates every page of the file. Uses the mapping if the system can: the pages are then in its page table, too
// (filling 64 MiB falls from 96 to 70 ms), are huge if advised so, and signals do not interrupt the call.
bool PopulateFile(int file, char* mapping, size_t bytes) {
  if (internal::AdviseMemory(mapping, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // EINVAL: before Linux 5.14, and under emulators
  // In parts, because fallocate(2) frees what it has allocated when a signal arrives.
  constexpr size_t kPartBytes = size_t{2} << 20;
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(kPartBytes, bytes - done);
    if (fallocate(file, 0, static_cast<off_t>(done), static_cast<off_t>(part)) == 0) {
      done += part;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

ScopedDescriptor MakeMemoryFile(size_t bytes) {
  // Some systems allow only files that cannot be executed (sysctl vm.memfd_noexec), which Linux before 6.3 cannot make.
  ScopedDescriptor file(memfd_create("tensorcask", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!file.is_open() && errno == EINVAL) {
    file = ScopedDescriptor(memfd_create("tensorcask", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  if (file.is_open() && ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) file.Close();
  return file;
}

char* MapNewMemoryFile(const ScopedDescriptor& file, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  // Advice only; the system aligns such mappings itself where it has huge pages for them.
  if (bytes >= CpuAllocator::kHugePageBlock) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  char* const mapping = static_cast<char*>(memory);
  if (PopulateFile(file.get(), mapping, bytes) && fcntl(file.get(), F_ADD_SEALS, kBirthSeals) == 0) return mapping;
  const int error = errno;
  munmap(memory, bytes);
  errno = error;
  return nullptr;
}

ScopedDescriptor OpenAgain(int file, int flags) {
  return ScopedDescriptor(open(absl::StrCat("/proc/self/fd/", file).c_str(), flags | O_CLOEXEC));
}

}  // namespace tensorcask::exchange
