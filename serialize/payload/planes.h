// What is done to numbers before they are compressed, and undone after (FORMAT.md section 3): arithmetic on bytes in
// memory, vectorised, with scalar code that gives the same bytes.
//
//   SplitPlanes(numbers, count, /*number_bytes=*/4, /*rotate=*/true, planes);   // planes + i * count: byte i of each
//   JoinPlanes(pointers, count, 4, true, numbers);
//
// Numbers have 1, 2, 4 or 8 bytes and may lie at any address; outputs do not overlap inputs unless it is said. Which
// kernels run is decided by GetCpuFeatures (tensor/base/cpu.h).

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PLANES_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PLANES_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::payload {

// Byte i of number j goes to planes[i * count + j]; with `rotate`, of the number rotated left by one bit.
// `planes` has number_bytes * count bytes.
void SplitPlanes(const void* numbers, size_t count, int number_bytes, bool rotate, uint8_t* planes);

// One plane to join: bytes, or one byte that all are.
struct PlaneSource {
  const uint8_t* bytes = nullptr;  // null: constant
  uint8_t constant = 0;
};
// The inverse. `planes` has number_bytes entries, of `count` bytes each. `past_cache`: what is not read soon
// may go where no cache holds it, if it lies at a multiple of 64.
void JoinPlanes(const PlaneSource* planes, size_t count, int number_bytes, bool rotated, void* numbers,
                bool past_cache = false);

// Numbers that are not all 0 bits go to `dense` (room for all), one after the other, and their places to `mask`
// ((count + 7) / 8 bytes; lowest bit first, bits past the end 0). Returns how many they are.
size_t TakeZerosApart(const void* numbers, size_t count, int number_bytes, uint8_t* mask, void* dense);
// The inverse. Requires: CountBits of the mask is the number of dense ones; bits past the end are 0.
void PutZerosBack(const uint8_t* mask, const void* dense, size_t count, int number_bytes, void* numbers);
size_t CountBits(const uint8_t* bytes, size_t size);
// How many of the numbers have only 0 bits.
size_t CountZeros(const void* numbers, size_t count, int number_bytes);

// Bytes 0 and 1 as bits, lowest first, (count + 7) / 8 bytes, bits past the end 0. False, and `bits` is unspecified, if
// there is another byte.
bool PackBools(const void* bools, size_t count, uint8_t* bits);
void UnpackBools(const uint8_t* bits, size_t count, void* bools);

// How numbers compare (FORMAT.md section 4).
enum class NumberOrder { kFloat, kInteger };
// differences[j] = zigzag(order(numbers[j]) - order(base[j])).
void TakeDifferences(const void* numbers, const void* base, size_t count, int number_bytes, NumberOrder order,
                     void* differences);
// The inverse. `differences` and `numbers` may be the same memory.
void AddDifferences(const void* differences, const void* base, size_t count, int number_bytes, NumberOrder order,
                    void* numbers);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PLANES_H_
