// What figures of speed depend on: the processor, its caches, and how fast memcpy is on it now.

#ifndef TENSORCASK_TESTS_BENCHMARKS_MACHINE_H_
#define TENSORCASK_TESTS_BENCHMARKS_MACHINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::benchmarks {

// The processor's name in text of the form of /proc/cpuinfo; "unknown processor" if the text has none.
std::string ProcessorName(absl::string_view cpuinfo);

// A number of bytes in KiB, or from 1 MiB on in MiB; "unknown" for 0 and less: what sysconf gives for a cache that it
// does not know.
std::string CacheSize(long bytes);

// GB/s (10^9 bytes) of memcpy between two warm buffers of 64 MiB, one thread: the median of 9 rounds.
double MemcpySpeed();

// "processor: NAME, N processors; caches: L1d SIZE, L2 SIZE, L3 SIZE; memcpy of 64 MiB: SPEED GB/s". Runs MemcpySpeed.
std::string DescribeMachine();

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_MACHINE_H_
