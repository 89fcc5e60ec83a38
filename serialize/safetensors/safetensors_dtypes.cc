#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"

#include "tensorcask/serialize/safetensors/internal/dtype_table.h"

namespace tensorcask {

absl::string_view SafetensorsDTypeName(DType dtype) {
  const int rank = safetensors::DTypeRank(dtype);
  return rank < 0 ? absl::string_view() : safetensors::kDTypes[rank].name;
}

DType DTypeOfSafetensorsName(absl::string_view name) {
  for (const safetensors::DTypeRow& row : safetensors::kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return DType::kInvalid;
}

int SafetensorsDTypeBits(DType dtype) {
  const int rank = safetensors::DTypeRank(dtype);
  return rank < 0 ? 0 : safetensors::kDTypes[rank].bits;
}

}  // namespace tensorcask
