// The fixed parts of a table, shared by its writer and its reader (FORMAT.md section 3).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_FORMAT_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::checkpoint {

inline constexpr uint64_t kTableMagic = 0xdb4775248b80fb57;  // the last eight bytes, little-endian
inline constexpr size_t kFooterBytes = 48;
// Behind each block: its type, and the masked CRC-32C of block and type.
inline constexpr size_t kBlockTrailerBytes = 5;
inline constexpr char kRawBlock = 0;
inline constexpr char kSnappyBlock = 1;

// The offset and size of a block in the file, without its trailer.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

inline void AppendHandle(const BlockHandle& handle, std::string* out) {
  AppendVarint(handle.offset, out);
  AppendVarint(handle.size_bytes, out);
}

// Moves a handle from the front of *bytes to *handle. False if there is none: its varints are cut short or not
// canonical. *bytes and *handle are then unspecified.
inline bool ParseHandle(absl::string_view* bytes, BlockHandle* handle) {
  return ParseCanonicalVarint(bytes, &handle->offset) && ParseCanonicalVarint(bytes, &handle->size_bytes);
}

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_FORMAT_H_
