#include "tensorcask/serialize/wire/message/tensor_fields.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::internal {

absl::StatusOr<TensorShape> ShapeFromFields(const ShapeFields& fields, bool lenient) {
  if (fields.num_axes > ShapeFields::kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor_shape has ", fields.num_axes, " dims; a tensor has at most ", ShapeFields::kMaxDims));
  }
  if (fields.unknown_rank && !lenient) {
    return absl::InvalidArgumentError("tensor_shape says unknown_rank; a tensor needs a full shape");
  }
  absl::StatusOr<TensorShape> shape = TensorShape::Create(fields.dims);
  if (shape.ok()) return shape;
  return Annotate(shape.status(), "tensor_shape");
}

absl::StatusOr<PartialTensorShape> PartialShapeFromFields(const ShapeFields& fields) {
  if (fields.unknown_rank) {
    if (fields.num_axes == 0) return PartialTensorShape();
    return absl::InvalidArgumentError(absl::StrCat("shape says unknown_rank and has ", fields.num_axes, " dims"));
  }
  if (fields.num_axes > ShapeFields::kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape has ", fields.num_axes, " dims; a tensor has at most ", ShapeFields::kMaxDims));
  }
  absl::StatusOr<PartialTensorShape> shape = PartialTensorShape::Create(fields.dims);
  if (shape.ok()) return shape;
  return Annotate(shape.status(), "shape");
}

absl::string_view ValueFieldName(ValueField field) { return kTensorRules.Find(static_cast<uint32_t>(field))->name; }

}  // namespace tensorcask::internal
