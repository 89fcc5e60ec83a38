// Estimates which part of a chunk repeats another part of it, however far apart. This costs a small part of a search.
//
//   RepetitionFinder finder;                                                   // 32 KiB of memory; one a thread
//   double share = finder.Share(chunk, count, {4, 16, kAllBits});              // 0 of noise
//   double near = finder.Share(chunk, count, {4, 16, TopBitsWithoutSign(4)});  // the sign and low bits may differ
//
// The finder remembers up to 4096 runs of numbers, evenly spread over the chunk, and looks for 4096 other runs among
// them. So it finds long repetitions (68 numbers or more in a chunk of 262,144 floats), and some of the shorter ones.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_REPETITIONS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_REPETITIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tensorcask::payload {

// Masks of the bits of a number that are compared, repeated to 8 bytes. Requires: number_bytes is 1, 2, 4 or 8.
constexpr uint64_t kAllBits = ~uint64_t{0};
uint64_t TopBits(int number_bytes);             // for a float: sign, exponent, the highest bits of the mantissa
uint64_t TopBitsWithoutSign(int number_bytes);  // the same less the sign

// Numbers that are compared together.
struct RunType {
  int number_bytes = 1;  // 1, 2, 4 or 8
  int bytes = 16;        // the size of a run: 16 or 32
  uint64_t mask = kAllBits;
};

class RepetitionFinder {
 public:
  // The share of runs that occur elsewhere in the chunk: 0 to 1. A run does not count if a half of it is zeros or its
  // halves are equal: a sample shows such repetitions.
  double Share(const char* numbers, size_t count, const RunType& type);

 private:
  static constexpr int kLog2Slots = 14;
  std::array<uint16_t, size_t{1} << kLog2Slots> slots_;  // by hash: a remembered run
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_REPETITIONS_H_
