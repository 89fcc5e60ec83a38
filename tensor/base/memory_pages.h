// Memory of the machine, and whole pages of it: mmap(2) and madvise(2), or what other systems have in their place.

#ifndef TENSORCASK_TENSOR_BASE_MEMORY_PAGES_H_
#define TENSORCASK_TENSOR_BASE_MEMORY_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tensorcask::internal {

size_t PageBytes();  // a power of two

// Physical memory, all of it and the part that nothing uses. Empty if the system does not report it.
std::optional<uint64_t> MachineMemoryBytes();
std::optional<uint64_t> FreeMemoryBytes();

enum class PageUse {
  kMemory,        // to read and write; zeros at first
  kSparseMemory,  // the same, most of which stays untouched. Linux counts only the pages that are written; Windows all
  kAddresses,     // reserved addresses without memory; an access ends the process
};

// Null on failure. Requires: bytes > 0.
void* MapPages(size_t bytes, PageUse use);
// Requires: `start` and `bytes` are of one MapPages.
void UnmapPages(void* start, size_t bytes);

// Asks for huge pages, where the system has them. Memory without them is as good, but slower to fill.
void AdviseHugePages(void* start, size_t bytes);

// madvise(2), for advice that must be followed. Fails with EINVAL on a system that accepts every advice, as emulators
// do, since it may follow none. Always fails on Windows.
int AdviseMemory(void* start, size_t bytes, int advice);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_MEMORY_PAGES_H_
