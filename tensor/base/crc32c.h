// CRC-32C (Castagnoli), the checksum of TensorFlow's checkpoints and record files, at memory speed.
//
//   uint32_t crc = Crc32c(header);
//   crc = ExtendCrc32c(crc, body);          // as if header and body were one string
//   StoreLittleEndian(MaskCrc32c(crc), trailer);
//
// Polynomial 0x1EDC6F41 reflected, initial value and final XOR 0xFFFFFFFF (RFC 3720, B.4): Crc32c("123456789") is
// 0xE3069283. All kernels give the same numbers: carry-less multiplication in AVX-512 or AVX2 registers, three
// interleaved streams of the crc32 instruction of SSE4.2 or ARMv8, and tables (internal/crc32c_kernels.h).

#ifndef TENSORCASK_TENSOR_BASE_CRC32C_H_
#define TENSORCASK_TENSOR_BASE_CRC32C_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask {

// The checksum of `bytes`; 0 for none.
uint32_t Crc32c(absl::string_view bytes);

// The checksum of A followed by `bytes`, where `crc` is that of A.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

// The checksum of A followed by B, where B has `b_bytes` bytes: joins what threads computed apart.
uint32_t CombineCrc32c(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes);

// Copies `bytes` bytes (no overlap) and returns the checksum extended over them, in one pass. From 8 MiB on the copy
// uses non-temporal stores, as memcpy does for large blocks.
uint32_t CopyAndExtendCrc32c(uint32_t crc, const void* source, void* destination, size_t bytes);

// The form stored in files: rotated and offset, so that a checksum over stored checksums stays meaningful
// (LevelDB, doc/table_format.md).
constexpr uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }
constexpr uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8U;
  return (rotated >> 17) | (rotated << 15);
}

namespace internal {
// The code that runs without SSE4.2; for tests and benchmarks.
uint32_t ExtendCrc32cPortable(uint32_t crc, absl::string_view bytes);
}  // namespace internal

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_CRC32C_H_
