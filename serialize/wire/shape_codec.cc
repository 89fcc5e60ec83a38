#include "tensorcask/serialize/wire/shape_codec.h"

#include <cstdint>

#include "tensorcask/serialize/wire/message/proto_fields.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

void EncodeShape(const TensorShape& shape, TensorShapeProto* out) {
  out->Clear();
  for (int axis = 0; axis < shape.rank(); ++axis) out->add_dim()->set_size(shape.dim(axis));
}

void EncodeShape(const PartialTensorShape& shape, TensorShapeProto* out) {
  out->Clear();
  for (const int64_t size : shape.dims()) out->add_dim()->set_size(size);
  out->set_unknown_rank(!shape.has_rank());
}

absl::StatusOr<TensorShape> DecodeShape(const TensorShapeProto& proto, const DecodeOptions& options) {
  internal::ShapeFields fields;
  CASK_RETURN_IF_ERROR(internal::ReadShape(proto, &fields));
  return internal::ShapeFromFields(fields, options.lenient);
}

absl::StatusOr<PartialTensorShape> DecodePartialShape(const TensorShapeProto& proto) {
  internal::ShapeFields fields;
  CASK_RETURN_IF_ERROR(internal::ReadShape(proto, &fields));
  return internal::PartialShapeFromFields(fields);
}

}  // namespace tensorcask
