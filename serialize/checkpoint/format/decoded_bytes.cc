#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"

#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/checked_math.h"

namespace tensorcask::checkpoint {
uint64_t AddSizes(uint64_t a, uint64_t b) { return CheckedAdd(a, b).value_or(DecodeQuota::kTooMany); }

uint64_t DecodedSize(DType dtype, int64_t elements, uint64_t stored_bytes) {
  const uint64_t bytes =
      CheckedMul(static_cast<uint64_t>(elements), uint64_t{ObjectBytes(dtype)}).value_or(DecodeQuota::kTooMany);
  return IsObject(dtype) ? AddSizes(bytes, stored_bytes) : bytes;
}

uint64_t MaxDecodedBytes(uint64_t stored_bytes, const DecodeLimits& limits) {
  return CheckedMul(stored_bytes, LimitOf(limits.max_expansion)).value_or(DecodeQuota::kTooMany);
}

}  // namespace tensorcask::checkpoint
