// The data types of ONNX's TensorProto.
//
//   OnnxDType(16)       // bfloat16
//   OnnxTypeName(16)    // "BFLOAT16"
//   OnnxTypeBits(22)    // 4: two elements of INT4 share a byte of raw_data
//
// The table is that of ONNX 1.23 (IR version 14): the numbers 1 to 28. FORMAT.md section 3 prints it.

#ifndef TENSORCASK_SERIALIZE_ONNX_DTYPES_H_
#define TENSORCASK_SERIALIZE_ONNX_DTYPES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

// The dtype and the name of a data type. For numbers that ONNX does not define: kInvalid, "" and 0 bits.
DType OnnxDType(int64_t data_type);
absl::string_view OnnxTypeName(int64_t data_type);
// Bits of one element in raw_data; 0 for STRING, too.
int OnnxTypeBits(int64_t data_type);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ONNX_DTYPES_H_
