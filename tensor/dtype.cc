#include "tensorcask/tensor/dtype.h"

#include <array>
#include <cstdint>
#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask {
namespace {

// The names of a dtype in other libraries; empty if a library has no name for it.
struct Spelling {
  DType dtype;
  absl::string_view tensorflow;   // DataTypeString (types.cc); in capitals after "DT_" the name in types.proto
  absl::string_view numpy;        // without the mark of its byte order
  absl::string_view safetensors;  // "dtype" in the header
  absl::string_view ml_dtypes;    // where it differs from ours
};

constexpr Spelling kSpellings[] = {
    {DType::kFloat32, "float", "f4", "F32", ""},
    {DType::kFloat64, "double", "f8", "F64", ""},
    {DType::kInt32, "int32", "i4", "I32", ""},
    {DType::kUint8, "uint8", "u1", "U8", ""},
    {DType::kInt16, "int16", "i2", "I16", ""},
    {DType::kInt8, "int8", "i1", "I8", ""},
    {DType::kString, "string", "", "", ""},
    {DType::kComplex64, "complex64", "c8", "C64", ""},
    {DType::kInt64, "int64", "i8", "I64", ""},
    {DType::kBool, "bool", "b1", "BOOL", ""},
    {DType::kQint8, "qint8", "", "", ""},
    {DType::kQuint8, "quint8", "", "", ""},
    {DType::kQint32, "qint32", "", "", ""},
    {DType::kBfloat16, "bfloat16", "", "BF16", ""},
    {DType::kQint16, "qint16", "", "", ""},
    {DType::kQuint16, "quint16", "", "", ""},
    {DType::kUint16, "uint16", "u2", "U16", ""},
    {DType::kComplex128, "complex128", "c16", "", ""},
    {DType::kFloat16, "half", "f2", "F16", ""},
    {DType::kResource, "resource", "", "", ""},
    {DType::kVariant, "variant", "", "", ""},
    {DType::kUint32, "uint32", "u4", "U32", ""},
    {DType::kUint64, "uint64", "u8", "U64", ""},
    {DType::kFloat8E5m2, "float8_e5m2", "", "F8_E5M2", ""},
    {DType::kFloat8E4m3fn, "float8_e4m3fn", "", "F8_E4M3", ""},  // safetensors means the fn kind
    {DType::kFloat8E4m3fnuz, "float8_e4m3fnuz", "", "F8_E4M3FNUZ", ""},
    {DType::kFloat8E4m3b11fnuz, "float8_e4m3b11fnuz", "", "", ""},
    {DType::kFloat8E5m2fnuz, "float8_e5m2fnuz", "", "F8_E5M2FNUZ", ""},
    {DType::kInt4, "int4", "", "", ""},
    {DType::kUint4, "uint4", "", "", ""},
    {DType::kInt2, "int2", "", "", ""},
    {DType::kUint2, "uint2", "", "", ""},
    {DType::kFloat8E8m0fnu, "", "", "F8_E8M0", ""},
    {DType::kFloat4E2m1, "", "", "F4", "float4_e2m1fn"},
    {DType::kFloat6E2m3, "", "", "F6_E2M3", "float6_e2m3fn"},
    {DType::kFloat6E3m2, "", "", "F6_E3M2", "float6_e3m2fn"},
    {DType::kFloat8E4m3, "", "", "", ""},
    {DType::kFloat8E3m4, "", "", "", ""},
};

#define CASK_COUNT(id, number, T, name) +1
static_assert(sizeof(kSpellings) / sizeof(kSpellings[0]) == CASK_FIXED_SIZE_DTYPES(CASK_COUNT) + 3,
              "each dtype has a row: those of fixed size, string, resource and variant");
#undef CASK_COUNT

// The longest spelling is "DT_FLOAT8_E4M3B11FNUZ".
constexpr size_t kMaxSpellingBytes = 21;

bool IsSpelledTensorFlowEnum(absl::string_view text, const Spelling& row) {
  return absl::ConsumePrefix(&text, "DT_") && !row.tensorflow.empty() && text == absl::AsciiStrToUpper(row.tensorflow);
}

// "f4", or with a mark: '<' little-endian, '=' native (the same here), '|' of one byte and so without an order.
bool IsSpelledNumPy(absl::string_view text, const Spelling& row) {
  if (row.numpy.empty() || text.empty()) return false;
  if (text[0] == '<' || text[0] == '=' || (text[0] == '|' && ElementSize(row.dtype) == 1)) text.remove_prefix(1);
  return text == row.numpy || (row.dtype == DType::kBool && text == "?");
}

}  // namespace

std::optional<DType> DTypeFromNumber(int64_t number) {
  switch (number) {
#define CASK_CASE(id, dtype_number, T, name) \
  case dtype_number:                         \
    return DType::id;
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
    case static_cast<int64_t>(DType::kString):
      return DType::kString;
    case static_cast<int64_t>(DType::kResource):
      return DType::kResource;
    case static_cast<int64_t>(DType::kVariant):
      return DType::kVariant;
    default:
      return std::nullopt;
  }
}

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
#define CASK_CASE(id, number, T, name) \
  case DType::id:                      \
    return name;
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
    case DType::kString:
      return "string";
    case DType::kResource:
      return "resource";
    case DType::kVariant:
      return "variant";
    case DType::kInvalid:
      break;
  }
  return "invalid";
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << DTypeName(dtype); }

absl::StatusOr<DType> ParseDType(absl::string_view text) {
  if (text.size() <= kMaxSpellingBytes && !text.empty()) {
    for (const Spelling& row : kSpellings) {
      if (text == DTypeName(row.dtype) || text == row.tensorflow || text == row.safetensors || text == row.ml_dtypes ||
          IsSpelledTensorFlowEnum(text, row) || IsSpelledNumPy(text, row)) {
        return row.dtype;
      }
    }
    if (text[0] == '>') {
      return absl::InvalidArgumentError(absl::StrCat("dtype ", Quoted(text), " is big-endian; dtypes are native"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("no dtype is called ", Quoted(text)));
}

size_t ElementAlignment(DType dtype) {
  switch (dtype) {
#define CASK_CASE(id, number, T, name) \
  case DType::id:                      \
    return alignof(T);
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
    case DType::kString:
      return alignof(std::string);
    case DType::kResource:
      return alignof(uint64_t);
    case DType::kVariant:
      return alignof(std::string);
    case DType::kInvalid:
      break;
  }
  return 1;
}

bool IsFloating(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kBfloat16:
    case DType::kFloat16:
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kFloat8E8m0fnu:
    case DType::kFloat4E2m1:
    case DType::kFloat6E2m3:
    case DType::kFloat6E3m2:
    case DType::kFloat8E4m3:
    case DType::kFloat8E3m4:
      return true;
    default:
      return false;
  }
}

bool IsInteger(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
    case DType::kUint8:
    case DType::kInt16:
    case DType::kInt8:
    case DType::kInt64:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
    case DType::kInt4:
    case DType::kUint4:
    case DType::kInt2:
    case DType::kUint2:
      return true;
    default:
      return false;
  }
}

bool IsComplex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

bool IsQuantized(DType dtype) {
  switch (dtype) {
    case DType::kQint8:
    case DType::kQuint8:
    case DType::kQint16:
    case DType::kQuint16:
    case DType::kQint32:
      return true;
    default:
      return false;
  }
}

}  // namespace tensorcask
