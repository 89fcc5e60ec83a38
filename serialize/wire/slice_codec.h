// TensorSlice <-> TensorSliceProto.
//
//   EncodeSlice(slice, request.mutable_slice());
//   CASK_ASSIGN_OR_RETURN(TensorSlice same, DecodeSlice(request.slice()));

#ifndef TENSORCASK_SERIALIZE_WIRE_SLICE_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_SLICE_CODEC_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/status/statusor.h"
#include "tensorcask/proto/tensor_slice.pb.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// Fills *out, which is cleared first. The extent of a whole axis is an empty message, as TensorFlow writes it.
void EncodeSlice(const TensorSlice& slice, TensorSliceProto* out);

// An extent without a length, or with length -1, is the whole axis.
// Errors: InvalidArgument, naming the axis, for what TensorSlice refuses and for a known field of a wrong wire type.
absl::StatusOr<TensorSlice> DecodeSlice(const TensorSliceProto& proto);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_SLICE_CODEC_H_
