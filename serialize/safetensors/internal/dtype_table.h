// The dtypes of safetensors in the order in which the reference writer sorts tensors (FORMAT.md section 3).

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_DTYPE_TABLE_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_DTYPE_TABLE_H_

#include <cstddef>
#include <iterator>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::safetensors {

struct DTypeRow {
  DType dtype;
  absl::string_view name;
  int bits;
};

inline constexpr DTypeRow kDTypes[] = {
    {DType::kUint64, "U64", 64},
    {DType::kInt64, "I64", 64},
    {DType::kFloat64, "F64", 64},
    {DType::kComplex64, "C64", 64},
    {DType::kFloat32, "F32", 32},
    {DType::kUint32, "U32", 32},
    {DType::kInt32, "I32", 32},
    {DType::kBfloat16, "BF16", 16},
    {DType::kFloat16, "F16", 16},
    {DType::kUint16, "U16", 16},
    {DType::kInt16, "I16", 16},
    {DType::kFloat8E5m2fnuz, "F8_E5M2FNUZ", 8},
    {DType::kFloat8E4m3fnuz, "F8_E4M3FNUZ", 8},
    {DType::kFloat8E8m0fnu, "F8_E8M0", 8},
    {DType::kFloat8E4m3fn, "F8_E4M3", 8},
    {DType::kFloat8E5m2, "F8_E5M2", 8},
    {DType::kInt8, "I8", 8},
    {DType::kUint8, "U8", 8},
    {DType::kFloat6E3m2, "F6_E3M2", 6},
    {DType::kFloat6E2m3, "F6_E2M3", 6},
    {DType::kFloat4E2m1, "F4", 4},
    {DType::kBool, "BOOL", 8},
};

// The row of `dtype`, from 0; -1 if a file cannot hold it.
constexpr int DTypeRank(DType dtype) {
  for (size_t row = 0; row < std::size(kDTypes); ++row) {
    if (kDTypes[row].dtype == dtype) return static_cast<int>(row);
  }
  return -1;
}

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_DTYPE_TABLE_H_
