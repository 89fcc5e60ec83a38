// How many descriptors, and mappings of memory files, this process has: so that tests can check for leaks.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace tensorcask::testing {

inline int CountOpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");  // has one itself, each time
  return static_cast<int>(std::distance(begin(open), end(open)));
}

// The same, but waits while there are more than `wanted`: helper processes close what is not a memory file, a moment
// later.
inline int CountOpenDescriptorsOnceSettled(int wanted) {
  for (int i = 0; i < 500 && CountOpenDescriptors() > wanted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return CountOpenDescriptors();
}

inline int CountMappedMemoryFiles() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != std::string::npos;
  return count;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_
