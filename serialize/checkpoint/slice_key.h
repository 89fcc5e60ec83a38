// The key under which a piece of a sliced tensor stands in the index: name and slice in TensorFlow's ordered code
// (FORMAT.md section 4.4; tensorflow/core/util/saved_tensor_slice_util.cc, lib/strings/ordered_code.cc).
//
//   EncodeSliceKey("foo", *TensorSlice::Parse("-:-:1,3:4,5"))   // 00 666f6f0001 0104 807f 807f 8183 8485
//
// Keys of slices begin with a NUL byte, and so stand before all names. Names and slices of rank 0 have keys like any
// other: V1 checkpoints hold scalars so; in an index they do not occur, for the one piece of a scalar is the whole of
// it.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_SLICE_KEY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_SLICE_KEY_H_

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

// Errors: DataLoss, without the name of the file, for anything that EncodeSliceKey does not write: each name and slice
// has one key.
absl::StatusOr<SliceKey> DecodeSliceKey(absl::string_view key);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_SLICE_KEY_H_
