#include "tensorcask/serialize/payload/codec/repetitions.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tensorcask::payload {
namespace {

std::string Noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

double Share(const std::string& numbers, const RunType& type) {
  const auto finder = std::make_unique<RepetitionFinder>();
  const size_t count = numbers.size() / static_cast<size_t>(type.number_bytes);
  const double share = finder->Share(numbers.data(), count, type);
  EXPECT_EQ(finder->Share(numbers.data(), count, type), share) << "the second time";
  return share;
}

TEST(RepetitionFinder, FindsWhatRepeatsAnywhere) {
  for (const int number_bytes : {1, 2, 4, 8}) {
    for (const int run_bytes : {16, 32}) {
      for (const size_t bytes : {size_t{4096}, size_t{100'000}, size_t{1} << 20}) {
        SCOPED_TRACE(absl::StrCat("numbers of ", number_bytes, ", runs of ", run_bytes, ", ", bytes, " bytes"));
        const RunType type = {number_bytes, run_bytes};
        EXPECT_EQ(Share(Noise(bytes, 1), type), 0);
        const std::string half = Noise(bytes / 16 * 8, 2);
        EXPECT_GT(Share(half + half, type), 0.3);
        // A fifth of the chunk occurs twice.
        const std::string fifth = Noise(bytes / 40 * 8 - 8, 3);
        const double share = Share(fifth + Noise(fifth.size(), 4) + half + fifth, type);
        EXPECT_GT(share, 0.05);
        EXPECT_LT(share, 0.7);
      }
    }
  }
}

TEST(RepetitionFinder, ComparesTheBitsOfTheMask) {
  for (const int number_bytes : {2, 4, 8}) {
    SCOPED_TRACE(number_bytes);
    const std::string half = Noise(200'000, 3);
    std::string other_sign = half;
    std::string other_low_bits = half;
    for (size_t i = 0; i < half.size(); i += static_cast<size_t>(number_bytes)) {
      char* const sign = &other_sign[i + static_cast<size_t>(number_bytes) - 1];
      *sign = static_cast<char>(*sign ^ 0x80);
      ++other_low_bits[i];
    }
    const auto share = [number_bytes](const std::string& numbers, uint64_t mask) {
      return Share(numbers, {number_bytes, 16, mask});
    };
    EXPECT_EQ(share(half + other_sign, kAllBits), 0);
    EXPECT_EQ(share(half + other_sign, TopBits(number_bytes)), 0);
    EXPECT_GT(share(half + other_sign, TopBitsWithoutSign(number_bytes)), 0.3);
    EXPECT_EQ(share(half + other_low_bits, kAllBits), 0);
    if (number_bytes == 2) continue;  // all their bits are top bits
    EXPECT_GT(share(half + other_low_bits, TopBits(number_bytes)), 0.3);
  }
  EXPECT_EQ(TopBits(1), ~uint64_t{0});
  EXPECT_EQ(TopBits(2), ~uint64_t{0});
  EXPECT_EQ(TopBits(4), 0xffff0000ffff0000);
  EXPECT_EQ(TopBits(8), 0xffffffff00000000);
  EXPECT_EQ(TopBitsWithoutSign(1), 0x7f7f7f7f7f7f7f7f);
  EXPECT_EQ(TopBitsWithoutSign(2), 0x7fff7fff7fff7fff);
  EXPECT_EQ(TopBitsWithoutSign(4), 0x7fff00007fff0000);
  EXPECT_EQ(TopBitsWithoutSign(8), 0x7fffffff00000000);
}

TEST(RepetitionFinder, DoesNotCountSimpleRuns) {
  EXPECT_EQ(Share(std::string(100'000, 'x'), {4, 16}), 0);
  EXPECT_EQ(Share(Noise(50'000, 1) + std::string(50'000, '\0'), {4, 16}), 0);
  std::string sparse;  // one number in four, of 1000 values
  for (int i = 0; i < 50'000; ++i) {
    sparse += std::string(12, '\0');
    sparse.insert(sparse.size() - static_cast<size_t>(4 * (i % 4)), Noise(4, static_cast<uint32_t>(i * 7919 % 1000)));
  }
  EXPECT_EQ(Share(sparse, {4, 16}), 0);
}

TEST(RepetitionFinder, TakesFewNumbers) {
  for (const int number_bytes : {1, 2, 4, 8}) {
    for (size_t count = 0; count < 100; ++count) {
      // A copy of the exact size: no byte after it is read.
      const std::string noise = Noise(count * static_cast<size_t>(number_bytes), 1);
      const std::unique_ptr<char[]> exact(new char[noise.size()]);
      noise.copy(exact.get(), noise.size());
      const auto finder = std::make_unique<RepetitionFinder>();
      for (const int run_bytes : {16, 32}) {
        EXPECT_EQ(finder->Share(exact.get(), count, {number_bytes, run_bytes}), 0);
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask::payload
