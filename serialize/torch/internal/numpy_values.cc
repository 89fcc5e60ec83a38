#include "tensorcask/serialize/torch/internal/numpy_values.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

// A larger array is a value of its bytes: a list takes 36 bytes for each number.
constexpr uint64_t kMostListed = 1024;
constexpr uint64_t kListedBytes = 48;

using Sizes = absl::InlinedVector<int64_t, 8>;

bool IsComplexNumber(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

// The dtypes whose numbers a value can be, by NumPy's kind and number of bytes.
constexpr std::pair<absl::string_view, DType> kPlain[] = {
    {"b1", DType::kBool},      {"i1", DType::kInt8},        {"i2", DType::kInt16},   {"i4", DType::kInt32},
    {"i8", DType::kInt64},     {"u1", DType::kUint8},       {"u2", DType::kUint16},  {"u4", DType::kUint32},
    {"u8", DType::kUint64},    {"f2", DType::kFloat16},     {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
    {"c8", DType::kComplex64}, {"c16", DType::kComplex128},
};

// Number `i` of little-endian ones, as a value of its width.
ValueTree::Id AddNumber(DType dtype, const char* bytes, uint64_t i, ValueTree* tree) {
  constexpr int kBitsPerByte = 8;
  const char* const at = bytes + i * ElementSize(dtype);
  const int bits = static_cast<int>(ElementSize(dtype)) * kBitsPerByte;
  switch (dtype) {
    case DType::kBool:
      return tree->AddBool(at[0] != 0);
    case DType::kInt8:
      return tree->AddInt(LoadLittleEndian<int8_t>(at), bits);
    case DType::kInt16:
      return tree->AddInt(LoadLittleEndian<int16_t>(at), bits);
    case DType::kInt32:
      return tree->AddInt(LoadLittleEndian<int32_t>(at), bits);
    case DType::kInt64:
      return tree->AddInt(LoadLittleEndian<int64_t>(at), bits);
    case DType::kUint8:
      return tree->AddUint(LoadLittleEndian<uint8_t>(at), bits);
    case DType::kUint16:
      return tree->AddUint(LoadLittleEndian<uint16_t>(at), bits);
    case DType::kUint32:
      return tree->AddUint(LoadLittleEndian<uint32_t>(at), bits);
    case DType::kUint64:
      return tree->AddUint(LoadLittleEndian<uint64_t>(at), bits);
    case DType::kFloat16:
      return tree->AddFloat(static_cast<float>(float16::FromBits(LoadLittleEndian<uint16_t>(at))), bits);
    case DType::kFloat32:
      return tree->AddFloat(LoadLittleEndian<float>(at), bits);
    case DType::kFloat64:
      return tree->AddFloat(LoadLittleEndian<double>(at), bits);
    case DType::kComplex64:
      return tree->AddComplex({LoadLittleEndian<float>(at), LoadLittleEndian<float>(at + sizeof(float))}, bits);
    case DType::kComplex128:
      return tree->AddComplex({LoadLittleEndian<double>(at), LoadLittleEndian<double>(at + sizeof(double))}, bits);
    default:
      return tree->AddNone();
  }
}

Sizes SizesOf(const Pickle& pickle, Ref tuple) {
  Sizes sizes;
  for (const Ref item : pickle.items(tuple)) sizes.push_back(pickle.object(item).integer);
  return sizes;
}

// The values that a list of these sizes consists of: its numbers, and the lists that hold them. A shape like [2^60,0]
// has no number and many lists.
uint64_t NumListed(absl::Span<const int64_t> sizes) {
  uint64_t all = 1;
  uint64_t level = 1;
  for (const int64_t size : sizes) {
    if (static_cast<uint64_t>(size) > kMostListed) return kMostListed + 1;
    level *= static_cast<uint64_t>(size);
    all += level;
    if (all > kMostListed) return all;
  }
  return all;
}

// Axis by axis, the last one first: `in` in Fortran order becomes row-major in `out`.
void ToRowMajor(absl::Span<const int64_t> sizes, size_t item_bytes, absl::string_view in, std::string* out) {
  Sizes index(sizes.size(), 0);
  uint64_t from = 0;  // where the item at `index` is, in items
  for (size_t to = 0; to < out->size(); to += item_bytes) {
    std::memcpy(&(*out)[to], in.data() + from * item_bytes, item_bytes);
    uint64_t end_stride = in.size() / item_bytes;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      const uint64_t stride = end_stride / static_cast<uint64_t>(sizes[axis]);
      if (++index[axis] < sizes[axis]) {
        from += stride;
        break;
      }
      from -= stride * static_cast<uint64_t>(sizes[axis] - 1);
      index[axis] = 0;
      end_stride = stride;
    }
  }
}

// The bytes of an array, row-major and little-endian: the same ones where the file has them so. Requires: they are
// those of `sizes`.
absl::string_view InOrder(const NumpyDType& dtype, absl::Span<const int64_t> sizes, bool is_fortran,
                          absl::string_view bytes, PickleBuilder* builder) {
  const size_t item_bytes = ElementSize(dtype.dtype);
  const size_t number_bytes = item_bytes / (IsComplexNumber(dtype.dtype) ? 2 : 1);
  const bool is_swapped = dtype.big_endian && number_bytes > 1;
  const bool is_moved = is_fortran && sizes.size() > 1 && !bytes.empty();
  if ((!is_swapped && !is_moved) || !builder->Charge(bytes.size())) return bytes;
  std::string ordered(bytes);
  if (is_moved) ToRowMajor(sizes, item_bytes, bytes, &ordered);
  if (is_swapped) SwapBytes(&ordered[0], ordered.size() / number_bytes, number_bytes);
  return builder->Keep(std::move(ordered));
}

// An array of these parts, where `dtype` is one of plain numbers. Errors: DataLoss if they do not belong together.
absl::StatusOr<NumpyArray> ArrayOf(Ref size, const NumpyDType& dtype, bool is_fortran, absl::string_view bytes,
                                   PickleBuilder* builder) {
  constexpr size_t kMostAxes = 64;  // NumPy's limit
  const absl::Span<const Ref> items = builder->pickle().items(size);
  if (items.size() > kMostAxes) {
    return absl::DataLossError(absl::StrCat("an array of NumPy has ", items.size(), " axes; at most ", kMostAxes));
  }
  for (const Ref item : items) {
    const Object& number = builder->object(item);
    if (number.kind == Kind::kInt && number.integer >= 0) continue;
    return absl::DataLossError("an array of NumPy has an axis whose size is not a number of at least 0");
  }
  const Sizes sizes = SizesOf(builder->pickle(), size);
  const absl::StatusOr<TensorShape> shape = TensorShape::Create(sizes);
  if (!shape.ok()) return absl::DataLossError(absl::StrCat("an array of NumPy: ", shape.status().message()));
  const auto wanted = CheckedMul(static_cast<uint64_t>(shape->num_elements()), uint64_t{ElementSize(dtype.dtype)});
  if (wanted != bytes.size()) {
    return absl::DataLossError(absl::StrCat("an array of NumPy has ", bytes.size(), " bytes, which are not those of ",
                                            DTypeName(dtype.dtype), " ", shape->ToString()));
  }
  NumpyArray array;
  array.dtype = dtype.dtype;
  array.size = size;
  array.bytes = InOrder(dtype, sizes, is_fortran, bytes, builder);
  const uint64_t listed = NumListed(sizes);
  if (listed <= kMostListed) builder->Charge(listed * kListedBytes);  // the values that AddArray adds
  return array;
}

}  // namespace

