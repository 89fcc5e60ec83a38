// How many bytes tensors of a checkpoint take once they are decoded. DecodeQuota (serialize/io/decode_quota.h)
// holds such sizes against the limits.
//
//   quota.Charge(DecodedSize(DType::kFloat32, 1000, stored_bytes));   // 4000

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_DECODED_BYTES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_DECODED_BYTES_H_

#include <cstdint>

#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::checkpoint {

// The bytes that `elements` (>= 0) take in memory, as far as the index tells: for fixed-size dtypes the elements; for
// strings and variants the objects and `stored_bytes`, which for strings are the characters. DecodeQuota::kTooMany if
// the sum does not fit 64 bits.
uint64_t DecodedSize(DType dtype, int64_t elements, uint64_t stored_bytes);

// The sum of two sizes; DecodeQuota::kTooMany if it does not fit 64 bits.
uint64_t AddSizes(uint64_t a, uint64_t b);

// How many bytes all encoded entries that share one range of `stored_bytes` in a data file may decode to
// (PayloadHeader::decoded_bytes): max_expansion times the range. So a checkpoint never decodes to more than
// max_expansion times its data files.
uint64_t MaxDecodedBytes(uint64_t stored_bytes, const DecodeLimits& limits);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_DECODED_BYTES_H_
