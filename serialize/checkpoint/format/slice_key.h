// The key of a piece of a sliced tensor in the index: name and slice in TensorFlow's ordered code
// (FORMAT.md section 4.4; tensorflow/core/util/saved_tensor_slice_util.cc, lib/strings/ordered_code.cc).
//
//   EncodeSliceKey("foo", *TensorSlice::Parse("-:-:1,3:4,5"))   // 00 666f6f0001 0104 807f 807f 8183 8485
//
// Keys of slices begin with a NUL byte and so come before all names. Slices of rank 0 have keys too: V1 checkpoints
// store scalars under them. A bundle has none, since the only piece of a scalar is the whole scalar.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_SLICE_KEY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_SLICE_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {

struct SliceKey {
  std::string name;
  TensorSlice slice;
};

std::string EncodeSliceKey(absl::string_view name, const TensorSlice& slice);

// Errors: DataLoss, without the name of the file, for bytes that EncodeSliceKey does not write. So each name and slice
// have one key.
absl::StatusOr<SliceKey> DecodeSliceKey(absl::string_view key);

// Keys of pieces begin with a NUL byte, names do not.
inline bool IsPieceKey(absl::string_view key) { return !key.empty() && key[0] == '\0'; }

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_SLICE_KEY_H_
