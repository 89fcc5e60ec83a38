#include "tensorcask/serialize/onnx/internal/onnx_tensor_message.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::onnx {
namespace {

constexpr int Bit(WireType type) { return 1 << static_cast<int>(type); }

constexpr int kNumbers = Bit(WireType::kVarint) | Bit(WireType::kBytes);
constexpr int kFloats = Bit(WireType::kFixed32) | Bit(WireType::kBytes);
constexpr int kDoubles = Bit(WireType::kFixed64) | Bit(WireType::kBytes);
constexpr int kContent = Bit(WireType::kBytes);
constexpr int kNumber = Bit(WireType::kVarint);

struct FieldRow {
  const char* name;  // null: not a field of the message
  int wire_types;
  bool is_repeated;
};

// By number.
constexpr FieldRow kFields[] = {
    {nullptr, 0, false},
    {"dims", kNumbers, true},
    {"data_type", kNumber, false},
    {"segment", kContent, false},
    {"float_data", kFloats, true},
    {"int32_data", kNumbers, true},
    {"string_data", kContent, true},
    {"int64_data", kNumbers, true},
    {"name", kContent, false},
    {"raw_data", kContent, false},
    {"double_data", kDoubles, true},
    {"uint64_data", kNumbers, true},
    {"doc_string", kContent, false},
    {"external_data", kContent, true},
    {"data_location", kNumber, false},
    {nullptr, 0, false},
    {"metadata_props", kContent, true},
};
constexpr uint32_t kNumFields = sizeof(kFields) / sizeof(kFields[0]);

// Where a field was found.
struct Found {
  uint64_t count = 0;  // the number of fields that are not empty
  uint64_t bytes = 0;  // the size of their contents
  uint64_t begin = 0;  // where the last one begins
  bool is_packed = false;
};

absl::Status BadField(const WireCursor::Field& field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(kFields[field.number].name, " at byte ", field.position, " ", what));
}

absl::Status BadTensor(const TensorMessage& tensor, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " at byte ", tensor.begin, " ", what));
}

std::string Wanted(const TensorMessage& tensor) {
  return absl::StrCat(tensor.type->name, " ", tensor.shape.ToString());
}

uint64_t NumElements(const TensorMessage& tensor) { return static_cast<uint64_t>(tensor.shape.num_elements()); }

// Bytes of the elements in raw_data; nullopt past 64 bits.
std::optional<uint64_t> RawBytes(const TensorMessage& tensor) {
  const auto bits = CheckedMul(NumElements(tensor), static_cast<uint64_t>(tensor.type->bits));
  if (!bits.has_value()) return std::nullopt;
  return *bits / 8 + (*bits % 8 != 0 ? 1 : 0);
}

// Values of the type's field that the elements need.
std::optional<uint64_t> NumValues(const TensorMessage& tensor) {
  if (ValuesArePacked(*tensor.type)) return RawBytes(tensor);
  return CheckedMul(NumElements(tensor), IsComplex(tensor.type->dtype) ? uint64_t{2} : uint64_t{1});
}

// Bits of the last packed value that hold elements.
int BitsOfLastByte(const TensorMessage& tensor) {
  const auto per_byte = static_cast<uint64_t>(8 / tensor.type->bits);
  const uint64_t rest = NumElements(tensor) % per_byte;
  return static_cast<int>((rest == 0 ? per_byte : rest) * static_cast<uint64_t>(tensor.type->bits));
}

// Whether the type has this value. int32_data holds numbers of 32 bits, which a writer may extend to 64 or not.
bool IsValue(const TypeRow& type, uint64_t* value) {
  if (type.min == 0) return *value <= type.max;
  if (type.field == kInt32Data && *value <= 0xffff'ffff) {
    *value = static_cast<uint64_t>(int64_t{static_cast<int32_t>(static_cast<uint32_t>(*value))});
  }
  const auto number = static_cast<int64_t>(*value);
  return number >= type.min && (number < 0 || *value <= type.max);
}

