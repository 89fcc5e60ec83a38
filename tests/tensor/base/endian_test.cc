#include "tensorcask/tensor/base/endian.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tensorcask {
namespace {

TEST(Endian, LoadsAndStoresAtAnyAddress) {
  const std::array<unsigned char, 10> bytes = {0xff, 1, 2, 3, 4, 5, 6, 7, 8, 0xff};
  EXPECT_EQ(LoadLittleEndian<uint16_t>(bytes.data() + 1), 0x0201);
  EXPECT_EQ(LoadLittleEndian<uint32_t>(bytes.data() + 1), 0x04030201u);
  EXPECT_EQ(LoadLittleEndian<uint64_t>(bytes.data() + 1), 0x0807060504030201u);

  std::array<unsigned char, 10> stored;
  stored.fill(0xff);
  StoreLittleEndian(uint64_t{0x0807060504030201}, stored.data() + 1);
  EXPECT_EQ(stored, bytes);
}

TEST(Endian, SwapsEachItemAndNothingElse) {
  for (size_t item_size : {1, 2, 4, 8}) {
    for (size_t count : {0, 1, 2, 3, 17, 100}) {
      for (size_t offset : {0, 1, 3}) {
        SCOPED_TRACE(::testing::Message() << count << " x " << item_size << " at " << offset);
        std::vector<unsigned char> bytes(offset + count * item_size + 2);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 + 1);
        std::vector<unsigned char> want = bytes;
        for (size_t i = 0; i < count; ++i) {
          for (size_t j = 0; j < item_size; ++j) {
            want[offset + i * item_size + j] = bytes[offset + i * item_size + item_size - 1 - j];
          }
        }
        SwapBytes(bytes.data() + offset, count, item_size);
        EXPECT_EQ(bytes, want);
      }
    }
  }
}

TEST(Endian, SwappingNothingTakesNull) { SwapBytes(nullptr, 0, 8); }

TEST(EndianDeathTest, RefusesOtherItemSizes) {
  char bytes[16] = {};
  EXPECT_DEATH(SwapBytes(bytes, 1, 16), "item_size is not 1, 2, 4 or 8");
}

}  // namespace
}  // namespace tensorcask
