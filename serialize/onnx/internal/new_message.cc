#include "tensorcask/serialize/onnx/internal/new_message.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::onnx {
namespace {

void AppendNumberField(uint32_t field, uint64_t value, std::string* out) {
  AppendVarint(internal::WireTag(field, WireType::kVarint), out);
  AppendVarint(value, out);
}

void AppendBytesField(uint32_t field, absl::string_view bytes, std::string* out) {
  AppendVarint(internal::WireTag(field, WireType::kBytes), out);
  AppendVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

constexpr uint32_t kModelMetadata = 14;  // ModelProto.metadata_props

// A message with a key and a value.
void AppendEntry(uint32_t field, absl::string_view key, absl::string_view value, std::string* out) {
  AppendBytesField(field, MetadataEntry(key, value), out);
}

}  // namespace

uint64_t StoredBytes(const TypeRow& type, const TensorShape& shape) {
  const auto count = static_cast<uint64_t>(shape.num_elements());
  const auto bits = static_cast<uint64_t>(type.bits);
  return bits >= 8 ? count * (bits / 8) : count / 8 * bits + (count % 8 * bits + 7) / 8;
}

bool IsOfElements(uint32_t field) {
  switch (field) {
    case kDims:
    case kDataType:
    case kFloatData:
    case kInt32Data:
    case kStringData:
    case kInt64Data:
    case kRawData:
    case kDoubleData:
    case kUint64Data:
    case kExternalData:
    case kDataLocation:
      return true;
    default:
      return false;
  }
}

NewMessage MakeMessage(const TensorContent& content, absl::string_view first, absl::string_view last) {
  NewMessage message;
  for (const int64_t dim : content.shape->dims()) {
    AppendNumberField(kDims, static_cast<uint64_t>(dim), &message.before);
  }
  AppendNumberField(kDataType, static_cast<uint64_t>(content.type->number), &message.before);
  absl::StrAppend(&message.before, first);
  if (content.name != nullptr) AppendBytesField(kName, *content.name, &message.before);
  if (content.side_file.empty() && content.stored_bytes > 0) {
    AppendVarint(internal::WireTag(kRawData, WireType::kBytes), &message.before);
    AppendVarint(content.stored_bytes, &message.before);
    message.element_bytes = content.stored_bytes;
  } else if (!content.side_file.empty()) {
    AppendEntry(kExternalData, "location", content.side_file, &message.after);
    AppendEntry(kExternalData, "offset", absl::StrCat(content.side_offset), &message.after);
    AppendEntry(kExternalData, "length", absl::StrCat(content.stored_bytes), &message.after);
    AppendNumberField(kDataLocation, 1, &message.after);
  }
  absl::StrAppend(&message.after, last);
  return message;
}

std::string MetadataEntry(absl::string_view key, absl::string_view value) {
  std::string entry;
  AppendBytesField(1, key, &entry);
  AppendBytesField(2, value, &entry);
  return entry;
}

void AppendMetadata(absl::string_view key, absl::string_view value, std::string* out) {
  AppendEntry(kModelMetadata, key, value, out);
}

}  // namespace tensorcask::onnx
