#include "tensorcask/serialize/wire/message/extension_writer.h"

#include <string>

#include "tensorcask/serialize/protowire/field_sinks.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::internal {
namespace {

// Sends the fields of the extension to `sink`, in order.
template <typename Sink>
void Send(const ExtensionContent& content, uint32_t crc, Sink* sink) {
  const TensorMetadata& metadata = *content.metadata;
  sink->Bytes(ExtensionField::kName, metadata.name);
  if (metadata.device != Device()) sink->Bytes(ExtensionField::kDevice, metadata.device.ToString());
  sink->Number(ExtensionField::kDType, static_cast<uint64_t>(content.dtype_number));
  if (!content.strides.empty()) {
    MeasuringSink packed;
    for (const int64_t stride : content.strides) packed.Varint(static_cast<uint64_t>(stride));
    sink->Length(ExtensionField::kStrides, packed.bytes);
    for (const int64_t stride : content.strides) sink->Varint(static_cast<uint64_t>(stride));
  }
  sink->Number(ExtensionField::kStorageOffset, static_cast<uint64_t>(content.storage_offset));
  sink->Number(ExtensionField::kMemoryFormat, static_cast<uint64_t>(metadata.memory_format));
  sink->Number(ExtensionField::kRequiresGrad, metadata.requires_grad ? 1 : 0);
  if (content.checksum) sink->Fixed32(ExtensionField::kCrc32c, StoredCrc32c(crc));
  for (const auto& [key, value] : metadata.attributes) {
    MeasuringSink attribute;
    attribute.Bytes(AttributeField::kKey, key);
    attribute.Bytes(AttributeField::kValue, value);
    sink->Length(ExtensionField::kAttributes, attribute.bytes);
    sink->Bytes(AttributeField::kKey, key);
    sink->Bytes(AttributeField::kValue, value);
  }
  if (content.payload_bytes > 0) sink->Length(ExtensionField::kPayload, content.payload_bytes);
}

}  // namespace

uint32_t StoredCrc32c(uint32_t crc) {
  const uint32_t masked = MaskCrc32c(crc);
  return masked == 0 ? 1 : masked;
}

uint64_t ExtensionBytes(const ExtensionContent& content) {
  MeasuringSink measure;
  Send(content, 0, &measure);
  return measure.bytes + content.payload_bytes;
}

char* WriteExtension(const ExtensionContent& content, uint32_t crc, char* out) {
  WritingSink write{out};
  Send(content, crc, &write);
  return write.out;
}

}  // namespace tensorcask::internal
