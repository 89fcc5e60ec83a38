// The dtypes of safetensors files and their names there.
//
//   SafetensorsDTypeName(DType::kBfloat16)    // "BF16"
//   SafetensorsDTypeName(DType::kString)      // "": a safetensors file cannot hold strings
//   SafetensorsDTypeBits(DType::kFloat4E2m1)  // 4: two elements share a byte of the file
//
// The table is that of safetensors 0.8 (safetensors/src/tensor.rs); FORMAT.md section 3 prints it. No safetensors file
// can hold: string, resource, variant, complex128, float8_e4m3, float8_e3m4, float8_e4m3b11fnuz, int4, uint4, int2,
// uint2 and the quantized types.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_DTYPES_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_DTYPES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

// "F32" for float32; empty if a safetensors file cannot hold `dtype`.
absl::string_view SafetensorsDTypeName(DType dtype);

// The dtype that a file calls `name`; kInvalid for any other text. (ParseDType takes more spellings.)
DType DTypeOfSafetensorsName(absl::string_view name);

// Bits of one element in a file; 0 if a safetensors file cannot hold `dtype`. Below 8 the elements are packed: element
// i has the bits from i * bits on, where bit 0 is the lowest bit of byte 0. In memory each element has a byte of its
// own.
int SafetensorsDTypeBits(DType dtype);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_SAFETENSORS_DTYPES_H_
