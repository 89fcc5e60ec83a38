// Blocks of shared memory, and handing them over within one process.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_SHARED_MEMORY_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_SHARED_MEMORY_TESTING_H_

#include <fcntl.h>

#include "gtest/gtest.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"

namespace tensorcask::testing {

inline constexpr size_t kSize = 1 << 20;
inline constexpr int kWanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

class SharedMemory : public ::testing::Test {
 protected:
  ~SharedMemory() override { EXPECT_EQ(CountOpenDescriptors(), before_) << "descriptors are left open"; }

 private:
  const int before_ = CountOpenDescriptors();
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_SHARED_MEMORY_TESTING_H_
