// The smallest steps of a program, as units of rows about little work. What a row takes is given as a number of such
// steps, which take turns with it: so it says how much the library does, and not how fast the processor is.
//
//   Row("making a small tensor", InUnits(21, kBatch, [&] { ... }, Allocations), 4, "allocs", kOfAllocations);

#ifndef TENSORCASK_TESTS_BENCHMARKS_UNITS_H_
#define TENSORCASK_TESTS_BENCHMARKS_UNITS_H_

#include <cstddef>
#include <string>

#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {

// Each does the step `times` times.
void Allocations(int times);  // malloc() of 64 bytes, and free()
void CountPairs(int times);   // one up and one down of a counter that threads may share

// A file whose bytes are in memory, for steps of the system.
class SmallFile {
 public:
  explicit SmallFile(std::string path);  // makes the file
  ~SmallFile();
  SmallFile(const SmallFile&) = delete;
  SmallFile& operator=(const SmallFile&) = delete;

  void Reads(int times) const;         // pread() of 4096 bytes
  void Appends(int times);             // write() of 4 bytes
  void OpensAndMaps(int times) const;  // open(), mmap() of a page, munmap(), close()

 private:
  const std::string path_;
  int handle_ = -1;
};

inline constexpr const char* kOfAllocations = "malloc() of 64 bytes and its free()";
inline constexpr const char* kOfCountPairs = "one up and one down of an atomic counter";
inline constexpr const char* kOfReads = "pread() of 4096 bytes that are in memory";
inline constexpr const char* kOfAppends = "write() of 4 bytes to the end of a file";
inline constexpr const char* kOfMaps = "open(), mmap(), munmap() and close() of a file";

// How many times the step of `unit(n)` fits into one of the `count` things that `fn` does.
template <typename Fn, typename Unit>
Figure InUnits(int rounds, int count, Fn&& fn, Unit&& unit) {
  constexpr int kSteps = 2000;
  return MedianRatio(rounds, fn, [&] { unit(kSteps); }).Times(static_cast<double>(kSteps) / count);
}

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_UNITS_H_
