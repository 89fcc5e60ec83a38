// The fixed parts of a table, shared by its writer and its reader (FORMAT.md section 3).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_FORMAT_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::checkpoint {

inline constexpr uint64_t kTableMagic = 0xdb4775248b80fb57;  // the last eight bytes, little-endian
inline constexpr size_t kFooterBytes = 48;
inline constexpr size_t kBlockTrailerBytes =
    5;  // behind each block: its type, and the masked CRC-32C of block and type
inline constexpr char kRawBlock = 0;
inline constexpr char kSnappyBlock = 1;

// Where a block lies in the file; its trailer is not counted.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

// Base-128 numbers, least significant group first, as in protobuf.
inline void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

// Takes a varint from the front of *bytes; false if it is cut short, over 64 bits or longer than it need be (no writer
// makes such, and so one number has one form).
inline bool TakeVarint64(absl::string_view* bytes, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < bytes->size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    if ((i == 9 && byte > 1) || (i > 0 && byte == 0)) return false;
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

// The same for numbers of 32 bits.
inline bool TakeVarint32(absl::string_view* bytes, uint32_t* value) {
  if (!bytes->empty() && static_cast<uint8_t>(bytes->front()) < 0x80) {  // nearly all of them
    *value = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    return true;
  }
  absl::string_view rest = *bytes;
  uint64_t wide = 0;
  if (!TakeVarint64(&rest, &wide) || wide > UINT32_MAX) return false;
  *bytes = rest;
  *value = static_cast<uint32_t>(wide);
  return true;
}

inline void AppendHandle(const BlockHandle& handle, std::string* out) {
  AppendVarint(handle.offset, out);
  AppendVarint(handle.size_bytes, out);
}

inline bool TakeHandle(absl::string_view* bytes, BlockHandle* handle) {
  return TakeVarint64(bytes, &handle->offset) && TakeVarint64(bytes, &handle->size_bytes);
}

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_FORMAT_H_
