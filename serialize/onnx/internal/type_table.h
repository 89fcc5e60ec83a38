// The rows of ONNX's data types: the dtype, and in which field of TensorProto the values are if they are not raw.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_TYPE_TABLE_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_TYPE_TABLE_H_

#include <cstdint>
#include <limits>

#include "tensorcask/tensor/dtype.h"

namespace tensorcask::onnx {

// Numbers of fields of TensorProto.
enum TensorField : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kDocString = 12,
  kExternalData = 13,
  kDataLocation = 14,
  kMetadataProps = 16,
};

struct TypeRow {
  int number;
  const char* name;
  DType dtype;
  int bits;         // the width of an element in raw_data
  uint32_t field;   // the field of the values
  int value_bytes;  // that one value of the field gives to raw_data; a byte for 6 bits, which raw_data packs
  int64_t min;      // for a value that is an integer
  uint64_t max;
};

inline constexpr int64_t kInt32Min = std::numeric_limits<int32_t>::min();
inline constexpr uint64_t kInt32Max = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
inline constexpr uint64_t kInt64Max = std::numeric_limits<int64_t>::max();
inline constexpr uint64_t kUint64Max = std::numeric_limits<uint64_t>::max();

// By number, from 1. A complex number is two values.
inline constexpr TypeRow kTypes[] = {
    {1, "FLOAT", DType::kFloat32, 32, kFloatData, 4, 0, 0},
    {2, "UINT8", DType::kUint8, 8, kInt32Data, 1, 0, 0xff},
    {3, "INT8", DType::kInt8, 8, kInt32Data, 1, -0x80, 0x7f},
    {4, "UINT16", DType::kUint16, 16, kInt32Data, 2, 0, 0xffff},
    {5, "INT16", DType::kInt16, 16, kInt32Data, 2, -0x8000, 0x7fff},
    {6, "INT32", DType::kInt32, 32, kInt32Data, 4, kInt32Min, kInt32Max},
    {7, "INT64", DType::kInt64, 64, kInt64Data, 8, kInt64Min, kInt64Max},
    {8, "STRING", DType::kString, 0, kStringData, 0, 0, 0},
    {9, "BOOL", DType::kBool, 8, kInt32Data, 1, 0, 1},
    {10, "FLOAT16", DType::kFloat16, 16, kInt32Data, 2, 0, 0xffff},
    {11, "DOUBLE", DType::kFloat64, 64, kDoubleData, 8, 0, 0},
    {12, "UINT32", DType::kUint32, 32, kUint64Data, 4, 0, 0xffff'ffff},
    {13, "UINT64", DType::kUint64, 64, kUint64Data, 8, 0, kUint64Max},
    {14, "COMPLEX64", DType::kComplex64, 64, kFloatData, 4, 0, 0},
    {15, "COMPLEX128", DType::kComplex128, 128, kDoubleData, 8, 0, 0},
    {16, "BFLOAT16", DType::kBfloat16, 16, kInt32Data, 2, 0, 0xffff},
    {17, "FLOAT8E4M3FN", DType::kFloat8E4m3fn, 8, kInt32Data, 1, 0, 0xff},
    {18, "FLOAT8E4M3FNUZ", DType::kFloat8E4m3fnuz, 8, kInt32Data, 1, 0, 0xff},
    {19, "FLOAT8E5M2", DType::kFloat8E5m2, 8, kInt32Data, 1, 0, 0xff},
    {20, "FLOAT8E5M2FNUZ", DType::kFloat8E5m2fnuz, 8, kInt32Data, 1, 0, 0xff},
    {21, "UINT4", DType::kUint4, 4, kInt32Data, 1, 0, 0xff},
    {22, "INT4", DType::kInt4, 4, kInt32Data, 1, 0, 0xff},
    {23, "FLOAT4E2M1", DType::kFloat4E2m1, 4, kInt32Data, 1, 0, 0xff},
    {24, "FLOAT8E8M0", DType::kFloat8E8m0fnu, 8, kInt32Data, 1, 0, 0xff},
    {25, "UINT2", DType::kUint2, 2, kInt32Data, 1, 0, 0xff},
    {26, "INT2", DType::kInt2, 2, kInt32Data, 1, 0, 0xff},
    {27, "FLOAT6E2M3", DType::kFloat6E2m3, 6, kInt32Data, 1, 0, 0x3f},
    {28, "FLOAT6E3M2", DType::kFloat6E3m2, 6, kInt32Data, 1, 0, 0x3f},
};

// Null for numbers that ONNX does not define.
constexpr const TypeRow* FindType(int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(sizeof(kTypes) / sizeof(kTypes[0]))) return nullptr;
  return &kTypes[number - 1];
}

// True if values of the type's field hold several elements: those of 2 and 4 bits, packed as in raw_data.
constexpr bool ValuesArePacked(const TypeRow& type) { return type.bits == 2 || type.bits == 4; }

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_TYPE_TABLE_H_
