// One way to say what a message holds, sent to one of two sinks: one measures, the other writes. Internal.
//
//   MeasuringSink measure;
//   Send(handle, &measure);              // Send is a template over the sink
//   WritingSink write{out};
//   Send(handle, &write);                // write.out is now measure.bytes further
//
// Both leave out bytes that are empty and numbers that are 0, as proto3 does.

#ifndef TENSORCASK_SERIALIZE_WIRE_FIELD_SINKS_H_
#define TENSORCASK_SERIALIZE_WIRE_FIELD_SINKS_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/serialize/wire/wire_writer.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::internal {

struct MeasuringSink {
  uint64_t bytes = 0;
  void Bytes(uint32_t number, absl::string_view text) {
    if (!text.empty()) bytes += BytesFieldBytes(number, text.size());
  }
  void Number(uint32_t number, uint64_t value) {
    if (value != 0) bytes += VarintBytes(WireTag(number, WireType::kVarint)) + VarintBytes(value);
  }
  void Fixed32(uint32_t number, uint32_t) { bytes += VarintBytes(WireTag(number, WireType::kFixed32)) + 4; }
  // The tag and length of a field of `size` bytes, which follow.
  void Length(uint32_t number, uint64_t size) { bytes += BytesFieldBytes(number, size) - size; }
  void Varint(uint64_t value) { bytes += VarintBytes(value); }
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

// The fields of a TensorShapeProto: a dim of -1 is an unknown one.
template <typename Sink>
void SendShape(absl::Span<const int64_t> dims, bool unknown_rank, Sink* sink) {
  constexpr uint32_t kDim = 2;
  constexpr uint32_t kUnknownRank = 3;
  constexpr uint32_t kSize = 1;  // in Dim
  for (const int64_t size : dims) {
    MeasuringSink dim;
    dim.Number(kSize, static_cast<uint64_t>(size));
    sink->Length(kDim, dim.bytes);
    sink->Number(kSize, static_cast<uint64_t>(size));
  }
  sink->Number(kUnknownRank, unknown_rank ? 1 : 0);
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_FIELD_SINKS_H_
