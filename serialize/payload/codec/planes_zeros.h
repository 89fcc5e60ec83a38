// What the kernels of CompactNonzeros and ExpandZeros have in common, whatever their instructions. Internal.
//
// A step processes Step::kNumbers numbers of Step::kBytes bytes, a multiple of 8:
//
//   Step::Compact(numbers, mask, dense)    their bits, and those that are not 0 in front; returns how many are not 0
//   Step::PutBack(mask, dense, numbers)    the inverse
//
// Both write kNumbers numbers, and PutBack reads as many.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_ZEROS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_ZEROS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensorcask/serialize/payload/codec/planes_kernels.h"

namespace tensorcask::internal {

// For each byte of a mask, which of eight numbers goes to which position. Unused positions have kEmpty, which gives 0.
inline constexpr uint8_t kEmpty = 0xff;
struct Places {
  uint8_t rows[256][8];
};
constexpr Places MakePlaces(bool back) {
  Places places = {};
  for (int mask = 0; mask < 256; ++mask) {
    int rank = 0;
    for (int i = 0; i < 8; ++i) places.rows[mask][i] = kEmpty;
    for (int i = 0; i < 8; ++i) {
      if ((mask >> i & 1) == 0) continue;
      places.rows[mask][back ? i : rank] = static_cast<uint8_t>(back ? rank : i);
      ++rank;
    }
  }
  return places;
}
inline constexpr Places kDense = MakePlaces(false);  // number rows[mask][j] goes to place j
inline constexpr Places kSparse = MakePlaces(true);

// The loops have no target attribute, so that the compiler can inline them into functions with any.
#define CASK_INLINE inline __attribute__((always_inline))
template <typename AnyStep>
CASK_INLINE CountedBlocks CompactSteps(const uint8_t* numbers, size_t count, uint8_t* mask, uint8_t* dense) {
  CountedBlocks done;
  for (; count - done.numbers >= AnyStep::kNumbers; done.numbers += AnyStep::kNumbers) {
    // Stores whole registers: the output has room for as many numbers as were read.
    done.nonzero += AnyStep::Compact(numbers + done.numbers * AnyStep::kBytes, mask + done.numbers / 8,
                                     dense + done.nonzero * AnyStep::kBytes);
  }
  return done;
}
template <typename AnyStep>
CASK_INLINE CountedBlocks PutSteps(const uint8_t* mask, const uint8_t* dense, size_t dense_count, size_t count,
                                   uint8_t* numbers) {
  constexpr size_t kNumbers = AnyStep::kNumbers;
  constexpr size_t kBytes = AnyStep::kBytes;
  uint8_t last[2 * kNumbers * kBytes] = {};  // fewer than kNumbers, and room for a step to read on
  const uint8_t* from = dense;
  bool near_end = false;
  CountedBlocks done;
  for (; count - done.numbers >= kNumbers; done.numbers += kNumbers) {
    const size_t left = dense_count - done.nonzero;
    if (left < kNumbers && !near_end) {
      if (left > 0) std::memcpy(last, from, left * kBytes);
      from = last;
      near_end = true;
    }
    const size_t nonzero = AnyStep::PutBack(mask + done.numbers / 8, from, numbers + done.numbers * kBytes);
    from += nonzero * kBytes;
    done.nonzero += nonzero;
  }
  return done;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_ZEROS_H_
