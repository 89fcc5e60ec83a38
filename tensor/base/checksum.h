// A checksum that is stored beside bytes: the algorithm and the value.
//
//   const Checksum stored = {ChecksumKind::kCrc32c, 0xe3069283};
//   uint32_t found = 0;
//   found = ExtendChecksum(stored.kind, found, "1234");
//   found = ExtendChecksum(stored.kind, found, "56789");
//   ChecksumAsStored(stored.kind, found) == stored.value;   // true
//
// A new algorithm is one row of the table in checksum.cc if its checksum of no bytes is 0. If that is another number
// (Adler-32: 1), `extend`, `copy_and_extend` and `combine` of the row work on the checksum less that number, and
// `as_stored` puts it back. The header of the arithmetic lies in tensor/base/internal, unless other rooms include it.
// The readers of the formats choose the kind, where they make a StoredTensor.

#ifndef TENSORCASK_TENSOR_BASE_CHECKSUM_H_
#define TENSORCASK_TENSOR_BASE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask {

enum class ChecksumKind : uint8_t {
  kNone,          // the bytes have no checksum
  kCrc32c,        // tensor/base/crc32c.h
  kMaskedCrc32c,  // the same, stored as MaskCrc32c
  kCrc32,         // tensor/base/crc32.h, of zip archives
};

struct Checksum {
  ChecksumKind kind = ChecksumKind::kNone;
  uint32_t value = 0;  // as it is stored

  bool exists() const { return kind != ChecksumKind::kNone; }
};

// Requires of the functions below: `kind` is not kNone. The checksum of no bytes is 0.

// The checksum of A followed by `bytes`, where `before` is that of A.
uint32_t ExtendChecksum(ChecksumKind kind, uint32_t before, absl::string_view bytes);
// The same in one pass with a copy of the bytes, which must not overlap.
uint32_t CopyAndExtendChecksum(ChecksumKind kind, uint32_t before, const void* source, void* destination, size_t bytes);
// The checksum of A followed by B, where B has `b_bytes` bytes: joins what threads computed apart.
uint32_t CombineChecksums(ChecksumKind kind, uint32_t a, uint32_t b, uint64_t b_bytes);

// What is stored for the checksum `computed`.
uint32_t ChecksumAsStored(ChecksumKind kind, uint32_t computed);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CHECKSUM_H_
