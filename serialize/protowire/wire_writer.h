// Writes the pieces of a serialized protobuf message into memory of the right size. Internal.

#ifndef TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_WRITER_H_
#define TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_WRITER_H_

#include <cstdint>

#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::internal {

constexpr uint64_t WireTag(uint32_t number, WireType type) {
  return uint64_t{number} << 3 | static_cast<uint64_t>(type);
}

// Writes the tag at `out` and returns its end.
inline char* WriteTag(uint32_t number, WireType type, char* out) { return WriteVarint(WireTag(number, type), out); }

// Bytes of a field of `bytes` bytes: tag, length, content.
inline uint64_t BytesFieldBytes(uint32_t number, uint64_t bytes) {
  return VarintSize(WireTag(number, WireType::kBytes)) + VarintSize(bytes) + bytes;
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_WRITER_H_
