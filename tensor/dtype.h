// The type of a tensor's elements.
//
//   DType dtype = DType::kFloat32;
//   ElementSize(dtype)                // 4 bytes
//   DTypeName(dtype)                  // "float32"
//   ParseDType("DT_BFLOAT16")         // kBfloat16; also "bfloat16", "BF16", "f4", ...
//   kDTypeOf<float>                   // kFloat32
//
// Numbers up to 63 are those of TensorFlow's DataType (tensorflow/core/framework/types.proto), which its messages and
// files store. Numbers from 64 are this library's own, and never stored in a field that TensorFlow reads.

#ifndef TENSORCASK_TENSOR_DTYPE_H_
#define TENSORCASK_TENSOR_DTYPE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/float_types.h"

// The dtypes whose elements have a fixed size: X(enumerator, number, C++ type, name). This is the only list; code that
// needs all dtypes expands it.
#define CASK_FIXED_SIZE_DTYPES(X)                                     \
  X(kFloat32, 1, float, "float32")                                    \
  X(kFloat64, 2, double, "float64")                                   \
  X(kInt32, 3, int32_t, "int32")                                      \
  X(kUint8, 4, uint8_t, "uint8")                                      \
  X(kInt16, 5, int16_t, "int16")                                      \
  X(kInt8, 6, int8_t, "int8")                                         \
  X(kComplex64, 8, std::complex<float>, "complex64")                  \
  X(kInt64, 9, int64_t, "int64")                                      \
  X(kBool, 10, bool, "bool")                                          \
  X(kQint8, 11, qint8, "qint8")                                       \
  X(kQuint8, 12, quint8, "quint8")                                    \
  X(kQint32, 13, qint32, "qint32")                                    \
  X(kBfloat16, 14, bfloat16, "bfloat16")                              \
  X(kQint16, 15, qint16, "qint16")                                    \
  X(kQuint16, 16, quint16, "quint16")                                 \
  X(kUint16, 17, uint16_t, "uint16")                                  \
  X(kComplex128, 18, std::complex<double>, "complex128")              \
  X(kFloat16, 19, float16, "float16")                                 \
  X(kUint32, 22, uint32_t, "uint32")                                  \
  X(kUint64, 23, uint64_t, "uint64")                                  \
  X(kFloat8E5m2, 24, float8_e5m2, "float8_e5m2")                      \
  X(kFloat8E4m3fn, 25, float8_e4m3fn, "float8_e4m3fn")                \
  X(kFloat8E4m3fnuz, 26, float8_e4m3fnuz, "float8_e4m3fnuz")          \
  X(kFloat8E4m3b11fnuz, 27, float8_e4m3b11fnuz, "float8_e4m3b11fnuz") \
  X(kFloat8E5m2fnuz, 28, float8_e5m2fnuz, "float8_e5m2fnuz")          \
  X(kInt4, 29, int4, "int4")                                          \
  X(kUint4, 30, uint4, "uint4")                                       \
  X(kInt2, 31, int2, "int2")                                          \
  X(kUint2, 32, uint2, "uint2")                                       \
  X(kFloat8E8m0fnu, 64, float8_e8m0fnu, "float8_e8m0fnu")             \
  X(kFloat4E2m1, 65, float4_e2m1, "float4_e2m1")                      \
  X(kFloat6E2m3, 66, float6_e2m3, "float6_e2m3")                      \
  X(kFloat6E3m2, 67, float6_e3m2, "float6_e3m2")                      \
  X(kFloat8E4m3, 68, float8_e4m3, "float8_e4m3")                      \
  X(kFloat8E3m4, 69, float8_e3m4, "float8_e3m4")

