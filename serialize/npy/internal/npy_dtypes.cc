#include "tensorcask/serialize/npy/internal/npy_dtypes.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::npy {
namespace {

// The kinds of numbers that NumPy has itself.
struct NumpyType {
  DType dtype;
  char kind;
};
constexpr NumpyType kNumpyTypes[] = {
    {DType::kBool, 'b'},      {DType::kInt8, 'i'},       {DType::kInt16, 'i'},   {DType::kInt32, 'i'},
    {DType::kInt64, 'i'},     {DType::kUint8, 'u'},      {DType::kUint16, 'u'},  {DType::kUint32, 'u'},
    {DType::kUint64, 'u'},    {DType::kFloat16, 'f'},    {DType::kFloat32, 'f'}, {DType::kFloat64, 'f'},
    {DType::kComplex64, 'c'}, {DType::kComplex128, 'c'},
};

absl::StatusOr<DType> OpaqueDType(const NpyLeaf& leaf, DType dtype_of_opaque_elements) {
  if (leaf.item_bytes != 0 && ElementSize(dtype_of_opaque_elements) == leaf.item_bytes) return dtype_of_opaque_elements;
  if (leaf.item_bytes == 2) return DType::kBfloat16;
  const std::string found =
      absl::StrCat("has opaque elements of ", leaf.item_bytes, leaf.item_bytes == 1 ? " byte" : " bytes", " (type ",
                   Quoted(leaf.descr), "); the file does not say of which dtype, and ");
  if (dtype_of_opaque_elements == DType::kInvalid) {
    return absl::UnimplementedError(
        absl::StrCat(found, "the caller must (NpyReaderOptions::dtype_of_opaque_elements)"));
  }
  return absl::UnimplementedError(absl::StrCat(found, "the given one, ", DTypeName(dtype_of_opaque_elements),
                                               ", has elements of ", ElementSize(dtype_of_opaque_elements), " bytes"));
}

}  // namespace

absl::StatusOr<DType> DTypeOfLeaf(const NpyLeaf& leaf, DType dtype_of_opaque_elements) {
  switch (leaf.kind) {
    case 'S':
    case 'U':
      return DType::kString;
    case 'M':
    case 'm':
      return DType::kInt64;
    case 'V':
      return OpaqueDType(leaf, dtype_of_opaque_elements);
    case 'n':
      return ParseDType(leaf.descr);
    case 'O':
      return absl::UnimplementedError(
          absl::StrCat("an array of Python objects (type ", Quoted(leaf.descr),
                       "): its elements are a pickle, which is a program, and pickles are never read"));
    default:
      break;
  }
  if (leaf.kind == 'f' && leaf.item_bytes == 1) return DType::kFloat8E5m2;  // as ml_dtypes names it
  for (const NumpyType& type : kNumpyTypes) {
    if (type.kind == leaf.kind && ElementSize(type.dtype) == leaf.item_bytes) return type.dtype;
  }
  return absl::UnimplementedError(
      absl::StrCat("has elements of type ", Quoted(leaf.descr), ", a long double, which this library does not have"));
}

bool IsTimeDescr(absl::string_view descr) {
  if (!descr.empty() && (descr[0] == '<' || descr[0] == '>' || descr[0] == '=')) descr.remove_prefix(1);
  if (descr.size() < 2 || (descr[0] != 'M' && descr[0] != 'm') || descr[1] != '8') return false;
  descr.remove_prefix(2);
  if (descr.empty()) return true;
  if (descr.size() < 3 || descr.size() > 32 || descr.front() != '[' || descr.back() != ']') return false;
  for (const char c : descr.substr(1, descr.size() - 2)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '/') return false;
  }
  return true;
}

absl::StatusOr<std::string> DescrOf(DType dtype, const NpyFormat& format, absl::string_view time_descr) {
  const size_t bytes = ElementSize(dtype);
  const char* const order = bytes == 1 ? "|" : format.big_endian ? ">" : "<";
  if (!time_descr.empty()) {
    if (dtype != DType::kInt64 || !IsTimeDescr(time_descr)) {
      return absl::InvalidArgumentError(absl::StrCat("the attribute npy.descr is ", Quoted(time_descr),
                                                     "; it must be the type of a time of an int64 tensor, <M8[D] for "
                                                     "example, or <U of strings"));
    }
    const size_t kind = time_descr.find_first_of("Mm");
    return absl::StrCat(order, time_descr.substr(kind));
  }
  for (const NumpyType& type : kNumpyTypes) {
    if (type.dtype == dtype) return absl::StrCat(order, absl::string_view(&type.kind, 1), bytes);
  }
  if (bytes == 0) {
    return absl::UnimplementedError(absl::StrCat("npy files cannot have elements of dtype ", DTypeName(dtype)));
  }
  if (dtype == DType::kBfloat16 || format.store_opaquely)
    return absl::StrCat(format.big_endian ? ">" : "<", "V", bytes);
  return absl::UnimplementedError(
      absl::StrCat("NumPy has no dtype ", DTypeName(dtype), "; NpyFormat::store_opaquely stores it without its name"));
}

}  // namespace tensorcask::npy
