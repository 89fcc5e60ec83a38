#include "tensorcask/serialize/torch/internal/rebuild_values.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

bool IsNumeric(Kind kind) { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }

double AsDouble(const Object& object) {
  return object.kind == Kind::kFloat ? object.real : static_cast<double>(object.integer);
}

// The bytes of a text whose characters are all below 256.
std::optional<std::string> ToLatin1(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      bytes += text[i];
      continue;
    }
    if ((byte != 0xc2 && byte != 0xc3) || i + 1 == text.size()) return std::nullopt;
    const auto next = static_cast<unsigned char>(text[++i]);
    bytes += static_cast<char>((byte << 6 & 0xc0) | (next & 0x3f));
  }
  return bytes;
}

// Number `i` of an array.
template <typename T>
T ItemAt(const char* bytes, bool big_endian, size_t i = 0) {
  std::array<char, sizeof(T)> item;
  std::memcpy(item.data(), bytes + i * sizeof(T), sizeof(T));
  if (big_endian) std::reverse(item.begin(), item.end());
  T value;
  std::memcpy(&value, item.data(), sizeof(T));
  return value;
}

}  // namespace

absl::StatusOr<Ref> MakeDict(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  if (call.size() == 0) return builder.List(Kind::kDict, {});
  if (call.size() == 1 && call.Is(0, Kind::kDict)) {
    return builder.List(Kind::kDict, call.list(0));
  }
  if (call.size() != 1 || !call.IsList(0)) return call.Wrong("nothing, a dict or a list of pairs");
  std::vector<Ref> entries;
  for (const Ref pair : call.list(0)) {
    const Kind kind = builder.object(pair).kind;
    if ((kind != Kind::kList && kind != Kind::kTuple) || builder.pickle().items(pair).size() != 2) {
      return call.Wrong("nothing, a dict or a list of pairs");
    }
    const std::vector<Ref>& items = builder.pickle().items(pair);
    entries.insert(entries.end(), items.begin(), items.end());
  }
  return builder.List(Kind::kDict, entries);
}

absl::StatusOr<Ref> MakeBytes(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  if (call.size() == 0) return builder.Text("", Kind::kBytes);
  if (call.size() == 1 && call.Is(0, Kind::kBytes)) return call.ref(0);
  const bool is_latin1 = call.size() == 2 && call.Is(0, Kind::kText) && call.Is(1, Kind::kText) &&
                         (call.at(1).text == "latin1" || call.at(1).text == "latin-1");
  if (!is_latin1) return call.Wrong("bytes, or a text and \"latin1\"");
  if (!builder.Charge(call.at(0).text.size())) return builder.None();
  std::optional<std::string> bytes = ToLatin1(call.at(0).text);
  if (!bytes.has_value()) return call.Wrong("a text of characters below 256");
  return builder.Text(builder.Keep(*std::move(bytes)), Kind::kBytes);
}

absl::StatusOr<Ref> MakeDevice(const CallArguments& call) {
  if (call.size() == 0 || call.size() > 2 || !call.Is(0, Kind::kText) ||
      (call.size() == 2 && !call.Is(1, Kind::kInt))) {
    return call.Wrong("a type and a number");
  }
  PickleBuilder& builder = call.builder();
  if (call.size() == 1) return builder.Text(call.at(0).text, Kind::kDevice);
  return builder.Text(builder.Keep(absl::StrCat(call.at(0).text, ":", call.at(1).integer)), Kind::kDevice);
}

absl::StatusOr<Ref> MakePath(const CallArguments& call, absl::string_view name) {
  std::string path;
  const char* const separator = absl::StrContains(name, "Windows") ? "\\" : "/";
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call.Is(i, Kind::kText)) return call.Wrong("texts");
    if (!call.builder().Charge(call.at(i).text.size() + 1)) return call.builder().None();
    absl::StrAppend(&path, path.empty() || absl::EndsWith(path, separator) ? "" : separator, call.at(i).text);
  }
  return call.builder().Text(call.builder().Keep(std::move(path)));
}

absl::StatusOr<Ref> MakeComplex(const CallArguments& call) {
  if (call.size() != 2 || !IsNumeric(call.at(0).kind) || !IsNumeric(call.at(1).kind)) return call.Wrong("two numbers");
  return call.builder().Complex({AsDouble(call.at(0)), AsDouble(call.at(1))});
}

// ---- NumPy ----------------------------------------------------------------------------------------------------------