absl::StatusOr<Ref> MakeNumpyDType(const CallArguments& call) {
  if (call.size() == 0 || !call.Is(0, Kind::kText)) return call.Wrong("the text of a dtype");
  NumpyDType dtype;
  dtype.name = call.at(0).text;
  for (const auto& [name, plain] : kPlain) {
    if (dtype.name == name) dtype.dtype = plain;
  }
  return call.builder().NewNumpyDType(dtype);
}

absl::StatusOr<Ref> MakeNumpyScalar(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  if (call.size() != 2 || !call.Is(0, Kind::kNumpyDType) || !call.Is(1, Kind::kBytes)) {
    return call.Wrong("a dtype and bytes");
  }
  const NumpyDType& dtype = builder.pickle().numpy_dtypes[call.at(0).index];
  if (dtype.dtype == DType::kInvalid) {  // text, a date: kept as it is
    return builder.NewInstance({builder.NewGlobal({"numpy.generic", GlobalUse::kPlainObject}), call.ref(1)});
  }
  std::string bytes(call.at(1).text);
  if (bytes.size() != ElementSize(dtype.dtype)) {
    return call.Wrong(absl::StrCat(ElementSize(dtype.dtype), " bytes for ", DTypeName(dtype.dtype)));
  }
  const size_t number_bytes = bytes.size() / (IsComplexNumber(dtype.dtype) ? 2 : 1);
  if (dtype.big_endian) SwapBytes(&bytes[0], bytes.size() / number_bytes, number_bytes);
  ValueTree number;
  AddNumber(dtype.dtype, bytes.data(), 0, &number);
  const Value value = number.root();
  switch (value.kind()) {
    case ValueKind::kBool:
      return builder.Bool(value.bool_value());
    case ValueKind::kUint:
      return builder.Uint(value.uint_value());
    case ValueKind::kFloat:
      return builder.Float(value.float_value());
    case ValueKind::kComplex:
      return builder.Complex(value.complex_value());
    default:
      return builder.Int(value.int_value());
  }
}

