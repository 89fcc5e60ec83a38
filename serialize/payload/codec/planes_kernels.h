// Vector kernels of planes.cc. Internal; planes.h is the interface.
//
//   const BlockKernels* kernels = FindBlockKernels(number_bytes);
//   size_t done = kernels != nullptr ? kernels->split[rotate](numbers, count, planes) : 0;
//   // ... and the numbers from `done` on one by one.
//
// A kernel processes whole blocks from the first number on, and leaves at most one block (at most 64 numbers). It
// processes a multiple of 8 numbers, so that the rest begins at a byte of bits. Arguments are those of planes.h; no
// other byte is read or written.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_KERNELS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "tensorcask/serialize/payload/codec/planes.h"

namespace tensorcask::internal {

using payload::PlaneSource;

// The numbers that a kernel has processed, and how many of them are not 0.
struct CountedBlocks {
  size_t numbers = 0;
  size_t nonzero = 0;
};

// For numbers of one size; the last three for any.
struct BlockKernels {
  size_t (*split[2])(const uint8_t* numbers, size_t count, uint8_t* planes);        // [rotate]
  size_t (*join[2][2])(const PlaneSource* planes, size_t count, uint8_t* numbers);  // [rotated][non_temporal]
  CountedBlocks (*compact_nonzeros)(const uint8_t* numbers, size_t count, uint8_t* bitmap, uint8_t* dense);
  CountedBlocks (*expand_zeros)(const uint8_t* bitmap, const uint8_t* dense, size_t dense_count, size_t count,
                                uint8_t* numbers);
  CountedBlocks (*count_zeros)(const uint8_t* numbers, size_t count);
  size_t (*compute_differences[2])(const uint8_t* numbers, const uint8_t* base, size_t count,
                                   uint8_t* differences);  // [NumberOrder]
  size_t (*add_differences[2])(const uint8_t* differences, const uint8_t* base, size_t count, uint8_t* numbers);
  size_t (*pack_bools)(const uint8_t* bools, size_t count, uint8_t* bits, uint8_t* seen);  // seen: or'ed together
  size_t (*unpack_bools)(const uint8_t* bits, size_t count, uint8_t* bools);
  size_t (*count_bits)(const uint8_t* bytes, size_t size);  // all of them: how many bits are 1
};

// The kernels for this processor; null if it has none. Requires: number_bytes is 1, 2, 4 or 8.
const BlockKernels* FindBlockKernels(int number_bytes);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_KERNELS_H_
