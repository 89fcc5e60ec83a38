#include "tensorcask/serialize/wire/extension_writer.h"

#include <cstring>
#include <string>

#include "tensorcask/serialize/wire/content_bytes.h"
#include "tensorcask/serialize/wire/wire_writer.h"
#include "tensorcask/tensor/base/endian.h"

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

// Both of these leave out what is empty or 0, as proto3 does.
struct Measure {
  uint64_t bytes = 0;
  void Bytes(uint32_t number, absl::string_view text) {
    if (!text.empty()) bytes += BytesFieldBytes(number, text.size());
  }
  void Number(uint32_t number, uint64_t value) {
    if (value != 0) bytes += VarintBytes(WireTag(number, WireType::kVarint)) + VarintBytes(value);
  }
  void Fixed32(uint32_t number, uint32_t) { bytes += VarintBytes(WireTag(number, WireType::kFixed32)) + 4; }
  void Length(uint32_t number, uint64_t size) { bytes += BytesFieldBytes(number, size) - size; }
  void Varint(uint64_t value) { bytes += VarintBytes(value); }
};

struct Write {
  char* out;
  void Bytes(uint32_t number, absl::string_view text) {
    if (text.empty()) return;
    Length(number, text.size());
    std::memcpy(out, text.data(), text.size());
    out += text.size();
  }
  void Number(uint32_t number, uint64_t value) {
    if (value == 0) return;
    out = WriteTag(number, WireType::kVarint, out);
    out = WriteVarint(value, out);
  }
  void Fixed32(uint32_t number, uint32_t value) {
    out = WriteTag(number, WireType::kFixed32, out);
    StoreLittleEndian(value, out);
    out += sizeof(value);
  }
  void Length(uint32_t number, uint64_t size) {
    out = WriteTag(number, WireType::kBytes, out);
    out = WriteVarint(size, out);
  }
  void Varint(uint64_t value) { out = WriteVarint(value, out); }
};

// Sends the fields of the extension to `sink`, in order.
template <typename Sink>
void Send(const ExtensionContent& content, uint32_t crc, Sink* sink) {
  const TensorMetadata& metadata = *content.metadata;
  sink->Bytes(kName, metadata.name);
  if (metadata.device != Device()) sink->Bytes(kDevice, metadata.device.ToString());
  sink->Number(kDType, static_cast<uint64_t>(content.dtype_number));
  if (!content.strides.empty()) {
    Measure packed;
    for (const int64_t stride : content.strides) packed.Varint(static_cast<uint64_t>(stride));
    sink->Length(kStrides, packed.bytes);
    for (const int64_t stride : content.strides) sink->Varint(static_cast<uint64_t>(stride));
  }
  sink->Number(kStorageOffset, static_cast<uint64_t>(content.storage_offset));
  sink->Number(kMemoryFormat, static_cast<uint64_t>(metadata.memory_format));
  sink->Number(kRequiresGrad, metadata.requires_grad ? 1 : 0);
  if (content.checksum) sink->Fixed32(kChecksum, StoredCrc32c(crc));
  for (const auto& [key, value] : metadata.attributes) {
    Measure attribute;
    attribute.Bytes(kKey, key);
    attribute.Bytes(kValue, value);
    sink->Length(kAttributes, attribute.bytes);
    sink->Bytes(kKey, key);
    sink->Bytes(kValue, value);
  }
}

}  // namespace

uint64_t ExtensionBytes(const ExtensionContent& content) {
  Measure measure;
  Send(content, 0, &measure);
  return measure.bytes;
}

char* WriteExtension(const ExtensionContent& content, uint32_t crc, char* out) {
  Write write{out};
  Send(content, crc, &write);
  return write.out;
}

}  // namespace tensorcask::internal