absl::StatusOr<Ref> MakeNumpyArray(const CallArguments& call) {
  if (call.size() == 3 && call.Named(0, GlobalUse::kNumpyArrayClass) != nullptr) {
    return call.builder().NewNumpyArray({});
  }
  return call.Wrong("numpy.ndarray, a shape and a dtype");
}

absl::StatusOr<Ref> MakeNumpyArrayFromBuffer(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  if (call.size() != 4 || !call.Is(0, Kind::kBytes) || !call.Is(1, Kind::kNumpyDType) || !call.Is(2, Kind::kTuple) ||
      !call.Is(3, Kind::kText) || (call.at(3).text != "C" && call.at(3).text != "F")) {
    return call.Wrong("bytes, a dtype, a shape and an order");
  }
  const NumpyDType dtype = builder.pickle().numpy_dtypes[call.at(1).index];
  if (dtype.dtype == DType::kInvalid) {
    NumpyArray array;
    array.state = builder.List(Kind::kTuple, {call.ref(2), call.ref(1), call.ref(3), call.ref(0)});
    return builder.NewNumpyArray(array);
  }
  CASK_ASSIGN_OR_RETURN(const NumpyArray array,
                        ArrayOf(call.ref(2), dtype, call.at(3).text == "F", call.at(0).text, &builder));
  return builder.NewNumpyArray(array);
}

absl::StatusOr<Ref> MakeTensorFromNumpy(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  const Global* const dtype = call.Named(1, GlobalUse::kDType);
  if (call.size() != 4 || !call.Is(0, Kind::kNumpyArray) || dtype == nullptr ||
      (!call.Is(2, Kind::kText) && !call.Is(2, Kind::kDevice)) || !call.Is(3, Kind::kBool)) {
    return call.Wrong("an array, a dtype, a device and requires_grad");
  }
  const NumpyArray array = builder.pickle().numpy_arrays[call.at(0).index];
  if (array.dtype == DType::kInvalid) return call.Wrong("an array of numbers");
  Storage storage;
  storage.device = call.ref(2);
  storage.dtype = array.dtype;
  storage.bytes = array.bytes;
  storage.in_line = true;
  if (array.dtype == DType::kFloat32 && dtype->dtype == DType::kBfloat16) {
    if (!builder.Charge(array.bytes.size() / 2)) return builder.None();
    std::string halves(array.bytes.size() / 2, '\0');
    for (size_t i = 0; i < halves.size() / sizeof(bfloat16); ++i) {
      const bfloat16 half(LoadLittleEndian<float>(array.bytes.data() + i * sizeof(float)));
      StoreLittleEndian(half.bits(), &halves[i * sizeof(half)]);
    }
    storage.dtype = DType::kBfloat16;
    storage.bytes = builder.Keep(std::move(halves));
  } else if (dtype->dtype != array.dtype) {
    return absl::UnimplementedError(absl::StrCat("a tensor of ", Quoted(dtype->name), " that is stored as an array of ",
                                                 DTypeName(array.dtype), ", which is not converted"));
  }
  storage.element_bytes = ElementSize(storage.dtype);
  storage.num_elements = storage.bytes.size() / storage.element_bytes;

  PickledTensor tensor;
  tensor.dtype = storage.dtype;
  tensor.element_bytes = static_cast<uint8_t>(storage.element_bytes);
  tensor.requires_grad = call.at(3).integer != 0;
  tensor.size = array.size;
  std::vector<Ref> strides;
  const Layout layout = Layout::RowMajor(*TensorShape::Create(SizesOf(builder.pickle(), array.size)));  // was checked
  for (const int64_t stride : layout.strides()) strides.push_back(builder.Int(stride));
  tensor.stride = builder.List(Kind::kTuple, strides);
  const auto number = static_cast<uint32_t>(builder.pickle().storages.size());
  if (!builder.AddStorage(storage)) return builder.None();
  const Ref view = builder.NewView({number, 0, storage.num_elements});
  tensor.view = builder.object(view).index;
  return builder.NewTensor(tensor);
}

