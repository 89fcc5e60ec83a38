// Loops over the bits of elements. The compiler makes vector code of them.

#ifndef TENSORCASK_SERIALIZE_REPORT_INTERNAL_ZERO_LINES_H_
#define TENSORCASK_SERIALIZE_REPORT_INTERNAL_ZERO_LINES_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::report {

// Whether all `count` elements of `size` bytes are zero; -0.0 of a float is. Elements that are not zero set bits in
// `columns`, if that is not null: count * size bytes, aligned as the elements.
bool AllZero(const char* data, size_t count, size_t size, bool is_float, uint8_t* columns);

// How many numbers of 16 bits have this magnitude, whatever their sign bit.
uint64_t CountMagnitude16(const char* data, size_t count, uint16_t magnitude);

}  // namespace tensorcask::report

#endif  // TENSORCASK_SERIALIZE_REPORT_INTERNAL_ZERO_LINES_H_
