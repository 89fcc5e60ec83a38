// Writes the pieces of a serialized protobuf message into memory of the right size. Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_WIRE_WRITER_H_
#define TENSORCASK_SERIALIZE_WIRE_WIRE_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "tensorcask/serialize/wire/wire_reader.h"

namespace tensorcask::internal {

// 1 to 10. (7 bits a byte, so ceil(width / 7), and (9 w + 64) / 64 is that for w up to 64.)
inline size_t VarintBytes(uint64_t value) {
  const unsigned width = 64U - static_cast<unsigned>(__builtin_clzll(value | 1));
  return (9 * width + 64) / 64;
}

// Each writes at `out` and returns the end.
inline char* WriteVarint(uint64_t value, char* out) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

constexpr uint64_t WireTag(uint32_t number, WireType type) {
  return uint64_t{number} << 3 | static_cast<uint64_t>(type);
}

inline char* WriteTag(uint32_t number, WireType type, char* out) { return WriteVarint(WireTag(number, type), out); }

// Bytes of a field of `bytes` bytes: tag, length, content.
inline uint64_t BytesFieldBytes(uint32_t number, uint64_t bytes) {
  return VarintBytes(WireTag(number, WireType::kBytes)) + VarintBytes(bytes) + bytes;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_WIRE_WRITER_H_
