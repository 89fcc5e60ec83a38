// The messages of a V1 checkpoint, TensorFlow's first format (FORMAT.md section 11): the empty key holds the list of
// tensors and their pieces, each other key the values of a piece. Internal.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_FORMAT_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::checkpoint {

struct V1Tensor {
  std::string name;
  TensorSliceSet pieces;  // with the dtype and the shape; at least one
};

// The value under the empty key: all tensors, by name.
// Errors, without the name of the file: DataLoss for anything that TensorFlow does not write; Unimplemented if its
// versions exclude readers of version 1; ResourceExhausted past a limit. `memory`, if not null, is charged with the
// size of the result before it is allocated.
absl::StatusOr<std::vector<V1Tensor>> DecodeV1Meta(absl::string_view value, const DecodeLimits& limits,
                                                   DecodeQuota* memory = nullptr);

// Checks that `value` holds all of piece `slice` of `tensor`. Allocates nothing. Errors: those of DecodeV1Meta.
absl::Status CheckV1Piece(absl::string_view value, const V1Tensor& tensor, const TensorSlice& slice,
                          const DecodeLimits& limits);

// The same, and its elements. Requires: `slice` is one of tensor.pieces.
absl::StatusOr<Tensor> DecodeV1Piece(absl::string_view value, const V1Tensor& tensor, const TensorSlice& slice,
                                     const DecodeOptions& options);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_FORMAT_H_
