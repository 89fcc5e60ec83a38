#include "tensorcask/serialize/wire/shape_codec.h"

#include "tensorcask/serialize/wire/proto_fields.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

void EncodeShape(const TensorShape& shape, TensorShapeProto* out) {
  out->Clear();
  for (int axis = 0; axis < shape.rank(); ++axis) out->add_dim()->set_size(shape.dim(axis));
}

absl::StatusOr<TensorShape> DecodeShape(const TensorShapeProto& proto, const DecodeOptions& options) {
  internal::ShapeFields fields;
  CASK_RETURN_IF_ERROR(internal::ReadShape(proto, &fields));
  return internal::ShapeFromFields(fields, options.lenient);
}

}  // namespace tensorcask
