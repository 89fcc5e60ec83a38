#include "tensorcask/serialize/payload/codec/byte_entropy.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tensorcask::payload {
namespace {

// log2 of 1 + i / 256, times 2^16.
constexpr std::array<uint32_t, 257> MakeLogs() {
  std::array<uint32_t, 257> logs = {};
  for (uint32_t i = 0; i <= 256; ++i) {
    uint64_t x = (uint64_t{256} + i) << 22;  // 1 is 2^30
    uint32_t log = 0;
    for (int bit = 16; bit >= 0; --bit) {  // squaring doubles the logarithm; its next bit is 1 if the square exceeds 2
      if (x >= uint64_t{1} << 31) {
        log += uint32_t{1} << bit;
        x >>= 1;
      }
      x = (x * x) >> 30;
    }
    logs[i] = log;
  }
  return logs;
}
constexpr std::array<uint32_t, 257> kLogs = MakeLogs();

constexpr uint64_t LogOf(uint32_t x) {
  const int exponent = 31 - __builtin_clz(x);
  const uint32_t mantissa = (x << (24 - exponent)) & 0xffffff;  // 1 is 2^24
  const uint64_t low = kLogs[mantissa >> 16];
  const uint64_t high = kLogs[(mantissa >> 16) + 1];
  return (static_cast<uint64_t>(exponent) << 16) + low + (((high - low) * (mantissa & 0xffff)) >> 16);
}

// x * log2(x), as Log2 has it.
constexpr uint32_t kNumProducts = 1024;
constexpr std::array<uint32_t, kNumProducts> MakeProducts() {
  std::array<uint32_t, kNumProducts> products = {};
  for (uint32_t x = 1; x < kNumProducts; ++x) products[x] = static_cast<uint32_t>(x * LogOf(x));
  return products;
}
constexpr std::array<uint32_t, kNumProducts> kProducts = MakeProducts();

}  // namespace

uint64_t Log2(uint32_t x) { return LogOf(x); }

uint64_t CountedBits(const uint32_t* counts, int num_counts) {
  uint64_t total = 0;
  uint64_t sum = 0;  // the sum of count * log2(count)
  for (int i = 0; i < num_counts; ++i) {
    const uint32_t count = counts[i];
    total += count;
    sum += count < kNumProducts ? kProducts[count] : count * LogOf(count);
  }
  if (total == 0) return 0;
  const uint64_t most = total * LogOf(static_cast<uint32_t>(total));
  return most > sum ? most - sum : 0;
}

double ByteEntropy(absl::string_view bytes) {
  if (bytes.empty()) return 0;
  // Four tables, so that a run of equal bytes does not wait for one counter.
  std::array<std::array<uint32_t, 256>, 4> counts = {};
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    for (int k = 0; k < 4; ++k) ++counts[k][data[i + k]];
  }
  for (; i < bytes.size(); ++i) ++counts[0][data[i]];
  uint64_t symbols = 0;
  for (int symbol = 0; symbol < 256; ++symbol) {
    counts[0][symbol] += counts[1][symbol] + counts[2][symbol] + counts[3][symbol];
    symbols += counts[0][symbol] != 0 ? 1 : 0;
  }
  // The entropy of a small sample is lower than that of its source; the last term corrects this (Miller, Madow).
  const uint64_t size = bytes.size();
  const uint64_t missing = (symbols - 1) * 47274 / size;  // 65536 / (2 ln 2)
  const uint64_t entropy = CountedBits(counts[0].data(), 256) / size + missing;
  return std::min(8.0, static_cast<double>(entropy) / 65536);
}

}  // namespace tensorcask::payload
