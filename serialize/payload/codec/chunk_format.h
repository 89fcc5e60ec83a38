// The numbers of a coded chunk's header (FORMAT.md section 3), which its encoder and its decoder share.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_CHUNK_FORMAT_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_CHUNK_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::payload {

constexpr uint8_t kChunkRotated = 1;
constexpr uint8_t kChunkZeroBitmap = 2;
constexpr uint8_t kChunkBits = 4;
constexpr uint8_t kChunkDifferences = 8;

constexpr size_t kChunkHeaderBytes = 8;  // flags, reserved, values; one entry a plane follows
constexpr size_t kPlaneEntryBytes = 4;   // size in the low 24 bits, kind in the high 8
constexpr int kMaxPlanes = 9;            // a bitmap, and one for each byte of a number

constexpr size_t kMaxChunkBytes = size_t{1} << 22;

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_CHUNK_FORMAT_H_
