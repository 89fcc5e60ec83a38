// What one call decodes from a file, held against DecodeLimits::max_file_decoded_bytes.
//
//   DecodedBytes decoded(options.limits);
//   CASK_RETURN_IF_ERROR(decoded.Take(DecodedSize(DType::kFloat32, 1000, stored_bytes)));   // 4000 bytes more
//
// Everything that a call reads takes from one of these before it takes memory.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_DECODED_BYTES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_DECODED_BYTES_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::checkpoint {

// What `elements` (>= 0) take in memory, as far as can be told without reading them: of strings and variants the
// objects, and once what is stored, which are the characters of strings. 2^64 - 1 for that much or more.
uint64_t DecodedSize(DType dtype, int64_t elements, uint64_t stored_bytes);

// The sum of two sizes; 2^64 - 1 for that much or more.
uint64_t AddSizes(uint64_t a, uint64_t b);

// Thread-safe.
class DecodedBytes {
 public:
  explicit DecodedBytes(const DecodeLimits& limits);

  // Errors: ResourceExhausted, without a name, if `bytes` and what was taken before are past the limit; nothing is
  // taken then.
  absl::Status Take(uint64_t bytes);

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> taken_{0};  // <= limit_
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_DECODED_BYTES_H_
