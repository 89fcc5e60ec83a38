#include "tensorcask/serialize/payload/codec/repetitions.h"

#include <algorithm>

#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::payload {
namespace {

constexpr size_t kMaxRemembered = 4096;
constexpr size_t kMinInterval = 8;  // numbers from one remembered run to the next
constexpr size_t kPieces = 16;
constexpr size_t kRunsOfPiece = 256;
constexpr int kFewestFound = 2;  // one may be chance

// `pattern` is a number's, in its lowest bytes.
constexpr uint64_t Repeat(uint64_t pattern, int number_bytes) {
  for (int bytes = number_bytes; bytes < 8; bytes *= 2) pattern |= pattern << (8 * bytes);
  return pattern;
}

// The bits of a run that count.
struct Run {
  uint64_t low;
  uint64_t high;

  bool operator==(const Run& other) const { return low == other.low && high == other.high; }
  // Half of it is zeros, or its halves are equal.
  bool is_simple() const { return low == 0 || high == 0 || low == high; }
};

template <bool kWide>
Run LoadRun(const char* at, uint64_t mask) {
  const uint64_t first = LoadLittleEndian<uint64_t>(at) & mask;
  const uint64_t second = LoadLittleEndian<uint64_t>(at + 8) & mask;
  if constexpr (kWide) {
    // Different halves may have the same sum, but by chance they hardly ever do.
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    const uint64_t third = LoadLittleEndian<uint64_t>(at + 16) & mask;
    const uint64_t fourth = LoadLittleEndian<uint64_t>(at + 24) & mask;
    return {first + second * kOdd, third + fourth * kOdd};
  } else {
    return {first, second};
  }
}

template <bool kWide>
double ShareOfRuns(const char* numbers, size_t count, size_t number_bytes, uint64_t mask, int log2_slots,
                   uint16_t* slots) {
  const size_t run_numbers = (kWide ? 32 : 16) / number_bytes;
  if (count < 2 * run_numbers) return 0;
  const auto slot_of = [&](const Run& run) {
    return (run.low * 0x9e3779b97f4a7c15 ^ run.high * 0xc2b2ae3d27d4eb4f) * 0xd6e8feb86659fd93 >> (64 - log2_slots);
  };
  const size_t runs = count - run_numbers + 1;  // one starts at each number but the last
  size_t interval = kMinInterval;
  while (runs > interval * kMaxRemembered) interval *= 2;
  std::fill_n(slots, size_t{1} << log2_slots, uint16_t{0});
  for (size_t i = 0; i * interval < runs; ++i) {
    slots[slot_of(LoadRun<kWide>(numbers + i * interval * number_bytes, mask))] = static_cast<uint16_t>(i);
  }
  const size_t piece = std::min(kRunsOfPiece, runs);
  const size_t pieces = std::min(kPieces, runs / piece);
  const size_t stride = runs / pieces;
  int found = 0;
  for (size_t k = 0; k < pieces; ++k) {
    // Not at the beginning of each stretch: rows of a matrix may begin there.
    const size_t begin = k * stride + k * 2654435761u % (stride - piece + 1);
    for (size_t i = begin; i < begin + piece; ++i) {
      const Run run = LoadRun<kWide>(numbers + i * number_bytes, mask);
      if (run.is_simple()) continue;
      const size_t other = slots[slot_of(run)] * interval;
      if (other != i && LoadRun<kWide>(numbers + other * number_bytes, mask) == run) ++found;
    }
  }
  // One in `interval` of the runs that occur twice is found.
  const double share = static_cast<double>(found) * static_cast<double>(interval) / static_cast<double>(piece * pieces);
  return found < kFewestFound ? 0 : std::min(1.0, share);
}

}  // namespace

uint64_t TopBits(int number_bytes) {
  const int bits = number_bytes == 4 ? 16 : number_bytes == 8 ? 32 : 8 * number_bytes;
  const uint64_t top = ((uint64_t{1} << bits) - 1) << (8 * number_bytes - bits);
  return Repeat(top, number_bytes);
}

uint64_t TopBitsWithoutSign(int number_bytes) {
  return TopBits(number_bytes) & ~Repeat(uint64_t{1} << (8 * number_bytes - 1), number_bytes);
}

double RepetitionFinder::Share(const char* numbers, size_t count, const RunType& type) {
  const auto function = type.bytes == 32 ? ShareOfRuns<true> : ShareOfRuns<false>;
  return function(numbers, count, type.number_bytes, type.mask, kLog2Slots, slots_.data());
}

}  // namespace tensorcask::payload
