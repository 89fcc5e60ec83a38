// What a caching allocator counts, by the names and rules of PyTorch's torch.cuda.memory_stats().
//
//   statistics.reserved_bytes.all.current    // bytes of all segments that the device has given
//   statistics.allocated_bytes.small.peak    // most bytes in use at a time, in blocks of the small pool
//   statistics.ToString()                    // a table
//
// Sizes are those of blocks, after rounding: an allocation of 1 byte counts as 512.

#ifndef TENSORCASK_TENSOR_MEMORY_MEMORY_STATISTICS_H_
#define TENSORCASK_TENSOR_MEMORY_MEMORY_STATISTICS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace tensorcask {

struct MemoryCounter {
  int64_t current = 0;
  int64_t peak = 0;       // greatest `current` since the start or ResetPeak
  int64_t allocated = 0;  // sum of all increases since the start or ResetAccumulated
  int64_t freed = 0;      // sum of all decreases

  void Add(int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    if (amount > 0) allocated += amount;
    if (amount < 0) freed -= amount;
  }
  void ResetPeak() { peak = current; }
  void ResetAccumulated() { allocated = freed = 0; }

  friend bool operator==(const MemoryCounter& a, const MemoryCounter& b) {
    return a.current == b.current && a.peak == b.peak && a.allocated == b.allocated && a.freed == b.freed;
  }
};

// One number for all blocks, for those of small pools and for those of large pools.
struct PoolCounters {
  MemoryCounter all;
  MemoryCounter small;
  MemoryCounter large;
};

struct MemoryStatistics {
  // Numbers of things.
  PoolCounters allocations;     // blocks that the program holds
  PoolCounters segments;        // allocations of the device
  PoolCounters active;          // blocks in use: held, or freed while a stream still uses them
  PoolCounters inactive_split;  // free blocks that share their segment with other blocks
  // Their bytes.
  PoolCounters allocated_bytes;
  PoolCounters reserved_bytes;
  PoolCounters active_bytes;
  PoolCounters inactive_split_bytes;
  // Blocks and segments of at least max_split_size.
  MemoryCounter oversize_allocations;
  MemoryCounter oversize_segments;

  int64_t alloc_retries = 0;  // device allocations that were tried again after all cached blocks were released
  int64_t ooms = 0;           // allocations that failed because memory was exhausted

  void ResetPeak();
  void ResetAccumulated();  // also sets alloc_retries and ooms to 0
  // A table with a line for each number.
  std::string ToString() const;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_MEMORY_STATISTICS_H_
