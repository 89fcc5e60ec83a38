// TensorSlice <-> TensorSliceProto.

#ifndef TENSORCASK_SERIALIZE_WIRE_SLICE_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_SLICE_CODEC_H_

#include "absl/status/statusor.h"
#include "tensorcask/proto/tensor_slice.pb.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// Fills *out, which is cleared first. A full extent is an empty message, as TensorFlow writes it.
void EncodeSlice(const TensorSlice& slice, TensorSliceProto* out);

// An extent without length is full (length -1 too). Errors: InvalidArgument, naming the axis, for what TensorSlice
// refuses and for a known field of a wrong wire type.
absl::StatusOr<TensorSlice> DecodeSlice(const TensorSliceProto& proto);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_SLICE_CODEC_H_