namespace tensorcask {

struct ResourceHandle;  // resource_handle.h
struct Variant;         // variant.h

enum class DType : uint8_t {
  kInvalid = 0,
#define CASK_ENUMERATOR(id, number, T, name) id = (number),
  CASK_FIXED_SIZE_DTYPES(CASK_ENUMERATOR)
#undef CASK_ENUMERATOR
      kString = 7,        // elements are std::string: any bytes
  kResource = 20,         // ResourceHandle: TensorFlow's handles to state elsewhere
  kVariant = 21,          // Variant: TensorFlow's containers of tensors
  kBFloat16 = kBfloat16,  // other names of the same dtypes
  kHalf = kFloat16,
};

// The first number that is this library's own and not TensorFlow's.
inline constexpr int kFirstOwnDTypeNumber = 64;

// The DType with this number; empty if no DType has it (0, gaps, TensorFlow's reference types 101 to 132).
std::optional<DType> DTypeFromNumber(int64_t number);
inline int DTypeNumber(DType dtype) { return static_cast<int>(dtype); }

// "float32", "bfloat16", "string"; "invalid" for kInvalid.
absl::string_view DTypeName(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);  // DTypeName

// The dtype that `text` names in the spelling of DTypeName, TensorFlow ("DT_FLOAT", "float", "half"), NumPy ("f4",
// "<f4", "=f4", "|u1", "?", "float32"; ml_dtypes' "float4_e2m1fn") or safetensors ("F32", "BF16", "F8_E4M3"). Where two
// disagree: "float" is TensorFlow's float32 (NumPy's is float64), "F8_E4M3" is float8_e4m3fn, "i8" is NumPy's int64.
// Upper and lower case differ.
// Errors: InvalidArgument, quoting the text, also for big-endian types (">f4").
absl::StatusOr<DType> ParseDType(absl::string_view text);

namespace internal {
// Indexed by DTypeNumber.
inline constexpr std::array<uint8_t, 256> kElementSizes = [] {
  std::array<uint8_t, 256> sizes = {};
#define CASK_SIZE(id, number, T, name) sizes[number] = sizeof(T);
  CASK_FIXED_SIZE_DTYPES(CASK_SIZE)
#undef CASK_SIZE
  return sizes;
}();
}  // namespace internal

// Bytes of one element in memory; 0 for kInvalid and for dtypes without a fixed size (string, resource, variant).
constexpr size_t ElementSize(DType dtype) { return internal::kElementSizes[static_cast<uint8_t>(dtype)]; }

// True for dtypes whose elements are C++ objects and not plain bytes: string, resource, variant.
constexpr bool IsObject(DType dtype) {
  return dtype == DType::kString || dtype == DType::kResource || dtype == DType::kVariant;
}

// sizeof(ResourceHandle) and sizeof(Variant). Their headers include this one, and assert these values.
inline constexpr size_t kResourceHandleBytes =
    4 * sizeof(std::string) + sizeof(uint64_t) + sizeof(std::vector<ResourceHandle>);
inline constexpr size_t kVariantBytes = 2 * sizeof(std::string) + sizeof(std::vector<Variant>);

// ElementSize, and sizeof for elements that are objects; 0 for kInvalid.
inline size_t ObjectBytes(DType dtype) {
  if (!IsObject(dtype)) return ElementSize(dtype);
  if (dtype == DType::kString) return sizeof(std::string);
  return dtype == DType::kResource ? kResourceHandleBytes : kVariantBytes;
}

// The address of an element is a multiple of this; 1 for kInvalid.
size_t ElementAlignment(DType dtype);

// True for dtypes whose elements are plain bytes: those with ElementSize > 0.
inline bool IsFixedSize(DType dtype) { return ElementSize(dtype) != 0; }

bool IsFloating(DType dtype);   // float16, bfloat16, float32, float64, float8, float6, float4 kinds
bool IsInteger(DType dtype);    // signed and unsigned, 2 to 64 bits; not bool, not quantized
bool IsComplex(DType dtype);    // complex64, complex128
bool IsQuantized(DType dtype);  // qint8, quint8, qint16, quint16, qint32

// DTypeOf<T>::value is the dtype whose elements are T. Prefer kDTypeOf<T> below.
template <typename T>
struct DTypeOf;
#define CASK_DTYPE_OF(id, number, T, name)    \
  template <>                                 \
  struct DTypeOf<T> {                         \
    static constexpr DType value = DType::id; \
  };
CASK_FIXED_SIZE_DTYPES(CASK_DTYPE_OF)
#undef CASK_DTYPE_OF
template <>
struct DTypeOf<std::string> {
  static constexpr DType value = DType::kString;
};
template <>
struct DTypeOf<ResourceHandle> {
  static constexpr DType value = DType::kResource;
};
template <>
struct DTypeOf<Variant> {
  static constexpr DType value = DType::kVariant;
};

namespace internal {

template <typename T, typename = void>
inline constexpr bool kIsElement = false;
template <typename T>
inline constexpr bool kIsElement<T, std::void_t<decltype(DTypeOf<T>::value)>> = true;

// long and long long are two types, and int64_t is one of them. This is the other: long long where int64_t is long,
// else long, which has 32 bits on Windows. NOLINTBEGIN(google-runtime-int)
using OtherInt = std::conditional_t<std::is_same_v<int64_t, long>, long long, long>;
using OtherUint = std::conditional_t<std::is_same_v<uint64_t, unsigned long>, unsigned long long, unsigned long>;
// NOLINTEND(google-runtime-int)

template <typename T>
struct ElementType {
  using type = T;
};
template <>
struct ElementType<OtherInt> {
  using type = std::conditional_t<sizeof(OtherInt) == sizeof(int64_t), int64_t, int32_t>;
};
template <>
struct ElementType<OtherUint> {
  using type = std::conditional_t<sizeof(OtherUint) == sizeof(uint64_t), uint64_t, uint32_t>;
};

template <typename T>
constexpr DType DTypeOfElement() {
  static_assert(kIsElement<T>,
                "no tensor has elements of this C++ type; CASK_FIXED_SIZE_DTYPES in tensor/dtype.h lists the types "
                "that are elements, besides std::string, ResourceHandle and Variant");
  if constexpr (kIsElement<T>) {
    return DTypeOf<T>::value;
  } else {
    return DType::kInvalid;
  }
}

}  // namespace internal

// The type of the elements that T names: T itself, but int64_t for long long and uint64_t for unsigned long long. (They
// hold the same numbers, but C++ forbids to read memory of one as the other: t.flat<long long>() gives int64_t.)
template <typename T>
using ElementOf = typename internal::ElementType<T>::type;

// The dtype whose elements are ElementOf<T>. For other types it does not compile, and says so.
template <typename T>
inline constexpr DType kDTypeOf = internal::DTypeOfElement<ElementOf<std::remove_cv_t<T>>>();

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DTYPE_H_
