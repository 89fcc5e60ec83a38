// CRC-32 (ISO-HDLC), the checksum of zip archives, at memory speed.
//
//   uint32_t crc = Crc32(header);
//   crc = ExtendCrc32(crc, body);   // as if header and body were one string
//
// Polynomial 0x04C11DB7 reflected, initial value and final XOR 0xFFFFFFFF: Crc32("123456789") is 0xCBF43926, as zlib's
// crc32. With carry-less multiplication (tensor/base/cpu.h) long texts take a tenth of zlib's time.

#ifndef TENSORCASK_SERIALIZE_ZIP_CRC32_H_
#define TENSORCASK_SERIALIZE_ZIP_CRC32_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask {

// The checksum of A followed by `bytes`, where `crc` is that of A.
uint32_t ExtendCrc32(uint32_t crc, absl::string_view bytes);

// The checksum of `bytes`; 0 for none.
inline uint32_t Crc32(absl::string_view bytes) { return ExtendCrc32(0, bytes); }

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ZIP_CRC32_H_
