#include "tensorcask/serialize/payload/codec/byte_entropy.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace tensorcask::payload {
namespace {

std::string Noise(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(Log2, IsThatOfTheBooks) {
  for (uint32_t x = 1; x < 1 << 24; x += 1 + x / 1000) {
    EXPECT_NEAR(static_cast<double>(Log2(x)) / 65536, std::log2(x), 4e-5) << x;
  }
  EXPECT_EQ(Log2(1), 0u);
  EXPECT_EQ(Log2(1 << 23), uint64_t{23} << 16);
}

TEST(CountedBits, AreWhatTheBytesTake) {
  const uint32_t none[3] = {};
  EXPECT_EQ(CountedBits(none, 3), 0u);
  const uint32_t one[3] = {0, 12345, 0};
  EXPECT_EQ(CountedBits(one, 3), 0u);
  const uint32_t counts[4] = {500000, 250000, 125000, 125000};
  EXPECT_NEAR(static_cast<double>(CountedBits(counts, 4)) / 65536, 1.75e6, 100);
  const uint32_t few[4] = {1, 1, 1, 1};
  EXPECT_EQ(CountedBits(few, 4), uint64_t{8} << 16);
}

TEST(ByteEntropy, IsThatOfWhatWasSampled) {
  EXPECT_EQ(ByteEntropy(""), 0);
  EXPECT_EQ(ByteEntropy("x"), 0);
  EXPECT_EQ(ByteEntropy(std::string(100003, 'x')), 0);
  std::string two;
  for (int i = 0; i < 50000; ++i) two += "ab";
  EXPECT_NEAR(ByteEntropy(two), 1, 1e-4);
  std::string all;
  for (int i = 0; i < 256 * 400; ++i) all += static_cast<char>(i);
  EXPECT_NEAR(ByteEntropy(all), 8, 0.01);
  std::string quarter;  // H(1/4) = 0.8113
  for (int i = 0; i < 100000; ++i) quarter += i % 4 == 0 ? 'a' : 'b';
  EXPECT_NEAR(ByteEntropy(quarter), 0.8113, 1e-3);
  // Few bytes of noise are still noise.
  for (const size_t size : {512, 2048, 16384}) EXPECT_GT(ByteEntropy(Noise(size, 7)), 7.9) << size;
}

}  // namespace
}  // namespace tensorcask::payload
