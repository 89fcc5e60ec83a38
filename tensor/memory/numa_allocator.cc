#include "tensorcask/tensor/memory/numa_allocator.h"

#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/memory_pages.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tensorcask {
namespace {

using internal::AdviseHugePages;
using internal::MapPages;
using internal::PageBytes;
using internal::PageUse;
using internal::UnmapPages;

// Requires: bytes <= PTRDIFF_MAX. At least one page.
size_t RoundedToPages(size_t bytes) {
  const size_t page = PageBytes();
  return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

absl::Status BindError(int error) {
  if (error == ENOSYS || error == EPERM) {
    return absl::UnimplementedError(absl::StrCat("memory cannot be placed on NUMA nodes: the system ",
                                                 error == ENOSYS ? "has no mbind" : "forbids mbind to this process"));
  }
  if (error == EINVAL) {
    return absl::InvalidArgumentError("the NUMA nodes do not exist, or this process may not use their memory");
  }
  return absl::ErrnoToStatus(error, "mbind");
}

}  // namespace

int NumaAllocator::Bind(void* start, size_t bytes, Policy policy, uint64_t node_mask) {
#if defined(__linux__) && defined(SYS_mbind)
  const int mode = policy == Policy::kBind ? 2 : 3;  // MPOL_BIND, MPOL_INTERLEAVE of <linux/mempolicy.h>
  // The kernel reads one bit less than the number that it is given.
  return syscall(SYS_mbind, start, bytes, mode, &node_mask, kMaxNodes + 1, 0) == 0 ? 0 : errno;
#else
  static_cast<void>(start), static_cast<void>(bytes), static_cast<void>(policy), static_cast<void>(node_mask);
  return ENOSYS;
#endif
}

absl::StatusOr<RefPtr<NumaAllocator>> NumaAllocator::Create(const Options& options, BindFunction bind) {
  if (options.nodes.empty()) return absl::InvalidArgumentError("no NUMA nodes are given; at least one is needed");
  uint64_t node_mask = 0;
  for (const int node : options.nodes) {
    if (node < 0 || node >= kMaxNodes) {
      return absl::InvalidArgumentError(absl::StrCat("NUMA node ", node, " is not between 0 and ", kMaxNodes - 1));
    }
    node_mask |= uint64_t{1} << node;
  }
  const size_t page = PageBytes();
  void* const probe = MapPages(page, PageUse::kMemory);
  if (probe == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for a page of ", page, " bytes"));
  const int error = bind(probe, page, options.policy, node_mask);
  UnmapPages(probe, page);
  if (error != 0) return BindError(error);
  return RefPtr<NumaAllocator>::AdoptNew(new NumaAllocator(node_mask, options, bind));
}

void* NumaAllocator::Allocate(size_t bytes) {
  if (bytes > PTRDIFF_MAX) return nullptr;
  const size_t mapped = RoundedToPages(bytes);
  void* const block = MapPages(mapped, PageUse::kMemory);
  if (block == nullptr) return nullptr;
  if (bind_(block, mapped, policy_, node_mask_) != 0) {
    UnmapPages(block, mapped);
    return nullptr;
  }
  if (huge_pages_ && bytes >= CpuAllocator::kHugePageBlock) AdviseHugePages(block, mapped);
  return block;
}

void NumaAllocator::Deallocate(void* block, size_t bytes) {
  if (block != nullptr) UnmapPages(block, RoundedToPages(bytes));
}

}  // namespace tensorcask
