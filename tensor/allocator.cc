#include "tensorcask/tensor/allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/memory_pages.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_util.h"

#ifdef __linux__
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

namespace tensorcask {
namespace {

#ifdef __linux__
// Gives the whole pages of a block back before the block is freed. glibc maps and unmaps each large block by itself at
// first, but after the first free it keeps later blocks of up to 32 MiB (mallopt(3), M_MMAP_THRESHOLD).
void GivePagesBack(void* block, size_t bytes) {
  constexpr size_t kPageBytes = 4096;  // a system with larger pages refuses the advice, which is harmless
  static_cast<void>(madvise(block, bytes / kPageBytes * kPageBytes, MADV_DONTNEED));
}
#else
void GivePagesBack(void*, size_t) {}
#endif

#ifdef _WIN32
void* AllocateAligned(size_t alignment, size_t bytes) { return _aligned_malloc(std::max<size_t>(bytes, 1), alignment); }
void FreeAligned(void* block) { _aligned_free(block); }
#else
void* AllocateAligned(size_t alignment, size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}
void FreeAligned(void* block) { std::free(block); }
#endif

}  // namespace

absl::StatusOr<void*> Allocator::TryAllocate(size_t bytes) {
  if (void* const block = Allocate(bytes)) return block;
  return MarkResourceFailure(
      absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes from allocator \"", name(), "\"")));
}

const RefPtr<Allocator>& CpuAllocator::Default() {
  static const RefPtr<Allocator>& allocator = *new RefPtr<Allocator>(Make(Options()));
  return allocator;
}

RefPtr<Allocator> CpuAllocator::Make(Options options) { return RefPtr<Allocator>::AdoptNew(new CpuAllocator(options)); }

void* CpuAllocator::Allocate(size_t bytes) {
  if (bytes > PTRDIFF_MAX)
    return nullptr;  // no object can be that large, and some debugging allocators abort on such a request
  const bool huge = options_.huge_pages && bytes >= kHugePageBlock;
  void* const block = AllocateAligned(huge ? kHugePageBytes : kAlignment, bytes);
  if (block == nullptr) return nullptr;
  if (huge) internal::AdviseHugePages(block, bytes);
  if (options_.fill == Fill::kZero) std::memset(block, 0, bytes);
  if (options_.fill == Fill::kJunk) {
    for (size_t done = 0; done < bytes; done += sizeof(kJunkWord)) {
      std::memcpy(static_cast<char*>(block) + done, &kJunkWord, std::min(sizeof(kJunkWord), bytes - done));
    }
  }
  return block;
}

void CpuAllocator::Deallocate(void* block, size_t bytes) {
  if (options_.huge_pages && bytes >= kHugePageBlock) GivePagesBack(block, bytes);
  FreeAligned(block);
}

}  // namespace tensorcask
