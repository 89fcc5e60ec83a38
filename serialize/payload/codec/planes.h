// The transforms of numbers before they are compressed, and their inverses (FORMAT.md section 3): byte arithmetic in
// memory, vectorised, with scalar code that gives the same bytes.
//
//   SplitPlanes(numbers, count, /*number_bytes=*/4, /*rotate=*/true, planes);   // planes + i * count: byte i of each
//   JoinPlanes(pointers, count, 4, true, numbers);
//
// Numbers have 1, 2, 4 or 8 bytes, at any address. Outputs do not overlap inputs unless a comment allows it.
// GetCpuFeatures (tensor/base/cpu.h) decides which kernels run.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::payload {

// Byte i of number j goes to planes[i * count + j]; with `rotate`, of the number rotated left by one bit.
// `planes` has number_bytes * count bytes.
void SplitPlanes(const void* numbers, size_t count, int number_bytes, bool rotate, uint8_t* planes);

// One plane to join: its bytes, or one byte that all of its bytes equal.
struct PlaneSource {
  const uint8_t* bytes = nullptr;  // null: constant
  uint8_t constant = 0;
};
// The inverse. `planes` has number_bytes entries, of `count` bytes each. `non_temporal`: the numbers will not be read
// soon, so non-temporal stores are used if `numbers` is at a multiple of 64.
void JoinPlanes(const PlaneSource* planes, size_t count, int number_bytes, bool rotated, void* numbers,
                bool non_temporal = false);

// Copies the numbers whose bits are not all 0 to `dense` (which has room for all numbers), in order, and sets their
// bits in `bitmap` ((count + 7) / 8 bytes; lowest bit first, bits past the end 0). Returns how many there are.
size_t CompactNonzeros(const void* numbers, size_t count, int number_bytes, uint8_t* bitmap, void* dense);
// The inverse. Requires: CountBits of the bitmap is the number of dense numbers; bits past the end are 0.
void ExpandZeros(const uint8_t* bitmap, const void* dense, size_t count, int number_bytes, void* numbers);
size_t CountBits(const uint8_t* bytes, size_t size);
// How many numbers have only 0 bits.
size_t CountZeros(const void* numbers, size_t count, int number_bytes);

// Bytes 0 and 1 as bits, lowest first, (count + 7) / 8 bytes, bits past the end 0. False, and `bits` is unspecified, if
// there is another byte.
bool PackBools(const void* bools, size_t count, uint8_t* bits);
void UnpackBools(const uint8_t* bits, size_t count, void* bools);

// How numbers compare (FORMAT.md section 4).
enum class NumberOrder { kFloat, kInteger };
// differences[j] = zigzag(order(numbers[j]) - order(base[j])).
void ComputeDifferences(const void* numbers, const void* base, size_t count, int number_bytes, NumberOrder order,
                        void* differences);
// The inverse. `differences` and `numbers` may be the same memory.
void AddDifferences(const void* differences, const void* base, size_t count, int number_bytes, NumberOrder order,
                    void* numbers);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANES_H_
