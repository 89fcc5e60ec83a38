#include "tensorcask/serialize/wire/extension_writer.h"

#include <string>

#include "tensorcask/serialize/wire/field_sinks.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::internal {
namespace {

// Field numbers of TensorExtension, and of Attribute in it.
constexpr uint32_t kName = 1;
constexpr uint32_t kDevice = 2;
constexpr uint32_t kDType = 3;
constexpr uint32_t kStrides = 4;
constexpr uint32_t kStorageOffset = 5;
constexpr uint32_t kMemoryFormat = 6;
constexpr uint32_t kRequiresGrad = 7;
constexpr uint32_t kChecksum = 8;
constexpr uint32_t kAttributes = 9;
constexpr uint32_t kKey = 1;
constexpr uint32_t kValue = 2;

// Sends the fields of the extension to `sink`, in order.
template <typename Sink>
void Send(const ExtensionContent& content, uint32_t crc, Sink* sink) {
  const TensorMetadata& metadata = *content.metadata;
  sink->Bytes(kName, metadata.name);
  if (metadata.device != Device()) sink->Bytes(kDevice, metadata.device.ToString());
  sink->Number(kDType, static_cast<uint64_t>(content.dtype_number));
  if (!content.strides.empty()) {
    MeasuringSink packed;
    for (const int64_t stride : content.strides) packed.Varint(static_cast<uint64_t>(stride));
    sink->Length(kStrides, packed.bytes);
    for (const int64_t stride : content.strides) sink->Varint(static_cast<uint64_t>(stride));
  }
  sink->Number(kStorageOffset, static_cast<uint64_t>(content.storage_offset));
  sink->Number(kMemoryFormat, static_cast<uint64_t>(metadata.memory_format));
  sink->Number(kRequiresGrad, metadata.requires_grad ? 1 : 0);
  if (content.checksum) sink->Fixed32(kChecksum, StoredCrc32c(crc));
  for (const auto& [key, value] : metadata.attributes) {
    MeasuringSink attribute;
    attribute.Bytes(kKey, key);
    attribute.Bytes(kValue, value);
    sink->Length(kAttributes, attribute.bytes);
    sink->Bytes(kKey, key);
    sink->Bytes(kValue, value);
  }
}

}  // namespace

uint32_t StoredCrc32c(uint32_t crc) {
  const uint32_t masked = MaskCrc32c(crc);
  return masked == 0 ? 1 : masked;
}

uint64_t ExtensionBytes(const ExtensionContent& content) {
  MeasuringSink measure;
  Send(content, 0, &measure);
  return measure.bytes;
}

char* WriteExtension(const ExtensionContent& content, uint32_t crc, char* out) {
  WritingSink write{out};
  Send(content, crc, &write);
  return write.out;
}

}  // namespace tensorcask::internal
