#include "tensorcask/serialize/gguf/internal/header_text.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/gguf/internal/header.h"
#include "tensorcask/serialize/gguf/internal/value_types.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::gguf {
namespace {

template <typename T>
void AppendNumber(T value, bool big_endian, std::string* out) {
  char bytes[sizeof(T)];
  StoreLittleEndian(value, bytes);
  if (big_endian) SwapBytes(bytes, 1, sizeof(T));
  out->append(bytes, sizeof(T));
}

void AppendLongText(absl::string_view text, bool big_endian, std::string* out) {
  AppendNumber<uint64_t>(text.size(), big_endian, out);
  out->append(text.data(), text.size());
}

// The number of the type that values of this kind and width have. A number without a width has 64 bits.
std::optional<uint32_t> TypeOf(ValueKind kind, int bits) {
  const bool is_number = kind == ValueKind::kInt || kind == ValueKind::kUint || kind == ValueKind::kFloat;
  if (kind == ValueKind::kBool) bits = 8;
  if (is_number && bits == 0) bits = 64;
  if (kind == ValueKind::kFloat && bits == 16) bits = 32;
  if (kind == ValueKind::kTuple || kind == ValueKind::kSize) kind = ValueKind::kList;
  if (kind == ValueKind::kList) bits = 0;  // those of an empty list are of its items
  for (uint32_t number = 0; number < std::size(kValueTypes); ++number) {
    if (kValueTypes[number].kind == kind && kValueTypes[number].bits == bits) return number;
  }
  return std::nullopt;
}

absl::Status NoType(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("is ", what, ", which GGUF has no type for"));
}

// The type of the elements of a list, which all have it.
absl::StatusOr<uint32_t> TypeOfItems(Value list) {
  if (list.size() == 0) {
    const std::optional<uint32_t> type = TypeOf(list.empty_item_kind(), list.bits());
    return type && *type != kArrayType ? *type : *TypeOf(ValueKind::kInt, 32);
  }
  std::optional<uint32_t> type;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::optional<uint32_t> of_item = TypeOf(list.item(i).kind(), list.item(i).bits());
    if (!of_item) return NoType("a list of values that are neither numbers nor texts");
    if (*of_item == kArrayType) return NoType("a list of lists");
    if (type && *type != *of_item) return NoType("a list of values of several types");
    type = of_item;
  }
  return *type;
}

absl::StatusOr<uint32_t> TypeOfItems(const FileArray& array) {
  const std::optional<uint32_t> type = TypeOf(array.kind, array.bits);
  if (!type || *type == kArrayType) return NoType("an array of another kind");
  return *type;
}

// Requires: TypeOf gives `type` for the value.
void AppendValue(Value value, uint32_t type, bool big_endian, std::string* out) {
  const ValueType& has = kValueTypes[type];
  if (has.kind == ValueKind::kText) return AppendLongText(value.text(), big_endian, out);
  uint64_t number = 0;
  if (has.kind == ValueKind::kBool) number = value.bool_value() ? 1 : 0;
  if (has.kind == ValueKind::kUint) number = value.uint_value();
  if (has.kind == ValueKind::kInt) number = static_cast<uint64_t>(value.int_value());
  if (has.kind == ValueKind::kFloat && has.bits == 64) {
    const double wide = value.float_value();
    std::memcpy(&number, &wide, sizeof wide);
  } else if (has.kind == ValueKind::kFloat) {
    number = BitsOfFloat(value.float_value());
  }
  switch (has.bits) {
    case 8:
      return AppendNumber(static_cast<uint8_t>(number), big_endian, out);
    case 16:
      return AppendNumber(static_cast<uint16_t>(number), big_endian, out);
    case 32:
      return AppendNumber(static_cast<uint32_t>(number), big_endian, out);
    default:
      return AppendNumber(number, big_endian, out);
  }
}

template <typename T>
std::optional<T> ParseInteger(absl::string_view text, int bits) {
  T value = 0;
  const int shift = 64 - bits;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  const bool fits =
      value <= (std::numeric_limits<T>::max() >> shift) && value >= (std::numeric_limits<T>::min() >> shift);
  return fits ? std::optional<T>(value) : std::nullopt;
}

// Adds `text` as a value of type `type`; false if it is not one.
bool AddParsed(absl::string_view text, const ValueType& type, ValueTree* tree) {
  switch (type.kind) {
    case ValueKind::kText:
      tree->AddText(text);
      return true;
    case ValueKind::kBool:
      if (text != "true" && text != "false") return false;
      tree->AddBool(text == "true");
      return true;
    case ValueKind::kUint: {
      const std::optional<uint64_t> value = ParseInteger<uint64_t>(text, type.bits);
      if (value) tree->AddUint(*value, type.bits);
      return value.has_value();
    }
    case ValueKind::kInt: {
      const std::optional<int64_t> value = ParseInteger<int64_t>(text, type.bits);
      if (value) tree->AddInt(*value, type.bits);
      return value.has_value();
    }
    case ValueKind::kFloat: {
      double wide = 0;
      float narrow = 0;
      const bool is_number = type.bits == 32 ? absl::SimpleAtof(text, &narrow) : absl::SimpleAtod(text, &wide);
      if (is_number) tree->AddFloat(type.bits == 32 ? static_cast<double>(narrow) : wide, type.bits);
      return is_number;
    }
    default:
      return false;
  }
}

absl::Status CheckText(absl::string_view text, absl::string_view what) {
  if (internal::IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is not UTF-8, which GGUF requires"));
}

}  // namespace

