// The bytes of zstd frames, decoded to memory.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_ZSTD_ITEM_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_ZSTD_ITEM_H_

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::torch {

// All of `source`, which is one frame or several. Memory grows with the bytes that are decoded, which are charged to
// `quota`. Errors, after which nothing is charged: DataLoss if a frame is damaged or cut short; ResourceExhausted past
// max_expansion times the stored bytes or past the quota; those of the source.
absl::StatusOr<RefPtr<TensorBuffer>> DecodeZstd(const ByteSource& source, const DecodeLimits& limits,
                                                DecodeQuota* quota);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_ZSTD_ITEM_H_