// (version, shape, dtype, is in Fortran order, bytes).
absl::Status SetArray(Ref array, Ref state, PickleBuilder* builder) {
  const Pickle& pickle = builder->pickle();
  const bool is_tuple = builder->object(state).kind == Kind::kTuple && pickle.items(state).size() == 5;
  const auto item = [&](size_t i) -> const Object& { return builder->object(pickle.items(state)[i]); };
  if (!is_tuple || item(1).kind != Kind::kTuple || item(2).kind != Kind::kNumpyDType || item(3).kind != Kind::kBool) {
    return absl::DataLossError("an array of NumPy has another state than a version, shape, dtype, order and bytes");
  }
  if (builder->numpy_array(array)->size != kNoRef || builder->numpy_array(array)->state != kNoRef) {
    return absl::DataLossError("an array of NumPy has two states");
  }
  const NumpyDType dtype = pickle.numpy_dtypes[item(2).index];
  if (dtype.dtype == DType::kInvalid) {  // text, dates, structures, objects: kept as they are
    builder->numpy_array(array)->state = state;
    return absl::OkStatus();
  }
  if (item(4).kind != Kind::kBytes) return absl::DataLossError("an array of NumPy has numbers that are not bytes");
  CASK_ASSIGN_OR_RETURN(*builder->numpy_array(array),
                        ArrayOf(pickle.items(state)[1], dtype, item(3).integer != 0, item(4).text, builder));
  return absl::OkStatus();
}

// (version, byte order, ...).
absl::Status SetNumpyDType(Ref dtype, Ref state, PickleBuilder* builder) {
  const bool is_tuple = builder->object(state).kind == Kind::kTuple && builder->pickle().items(state).size() >= 2;
  if (!is_tuple) return absl::DataLossError("a dtype of NumPy has another state than a tuple");
  builder->numpy_dtype(dtype)->big_endian = builder->object(builder->pickle().items(state)[1]).text == ">";
  return absl::OkStatus();
}

ValueTree::Id AddArray(const Pickle& pickle, const NumpyArray& array, ValueTree* tree) {
  const Sizes sizes = SizesOf(pickle, array.size);
  if (NumListed(sizes) > kMostListed) {
    std::vector<ValueTree::Id> numbers;
    numbers.reserve(sizes.size());
    for (const int64_t size : sizes) numbers.push_back(tree->AddInt(size));
    const ValueTree::Id dtype = tree->AddText(DTypeName(array.dtype), ValueKind::kDType);
    const ValueTree::Id size = tree->AddItems(ValueKind::kSize, numbers);
    const ValueTree::Id bytes = tree->AddText(array.bytes, ValueKind::kBytes);
    const ValueTree::Id arguments = tree->AddItems(ValueKind::kTuple, {dtype, size, bytes});
    return tree->AddObject("numpy.ndarray", arguments, tree->AddNone());
  }
  // The numbers, then the lists of the last axis, and so on to the first one.
  std::vector<ValueTree::Id> level;
  for (uint64_t i = 0; i < array.bytes.size() / ElementSize(array.dtype); ++i) {
    level.push_back(AddNumber(array.dtype, array.bytes.data(), i, tree));
  }
  for (size_t axis = sizes.size(); axis-- > 0;) {
    uint64_t lists = 1;
    for (size_t i = 0; i < axis; ++i) lists *= static_cast<uint64_t>(sizes[i]);
    const auto each = static_cast<size_t>(sizes[axis]);
    std::vector<ValueTree::Id> above;
    for (size_t i = 0; i < lists; ++i) {
      above.push_back(tree->AddItems(ValueKind::kList, absl::MakeConstSpan(level).subspan(i * each, each)));
    }
    level = std::move(above);
  }
  return level[0];
}

}  // namespace tensorcask::torch
