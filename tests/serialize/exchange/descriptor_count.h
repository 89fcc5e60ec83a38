// How many descriptors this process has open: for tests that none is left behind.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_

#include <filesystem>
#include <iterator>

namespace tensorcask::testing {

inline int CountOpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");  // has one itself, each time
  return static_cast<int>(std::distance(begin(open), end(open)));
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_DESCRIPTOR_COUNT_H_
