// How many descriptors, and mappings of memory files, this process has: for tests that none is left behind.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tensorcask::testing {

inline int CountOpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");  // has one itself, each time
  return static_cast<int>(std::distance(begin(open), end(open)));
}

inline int CountMappedMemoryFiles() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != std::string::npos;
  return count;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_
