// A checksum of a tensor's elements that anybody can compute: zlib's CRC-32.

#ifndef TENSORCASK_TOOLS_ELEMENT_CRC32_H_
#define TENSORCASK_TOOLS_ELEMENT_CRC32_H_

#include <cstdint>

#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {

// Of the elements in row-major order, little-endian, types under a byte one byte an element; strings: of each its
// length as 64 bits, little-endian, then its bytes. In Python, for numbers: zlib.crc32(array.tobytes()).
uint32_t ElementCrc32(const Tensor& tensor);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_ELEMENT_CRC32_H_