absl::StatusOr<std::string> EncodeValue(Value value, bool big_endian) {
  const std::optional<uint32_t> type = TypeOf(value.kind(), value.bits());
  if (!type) return NoType(value.kind() == ValueKind::kMap ? "a map" : "a value of another kind");
  std::string out;
  AppendNumber(*type, big_endian, &out);
  if (*type != kArrayType) {
    AppendValue(value, *type, big_endian, &out);
    return out;
  }
  CASK_ASSIGN_OR_RETURN(const uint32_t of_items, TypeOfItems(value));
  AppendNumber(of_items, big_endian, &out);
  AppendNumber<uint64_t>(value.size(), big_endian, &out);
  for (size_t i = 0; i < value.size(); ++i) AppendValue(value.item(i), of_items, big_endian, &out);
  return out;
}

absl::StatusOr<std::string> EncodeArray(const FileArray& array, absl::string_view bytes) {
  CASK_ASSIGN_OR_RETURN(const uint32_t of_items, TypeOfItems(array));
  if (bytes.size() != array.stored_bytes) {
    return absl::InvalidArgumentError("is an array whose elements are still in a file");
  }
  std::string out;
  AppendNumber(kArrayType, /*big_endian=*/false, &out);
  AppendNumber(of_items, /*big_endian=*/false, &out);
  AppendNumber<uint64_t>(array.count, /*big_endian=*/false, &out);
  return out.append(bytes.data(), bytes.size());
}

absl::Status CheckValue(Value value) {
  if (value.kind() == ValueKind::kFileArray) return TypeOfItems(value.file_array()).status();
  const std::optional<uint32_t> type = TypeOf(value.kind(), value.bits());
  if (!type) return NoType(value.kind() == ValueKind::kMap ? "a map" : "a value of another kind");
  return *type == kArrayType ? TypeOfItems(value).status() : absl::OkStatus();
}

absl::Status CheckKeyName(absl::string_view name) {
  if (!name.empty() && name.size() <= kMaxKeyNameBytes) return CheckText(name, "the name of a key");
  return absl::InvalidArgumentError(
      absl::StrCat("the name of a key has ", name.size(), " bytes; wanted 1 to ", kMaxKeyNameBytes));
}

absl::Status CheckWritableKey(absl::string_view name, Value value) {
  if (IsPadding(name, value)) {
    return absl::InvalidArgumentError("is only padding, which an edit adds where it is needed");
  }
  if (!IsSplitKey(name)) return absl::OkStatus();
  return absl::InvalidArgumentError("is of a model in several files, which are not written");
}

absl::StatusOr<uint64_t> AlignmentOfValue(Value value) {
  if (value.kind() == ValueKind::kUint && value.bits() == 32 && IsAlignment(value.uint_value())) {
    return value.uint_value();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be a uint32 that is a power of two of at most ", kMaxAlignment, ", as in uint32:64"));
}

absl::Status CheckTensorName(absl::string_view name) {
  if (name.size() < kLongName) return CheckText(name, "its name");
  return absl::InvalidArgumentError(
      absl::StrCat("its name has ", name.size(), " bytes; ggml has room for ", kLongName - 1));
}

absl::Status CheckRank(const TensorShape& shape) {
  if (shape.rank() <= static_cast<int>(kMaxRank)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("has the shape ", shape.ToString(), "; GGUF has at most ", kMaxRank, " dimensions"));
}

absl::StatusOr<ValueTree> ParseValue(absl::string_view text, const std::optional<Value>& old) {
  CASK_RETURN_IF_ERROR(CheckText(text, "the text"));
  ValueTree tree;
  for (const ValueType& type : kValueTypes) {
    if (type.kind == ValueKind::kList || text.substr(0, type.name.size()) != type.name) continue;
    if (text.size() == type.name.size() || text[type.name.size()] != ':') continue;
    if (AddParsed(text.substr(type.name.size() + 1), type, &tree)) return tree;
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not a value of the type ", type.name));
  }
  const std::optional<uint32_t> number = old ? TypeOf(old->kind(), old->bits()) : TypeOf(ValueKind::kText, 0);
  if (!number || *number == kArrayType) {
    return absl::InvalidArgumentError("is an array, which a text does not replace; TYPE:VALUE gives it another type");
  }
  if (AddParsed(text, kValueTypes[*number], &tree)) return tree;
  return absl::InvalidArgumentError(
      absl::StrCat("is a ", kValueTypes[*number].name, ", which ", Quoted(text),
                   " is not; TYPE:VALUE gives it another type, as in text:", absl::string_view(text).substr(0, 20)));
}

void HeaderText::Key(absl::string_view name, absl::string_view typed_value) {
  AppendLongText(name, big_endian_, &keys_);
  keys_.append(typed_value.data(), typed_value.size());
  ++num_keys_;
}

void HeaderText::Tensor(absl::string_view name, const ElementType& type, const TensorShape& shape, uint64_t offset) {
  AppendLongText(name, big_endian_, &tensors_);
  AppendNumber(static_cast<uint32_t>(shape.rank()), big_endian_, &tensors_);
  for (int axis = shape.rank(); axis-- > 0;) {
    AppendNumber(static_cast<uint64_t>(shape.dim(axis)), big_endian_, &tensors_);
  }
  AppendNumber(type.id, big_endian_, &tensors_);
  AppendNumber(offset, big_endian_, &tensors_);
  ++num_tensors_;
}

std::string HeaderText::Finish(uint32_t version, uint64_t alignment) const {
  std::string header(kMagic.data(), kMagic.size());
  header.reserve(static_cast<size_t>(size_bytes() + alignment));
  AppendNumber(version, big_endian_, &header);
  AppendNumber(num_tensors_, big_endian_, &header);
  AppendNumber(num_keys_, big_endian_, &header);
  header.append(keys_).append(tensors_);
  header.resize(static_cast<size_t>((header.size() + alignment - 1) / alignment * alignment), '\0');
  return header;
}

}  // namespace tensorcask::gguf
