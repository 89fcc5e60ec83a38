#include "tensorcask/serialize/onnx/dtypes.h"

#include "tensorcask/serialize/onnx/internal/type_table.h"

namespace tensorcask {

DType OnnxDType(int64_t data_type) {
  const onnx::TypeRow* const type = onnx::FindType(data_type);
  return type != nullptr ? type->dtype : DType::kInvalid;
}

absl::string_view OnnxTypeName(int64_t data_type) {
  const onnx::TypeRow* const type = onnx::FindType(data_type);
  return type != nullptr ? type->name : "";
}

int OnnxTypeBits(int64_t data_type) {
  const onnx::TypeRow* const type = onnx::FindType(data_type);
  return type != nullptr ? type->bits : 0;
}

}  // namespace tensorcask
