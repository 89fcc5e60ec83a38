// TensorShape and PartialTensorShape <-> TensorShapeProto.
//
//   EncodeShape(tensor.shape(), proto.mutable_tensor_shape());
//   CASK_ASSIGN_OR_RETURN(TensorShape shape, DecodeShape(proto.tensor_shape()));
//
//   EncodeShape(PartialTensorShape({-1, 224, 224, 3}), signature.mutable_tensor_shape());  // any batch size
//   CASK_ASSIGN_OR_RETURN(PartialTensorShape wanted, DecodePartialShape(signature.tensor_shape()));

#ifndef TENSORCASK_SERIALIZE_WIRE_SHAPE_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_SHAPE_CODEC_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/status/statusor.h"
#include "tensorcask/proto/tensor_shape.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/partial_shape.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

// Fills *out, which is cleared first. An unknown dim is written as size -1, an unknown rank as `unknown_rank` without
// dims, as TensorFlow writes them.
void EncodeShape(const TensorShape& shape, TensorShapeProto* out);
void EncodeShape(const PartialTensorShape& shape, TensorShapeProto* out);

// Drops the names of dims.
// Errors: InvalidArgument, naming the axis, for what TensorShape refuses, for `unknown_rank` (unless options.lenient)
// and for a known field of a wrong wire type.
absl::StatusOr<TensorShape> DecodeShape(const TensorShapeProto& proto, const DecodeOptions& options = {});

// Drops the names of dims.
// Errors: InvalidArgument, naming the axis, for what PartialTensorShape refuses (a dim below -1, more than 254 dims),
// for dims beside `unknown_rank` and for a known field of a wrong wire type.
absl::StatusOr<PartialTensorShape> DecodePartialShape(const TensorShapeProto& proto);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_SHAPE_CODEC_H_
