// Sends the fields of a TensorShapeProto to a sink (protowire/field_sinks.h). Internal.
//
//   MeasuringSink measure;
//   SendShape(shape.dims(), /*unknown_rank=*/false, &measure);  // measure.bytes is the size of the message

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_SEND_SHAPE_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_SEND_SHAPE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "tensorcask/serialize/protowire/field_sinks.h"

namespace tensorcask::internal {

// A dim of -1 is an unknown dim of a partial shape.
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

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_SEND_SHAPE_H_
