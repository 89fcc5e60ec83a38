// TensorShape <-> TensorShapeProto.
//
//   EncodeShape(tensor.shape(), proto.mutable_tensor_shape());
//   CASK_ASSIGN_OR_RETURN(TensorShape shape, DecodeShape(proto.tensor_shape()));

#ifndef TENSORCASK_SERIALIZE_WIRE_SHAPE_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_SHAPE_CODEC_H_

#include "absl/status/statusor.h"
#include "tensorcask/proto/tensor_shape.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

// Fills *out, which is cleared first.
void EncodeShape(const TensorShape& shape, TensorShapeProto* out);

// Dim names are dropped. Errors: InvalidArgument, naming the axis, for what TensorShape refuses, for unknown_rank
// (unless lenient) and for a known field of a wrong wire type.
absl::StatusOr<TensorShape> DecodeShape(const TensorShapeProto& proto, const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_SHAPE_CODEC_H_
