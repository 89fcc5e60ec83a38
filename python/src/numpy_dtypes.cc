#include "tensorcask/python/src/numpy_dtypes.h"

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/text.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// NumPy's own dtypes.
constexpr std::array kNative = {DType::kFloat32, DType::kFloat64,   DType::kFloat16,    DType::kInt8,   DType::kInt16,
                                DType::kInt32,   DType::kInt64,     DType::kUint8,      DType::kUint16, DType::kUint32,
                                DType::kUint64,  DType::kComplex64, DType::kComplex128, DType::kBool};

struct Borrowed {
  DType dtype;
  const char* ml_dtypes;  // the name there; null: it has none
  const char* carrier;    // NumPy's integers of the same width
};
constexpr Borrowed kBorrowed[] = {
    {DType::kBfloat16, "bfloat16", "uint16"},
    {DType::kFloat8E5m2, "float8_e5m2", "uint8"},
    {DType::kFloat8E4m3fn, "float8_e4m3fn", "uint8"},
    {DType::kFloat8E4m3fnuz, "float8_e4m3fnuz", "uint8"},
    {DType::kFloat8E4m3b11fnuz, "float8_e4m3b11fnuz", "uint8"},
    {DType::kFloat8E5m2fnuz, "float8_e5m2fnuz", "uint8"},
    {DType::kFloat8E8m0fnu, "float8_e8m0fnu", "uint8"},
    {DType::kFloat8E4m3, "float8_e4m3", "uint8"},
    {DType::kFloat8E3m4, "float8_e3m4", "uint8"},
    {DType::kFloat6E2m3, "float6_e2m3fn", "uint8"},
    {DType::kFloat6E3m2, "float6_e3m2fn", "uint8"},
    {DType::kFloat4E2m1, "float4_e2m1fn", "uint8"},
    {DType::kInt4, "int4", "int8"},
    {DType::kUint4, "uint4", "uint8"},
    {DType::kInt2, "int2", "int8"},
    {DType::kUint2, "uint2", "uint8"},
    {DType::kQint8, nullptr, "int8"},
    {DType::kQuint8, nullptr, "uint8"},
    {DType::kQint16, nullptr, "int16"},
    {DType::kQuint16, nullptr, "uint16"},
    {DType::kQint32, nullptr, "int32"},
};

// NumPy's dtypes, which live as long as the process.
struct NativeTable {
  std::array<PyObject*, 256> by_number{};

  NativeTable() {
    const nb::object make = Numpy().attr("dtype");
    for (const DType dtype : kNative) {
      const absl::string_view name = DTypeName(dtype);
      by_number[static_cast<uint8_t>(dtype)] = make(nb::str(name.data(), name.size())).release().ptr();
    }
  }
};

const NativeTable& Native() {
  static const NativeTable* const table = new NativeTable;
  return *table;
}

DType CarrierDType(absl::string_view name) { return *ParseDType(name); }

}  // namespace

nb::object Numpy() {
  static PyObject* const numpy = nb::module_::import_("numpy").release().ptr();
  return nb::borrow(numpy);
}

nb::object ImportedModule(const char* name) {
  PyObject* const modules = PySys_GetObject("modules");  // borrowed
  if (modules == nullptr) return nb::none();
  const nb::object get = nb::handle(modules).attr("get");
  return get(name);
}

nb::object ToNumpyDType(DType dtype) {
  if (PyObject* const native = Native().by_number[static_cast<uint8_t>(dtype)]; native != nullptr) {
    return nb::borrow(native);
  }
  if (dtype == DType::kString) return Numpy().attr("dtype")("O");
  for (const Borrowed& borrowed : kBorrowed) {
    if (borrowed.dtype != dtype) continue;
    if (borrowed.ml_dtypes != nullptr) {
      const nb::object ml_dtypes = ImportedModule("ml_dtypes");
      if (!ml_dtypes.is_none() && nb::hasattr(ml_dtypes, borrowed.ml_dtypes)) {
        return Numpy().attr("dtype")(ml_dtypes.attr(borrowed.ml_dtypes));
      }
    }
    return Numpy().attr("dtype")(borrowed.carrier);
  }
  Raise(absl::UnimplementedError(absl::StrCat("NumPy has no dtype for ", DTypeName(dtype))));
}

NumpyElements FromNumpyDType(nb::handle dtype) {
  NumpyElements result;
  const NativeTable& native = Native();
  for (const DType own : kNative) {
    if (native.by_number[static_cast<uint8_t>(own)] == dtype.ptr()) {
      result.dtype = own;
      return result;
    }
  }
  const std::string kind = TextOf(dtype.attr("kind"));
  const std::string name = TextOf(dtype.attr("name"));
  const bool is_swapped = TextOf(dtype.attr("byteorder")) == ">";
  if (kind == "S" || kind == "U" || kind == "T" || kind == "O") {
    result.dtype = DType::kString;
    result.is_text = true;
    return result;
  }
  for (const Borrowed& borrowed : kBorrowed) {
    if (borrowed.ml_dtypes == nullptr || name != borrowed.ml_dtypes) continue;
    result.dtype = borrowed.dtype;
    result.carrier = borrowed.carrier;
    result.carrier_dtype = CarrierDType(borrowed.carrier);
    result.is_swapped = is_swapped;
    return result;
  }
  if (kind.size() != 1 || std::string("biufc").find(kind) == std::string::npos) return result;
  for (const DType own : kNative) {
    if (name == std::string(DTypeName(own))) result.dtype = own;
  }
  result.is_swapped = is_swapped;
  return result;
}

DType FromDTypeArgument(nb::handle dtype) {
  if (PyUnicode_Check(dtype.ptr())) return Take(ParseDType(FromText(dtype, "dtype")));
  const NumpyElements elements = FromNumpyDType(Numpy().attr("dtype")(dtype));
  if (elements.dtype.has_value()) return *elements.dtype;
  Raise(absl::InvalidArgumentError(absl::StrCat("tensors cannot have the dtype ", TextOf(dtype))));
}

}  // namespace tensorcask::python
