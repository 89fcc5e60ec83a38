// The CRC-32 of zlib over the elements of a tensor, which other programs can compute, too.

#ifndef TENSORCASK_TOOLS_ELEMENT_CRC32_H_
#define TENSORCASK_TOOLS_ELEMENT_CRC32_H_

#include <cstdint>

#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {

// Covers the elements in row-major order, little-endian; an element smaller than a byte counts as one byte. For each
// string it covers the length as 64 bits, little-endian, and then the bytes. Python, for numbers:
// zlib.crc32(array.tobytes()).
uint32_t ElementCrc32(const Tensor& tensor);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_ELEMENT_CRC32_H_