absl::StatusOr<Ref> MakeNumpyDType(const CallArguments& call) {
  if (call.size() == 0 || !call.Is(0, Kind::kText)) return call.Wrong("the text of a dtype");
  NumpyDType dtype;
  dtype.name = call.at(0).text;
  const absl::StatusOr<DType> parsed = ParseDType(dtype.name);
  if (parsed.ok()) dtype.dtype = *parsed;
  return call.builder().NewNumpyDType(dtype);
}

absl::StatusOr<Ref> MakeNumpyScalar(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  if (call.size() != 2 || !call.Is(0, Kind::kNumpyDType) || !call.Is(1, Kind::kBytes)) {
    return call.Wrong("a dtype and bytes");
  }
  const NumpyDType& dtype = builder.pickle().numpy_dtypes[call.at(0).index];
  const absl::string_view bytes = call.at(1).text;
  if (!IsFixedSize(dtype.dtype)) {  // text, a date: kept as it is
    return builder.NewInstance({builder.NewGlobal({"numpy.generic", GlobalUse::kPlainObject}), call.ref(1)});
  }
  if (bytes.size() != ElementSize(dtype.dtype)) {
    return call.Wrong(absl::StrCat(ElementSize(dtype.dtype), " bytes for ", DTypeName(dtype.dtype)));
  }
  const char* const at = bytes.data();
  const bool big = dtype.big_endian;
  switch (dtype.dtype) {
    case DType::kBool:
      return builder.Bool(at[0] != 0);
    case DType::kInt8:
      return builder.Int(ItemAt<int8_t>(at, big));
    case DType::kInt16:
      return builder.Int(ItemAt<int16_t>(at, big));
    case DType::kInt32:
      return builder.Int(ItemAt<int32_t>(at, big));
    case DType::kInt64:
      return builder.Int(ItemAt<int64_t>(at, big));
    case DType::kUint8:
      return builder.Int(ItemAt<uint8_t>(at, big));
    case DType::kUint16:
      return builder.Int(ItemAt<uint16_t>(at, big));
    case DType::kUint32:
      return builder.Int(ItemAt<uint32_t>(at, big));
    case DType::kUint64:
      return builder.Uint(ItemAt<uint64_t>(at, big));
    case DType::kFloat16:
      return builder.Float(static_cast<float>(float16::FromBits(ItemAt<uint16_t>(at, big))));
    case DType::kFloat32:
      return builder.Float(ItemAt<float>(at, big));
    case DType::kFloat64:
      return builder.Float(ItemAt<double>(at, big));
    case DType::kComplex64:
      return builder.Complex({ItemAt<float>(at, big), ItemAt<float>(at, big, 1)});
    case DType::kComplex128:
      return builder.Complex({ItemAt<double>(at, big), ItemAt<double>(at, big, 1)});
    default:
      return call.Wrong("a dtype of numbers");
  }
}

// (version, shape, dtype, is in Fortran order, bytes).
absl::Status SetArray(Ref array, Ref state, PickleBuilder* builder) {
  const Pickle& pickle = builder->pickle();
  const bool is_tuple = builder->object(state).kind == Kind::kTuple && pickle.items(state).size() == 5;
  const auto item = [&](size_t i) { return pickle.items(state)[i]; };
  const auto kind = [&](size_t i) { return builder->object(item(i)).kind; };
  if (!is_tuple || kind(1) != Kind::kTuple || kind(2) != Kind::kNumpyDType || kind(3) != Kind::kBool) {
    return absl::DataLossError("an array of NumPy has another state than a version, shape, dtype, order and bytes");
  }
  if (!pickle.items(array).empty()) return absl::DataLossError("an array of NumPy has two states");
  const std::vector<Ref> parts = {item(1), item(2), item(3), item(4)};
  builder->Append(array, parts);
  return absl::OkStatus();
}

// (version, byte order, ...).
absl::Status SetNumpyDType(Ref dtype, Ref state, PickleBuilder* builder) {
  const bool is_tuple = builder->object(state).kind == Kind::kTuple && builder->pickle().items(state).size() >= 2;
  if (!is_tuple) return absl::DataLossError("a dtype of NumPy has another state than a tuple");
  builder->numpy_dtype(dtype)->big_endian = builder->object(builder->pickle().items(state)[1]).text == ">";
  return absl::OkStatus();
}

}  // namespace tensorcask::torch