// Calls fn(value) for each value of the type's field, in order.
template <typename Fn>
absl::Status ForEachValue(WireCursor* cursor, const TensorMessage& tensor, Fn&& fn) {
  const uint32_t number = tensor.type->field;
  const int width = number == kFloatData ? 4 : number == kDoubleData ? 8 : 0;
  cursor->Seek(tensor.begin);
  while (cursor->position() < tensor.end) {
    WireCursor::Field field;
    CASK_RETURN_IF_ERROR(cursor->ReadField(tensor.end, &field));
    if (field.number != number) {
      cursor->Seek(field.end());
      continue;
    }
    if (field.type != WireType::kBytes) CASK_RETURN_IF_ERROR(fn(field.value));
    while (cursor->position() < field.end()) {
      uint64_t value = 0;
      CASK_RETURN_IF_ERROR(width > 0 ? cursor->ReadFixed(field.end(), width, &value)
                                     : cursor->ReadVarint(field.end(), &value));
      CASK_RETURN_IF_ERROR(fn(value));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckValues(WireCursor* cursor, const TensorMessage& tensor) {
  const TypeRow& type = *tensor.type;
  const char* const name = kFields[type.field].name;
  const std::optional<uint64_t> wanted = NumValues(tensor);
  const bool is_integer = type.field != kFloatData && type.field != kDoubleData;
  uint64_t count = 0;
  CASK_RETURN_IF_ERROR(ForEachValue(cursor, tensor, [&](uint64_t value) {
    if (is_integer && !IsValue(type, &value)) {
      return BadTensor(tensor,
                       absl::StrCat("has the value ", static_cast<int64_t>(value), " in ", name, " before byte ",
                                    cursor->position(), "; ", type.name, " has ", type.min, " to ", type.max));
    }
    ++count;
    if (count == wanted && ValuesArePacked(type) && value >> BitsOfLastByte(tensor) != 0) {
      return BadTensor(tensor, absl::StrCat("has bits behind its last element in ", name, "; wanted 0"));
    }
    return absl::OkStatus();
  }));
  if (count == wanted) return absl::OkStatus();
  return BadTensor(tensor, absl::StrCat("has ", count, " values in ", name, "; ", Wanted(tensor), " needs ",
                                        wanted.has_value() ? absl::StrCat(*wanted) : "more than 2^64"));
}

// The size of the elements in bytes, `found`, against the type and shape.
absl::Status CheckRaw(WireCursor* cursor, uint64_t found, TensorMessage* tensor) {
  const std::optional<uint64_t> wanted = RawBytes(*tensor);
  if (found != wanted) {
    return BadTensor(*tensor, absl::StrCat("stores ", found, " bytes; ", Wanted(*tensor), " needs ",
                                           wanted.has_value() ? absl::StrCat(*wanted) : "more than 2^64"));
  }
  tensor->stored_bytes = found;
  const auto used = static_cast<int>(NumElements(*tensor) % 8 * static_cast<uint64_t>(tensor->type->bits) % 8);
  if (tensor->type->bits >= 8 || used == 0) return absl::OkStatus();
  char last = 0;
  cursor->Seek(tensor->offset + found - 1);
  CASK_RETURN_IF_ERROR(cursor->ReadBytes(absl::MakeSpan(&last, 1)));
  tensor->has_unused_bits = static_cast<uint8_t>(last) >> used != 0;
  return absl::OkStatus();
}

absl::StatusOr<ExternalEntry> ReadEntry(WireCursor* cursor, uint64_t begin, uint64_t end) {
  ExternalEntry entry;
  cursor->Seek(begin);
  while (cursor->position() < end) {
    WireCursor::Field field;
    CASK_RETURN_IF_ERROR(cursor->ReadField(end, &field));
    if ((field.number == 1 || field.number == 2) && field.type == WireType::kBytes) {
      if (field.size > kMaxExternalText) {
        return absl::InvalidArgumentError(
            absl::StrCat("external_data has a text of ", field.size, " bytes; wanted at most ", kMaxExternalText));
      }
      std::string text(static_cast<size_t>(field.size), '\0');
      CASK_RETURN_IF_ERROR(cursor->ReadBytes(absl::MakeSpan(&text[0], text.size())));
      (field.number == 1 ? entry.first : entry.second) = std::move(text);
    }
    cursor->Seek(field.end());
  }
  return entry;
}

absl::StatusOr<ExternalData> ReadExternal(WireCursor* cursor, const TensorMessage& tensor, const Found& found) {
  if (found.count > kMaxExternalEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("external_data has ", found.count, " entries; wanted at most ", kMaxExternalEntries));
  }
  std::vector<ExternalEntry> entries;
  uint64_t at = tensor.begin;
  while (at < tensor.end) {
    WireCursor::Field field;
    cursor->Seek(at);
    CASK_RETURN_IF_ERROR(cursor->ReadField(tensor.end, &field));
    at = field.end();
    if (field.number != kExternalData) continue;
    CASK_ASSIGN_OR_RETURN(ExternalEntry entry, ReadEntry(cursor, field.begin, field.end()));
    entries.push_back(std::move(entry));
  }
  return ParseExternalData(entries);
}

// Checks what is known of a tensor with elements in a side file before the file is opened.
absl::Status PlaceExternal(TensorMessage* tensor) {
  if (tensor->type->dtype == DType::kString) {
    return absl::UnimplementedError("its strings are in a side file, of which ONNX defines no form");
  }
  const std::optional<uint64_t> wanted = RawBytes(*tensor);
  const ExternalData& external = **tensor->external;
  if (!wanted.has_value() || external.length.value_or(*wanted) != *wanted) {
    return absl::InvalidArgumentError(absl::StrCat("external_data has the length ", external.length.value_or(0), "; ",
                                                   Wanted(*tensor), " needs ",
                                                   wanted.has_value() ? absl::StrCat(*wanted) : "more than 2^64"));
  }
  tensor->offset = external.offset;
  tensor->stored_bytes = *wanted;
  return absl::OkStatus();
}

bool IsTyped(uint32_t number) {
  return number == kFloatData || number == kInt32Data || number == kStringData || number == kInt64Data ||
         number == kDoubleData || number == kUint64Data;
}

// Decides where the elements are, and checks that there are as many as the shape needs.
absl::Status PlaceElements(WireCursor* cursor, absl::Span<const Found> found, bool has_raw, int64_t location,
                           TensorMessage* tensor) {
  uint32_t typed = 0;
  for (uint32_t number = 1; number < kNumFields; ++number) {
    if (!IsTyped(number) || found[number].count == 0) continue;
    if (typed != 0) {
      return BadTensor(*tensor, absl::StrCat("has values in ", kFields[typed].name, " and in ", kFields[number].name));
    }
    typed = number;
  }
  if (has_raw && typed != 0) {
    return BadTensor(*tensor, absl::StrCat("has values in raw_data and in ", kFields[typed].name));
  }
  if (location == 1) {
    if (has_raw || typed != 0) return BadTensor(*tensor, "has values beside those in a side file");
    tensor->data = TensorMessage::Data::kExternal;
    tensor->external =
        std::make_shared<const absl::StatusOr<ExternalData>>(ReadExternal(cursor, *tensor, found[kExternalData]));
    const absl::Status& external = tensor->external->status();
    if (!external.ok()) return absl::IsInvalidArgument(external) ? absl::OkStatus() : external;
    const absl::Status placed = PlaceExternal(tensor);
    if (!placed.ok()) tensor->external = std::make_shared<const absl::StatusOr<ExternalData>>(placed);
    return absl::OkStatus();
  }
  const TypeRow& type = *tensor->type;
  if (typed != 0 && typed != type.field) {
    return BadTensor(*tensor, absl::StrCat("has values in ", kFields[typed].name, "; those of ", type.name, " are in ",
                                           kFields[type.field].name, " or raw_data"));
  }
  const bool is_string = type.dtype == DType::kString;
  if (is_string && has_raw) return BadTensor(*tensor, "has strings in raw_data; wanted string_data");
  const Found& values = found[type.field];
  if (is_string) {
    tensor->data = TensorMessage::Data::kValues;
    tensor->stored_bytes = values.bytes;
    if (values.count == NumElements(*tensor)) return absl::OkStatus();
    return BadTensor(
        *tensor, absl::StrCat("has ", values.count, " strings; ", Wanted(*tensor), " needs ", NumElements(*tensor)));
  }
  // A packed field of floats or doubles has the form of raw_data.
  const bool is_fixed = type.field == kFloatData || type.field == kDoubleData;
  if (typed == 0 || (is_fixed && values.count == 1 && values.is_packed)) {
    const Found& raw = typed == 0 ? found[kRawData] : values;
    tensor->offset = raw.begin;
    return CheckRaw(cursor, raw.bytes, tensor);
  }
  tensor->data = TensorMessage::Data::kValues;
  tensor->stored_bytes = values.bytes;
  return CheckValues(cursor, *tensor);
}

absl::Status Changed(const TensorMessage& tensor) {
  return absl::DataLossError(absl::StrCat("the values in ", kFields[tensor.type->field].name, " from byte ",
                                          tensor.begin, " on are not those that the file had when it was opened"));
}

}  // namespace

absl::StatusOr<std::string> ReadText(WireCursor* cursor, const WireCursor::Field& field, const DecodeLimits& limits) {
  if (field.size > LimitOf(limits.max_name_bytes)) {
    return PastLimit(absl::StrCat("a text of ", field.size, " bytes at byte ", field.position), "max_name_bytes",
                     limits.max_name_bytes);
  }
  std::string text(static_cast<size_t>(field.size), '\0');
  cursor->Seek(field.begin);
  CASK_RETURN_IF_ERROR(cursor->ReadBytes(absl::MakeSpan(&text[0], text.size())));
  return text;
}

absl::Status ReadDims(WireCursor* cursor, const WireCursor::Field& field, DimVector* dims) {
  if (field.type == WireType::kVarint) dims->push_back(static_cast<int64_t>(field.value));
  while (cursor->position() < field.end() && dims->size() <= TensorShape::kMaxRank) {
    uint64_t value = 0;
    CASK_RETURN_IF_ERROR(cursor->ReadVarint(field.end(), &value));
    dims->push_back(static_cast<int64_t>(value));
  }
  if (dims->size() <= TensorShape::kMaxRank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dims at byte ", field.position, ": more than ", TensorShape::kMaxRank, " axes"));
}

absl::StatusOr<TensorMessage> ParseTensor(WireCursor* cursor, uint64_t begin, uint64_t end,
                                          const DecodeLimits& limits) {
  TensorMessage tensor;
  tensor.begin = begin;
  tensor.end = end;
  DimVector dims;
  std::array<Found, kNumFields> found = {};
  uint32_t seen = 0;  // bits of the fields
  int64_t location = 0;
  cursor->Seek(begin);
  while (cursor->position() < end) {
    WireCursor::Field field;
    CASK_RETURN_IF_ERROR(cursor->ReadField(end, &field));
    if (field.number >= kNumFields || kFields[field.number].name == nullptr) {
      cursor->Seek(field.end());
      continue;
    }
    const FieldRow& row = kFields[field.number];
    if ((row.wire_types & Bit(field.type)) == 0) {
      return BadField(field, absl::StrCat("has wire type ", static_cast<int>(field.type)));
    }
    if (field.number == kSegment) return BadField(field, "says that this is a part of a tensor, which nothing writes");
    const uint32_t bit = uint32_t{1} << field.number;
    if (!row.is_repeated && (seen & bit) != 0) return BadField(field, "occurs twice in one tensor");
    seen |= bit;
    Found& place = found[field.number];
    const bool is_empty = row.is_repeated && row.wire_types != kContent && field.type == WireType::kBytes &&
                          field.size == 0;  // packed values, and there are none
    if (!is_empty) {
      ++place.count;
      place.bytes += field.end() - (field.type == WireType::kBytes ? field.begin : field.position);
      place.begin = field.begin;
      place.is_packed = field.type == WireType::kBytes;
    }
    if (field.number == kDocString || field.number == kMetadataProps) tensor.has_texts |= field.size > 0;
    if (field.number == kDims) CASK_RETURN_IF_ERROR(ReadDims(cursor, field, &dims));
    if (field.number == kDataType) tensor.data_type = static_cast<int32_t>(field.value);
    if (field.number == kDataLocation) location = static_cast<int64_t>(field.value);
    if (field.number == kName) {
      CASK_ASSIGN_OR_RETURN(tensor.name, ReadText(cursor, field, limits));
    }
    cursor->Seek(field.end());
  }
  const absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
  if (!shape.ok()) return BadTensor(tensor, absl::StrCat("has bad dims: ", shape.status().message()));
  tensor.shape = *shape;
  if (tensor.data_type == 0) return BadTensor(tensor, "has no data_type");
  if (location != 0 && location != 1) {
    return BadTensor(tensor, absl::StrCat("has the data_location ", location, "; wanted 0 or 1"));
  }
  tensor.is_beside = location == 1;
  tensor.type = FindType(tensor.data_type);
  if (tensor.type != nullptr) {
    CASK_RETURN_IF_ERROR(PlaceElements(cursor, found, (seen & (uint32_t{1} << kRawData)) != 0, location, &tensor));
  }
  cursor->Seek(end);
  return tensor;
}

absl::StatusOr<std::optional<std::string>> ReadLocation(WireCursor* cursor, uint64_t begin, uint64_t end) {
  bool is_beside = false;
  std::string location;
  for (uint64_t at = begin; at < end;) {
    WireCursor::Field field;
    cursor->Seek(at);
    CASK_RETURN_IF_ERROR(cursor->ReadField(end, &field));
    at = field.end();
    if (field.number == kDataLocation && field.type == WireType::kVarint) is_beside = field.value == 1;
    if (field.number != kExternalData || field.type != WireType::kBytes) continue;
    CASK_ASSIGN_OR_RETURN(ExternalEntry entry, ReadEntry(cursor, field.begin, field.end()));
    if (entry.first == "location") location = std::move(entry.second);
  }
  if (!is_beside) return std::nullopt;
  return location;
}

uint64_t ValueBytes(const TensorMessage& tensor) {
  return NumValues(tensor).value_or(0) * static_cast<uint64_t>(tensor.type->value_bytes);
}

absl::Status ReadValues(WireCursor* cursor, const TensorMessage& tensor, absl::Span<char> out) {
  const TypeRow& type = *tensor.type;
  const auto bytes = static_cast<size_t>(type.value_bytes);
  const bool is_integer = type.field != kFloatData && type.field != kDoubleData;
  CASK_RETURN_IF_ERROR(ForEachValue(cursor, tensor, [&](uint64_t value) {
    if (out.size() < bytes || (is_integer && !IsValue(type, &value))) return Changed(tensor);
    char wide[sizeof(value)];
    StoreLittleEndian(value, wide);
    std::copy_n(wide, bytes, out.begin());
    out.remove_prefix(bytes);
    return absl::OkStatus();
  }));
  return out.empty() ? absl::OkStatus() : Changed(tensor);
}

absl::Status ReadStrings(WireCursor* cursor, const TensorMessage& tensor, absl::Span<std::string> out) {
  uint64_t left = tensor.stored_bytes;
  cursor->Seek(tensor.begin);
  while (cursor->position() < tensor.end) {
    WireCursor::Field field;
    CASK_RETURN_IF_ERROR(cursor->ReadField(tensor.end, &field));
    if (field.number == kStringData) {
      if (out.empty() || field.size > left) return Changed(tensor);
      left -= field.size;
      std::string& text = out.front();
      text.resize(static_cast<size_t>(field.size));
      CASK_RETURN_IF_ERROR(cursor->ReadBytes(absl::MakeSpan(&text[0], text.size())));
      out.remove_prefix(1);
    }
    cursor->Seek(field.end());
  }
  return out.empty() ? absl::OkStatus() : Changed(tensor);
}

}  // namespace tensorcask::onnx
