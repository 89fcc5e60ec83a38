// Two sinks for the fields of a message: one measures them, the other writes them. Internal.
//
//   MeasuringSink measure;
//   Send(handle, &measure);              // Send is a template over the sink
//   WritingSink write{out};
//   Send(handle, &write);                // advances write.out by measure.bytes
//
// Both skip empty bytes and numbers that are 0, as proto3 does.

#ifndef TENSORCASK_SERIALIZE_PROTOWIRE_FIELD_SINKS_H_
#define TENSORCASK_SERIALIZE_PROTOWIRE_FIELD_SINKS_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::internal {

struct MeasuringSink {
  uint64_t bytes = 0;
  void Bytes(uint32_t number, absl::string_view text) {
    if (!text.empty()) bytes += BytesFieldBytes(number, text.size());
  }
  void Number(uint32_t number, uint64_t value) {
    if (value != 0) bytes += VarintSize(WireTag(number, WireType::kVarint)) + VarintSize(value);
  }
  void Fixed32(uint32_t number, uint32_t) { bytes += VarintSize(WireTag(number, WireType::kFixed32)) + 4; }
  // The tag and length of a field of `size` bytes, which follow.
  void Length(uint32_t number, uint64_t size) { bytes += BytesFieldBytes(number, size) - size; }
  void Varint(uint64_t value) { bytes += VarintSize(value); }
};

struct WritingSink {
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

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_PROTOWIRE_FIELD_SINKS_H_
