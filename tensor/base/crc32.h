// CRC-32 (ISO-HDLC), the checksum of zip archives, at memory speed.
//
//   uint32_t crc = Crc32(header);
//   crc = ExtendCrc32(crc, body);   // as if header and body were one string
//
// Polynomial 0x04C11DB7 reflected, initial value and final XOR 0xFFFFFFFF: Crc32("123456789") is 0xCBF43926, as zlib's
// crc32. With carry-less multiplication (cpu.h) long texts take a tenth of zlib's time; other processors use tables
// (internal/crc_math.h).

#ifndef TENSORCASK_TENSOR_BASE_CRC32_H_
#define TENSORCASK_TENSOR_BASE_CRC32_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask {

// The checksum of A followed by `bytes`, where `crc` is that of A.
uint32_t ExtendCrc32(uint32_t crc, absl::string_view bytes);

// The checksum of A followed by B, where B has `b_bytes` bytes: joins what threads computed apart.
uint32_t CombineCrc32(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes);

// Copies `bytes` bytes (no overlap) and returns the checksum extended over them, in one pass.
uint32_t CopyAndExtendCrc32(uint32_t crc, const void* source, void* destination, size_t bytes);

// The checksum of `bytes`; 0 for none.
inline uint32_t Crc32(absl::string_view bytes) { return ExtendCrc32(0, bytes); }

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CRC32_H_
