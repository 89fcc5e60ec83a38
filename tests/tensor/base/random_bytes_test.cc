#include "tensorcask/tensor/base/random_bytes.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"

namespace tensorcask::internal {
namespace {

// Every byte up to `bytes` takes several values in many draws, and none after them is written.
TEST(RandomBytes, FillExactlyWhatIsAsked) {
  for (const size_t bytes : {1, 3, 4, 5, 8, 13, 256}) {
    SCOPED_TRACE(bytes);
    std::array<uint8_t, 257> all_bits = {};
    for (int i = 0; i < 64; ++i) {
      std::array<uint8_t, 257> drawn = {};
      ASSERT_TRUE(FillWithRandomBytes(drawn.data(), bytes));
      for (size_t k = 0; k < drawn.size(); ++k) all_bits[k] |= drawn[k];
    }
    for (size_t k = 0; k < bytes; ++k) EXPECT_EQ(all_bits[k], 0xff) << k;  // a bit is 0 in all 64 once in 2^64
    for (size_t k = bytes; k < all_bits.size(); ++k) EXPECT_EQ(all_bits[k], 0) << k;
  }
}

}  // namespace
}  // namespace tensorcask::internal
