// Writes a payload of a given form: header, chunks in order, index (FORMAT.md).
//
//   CASK_ASSIGN_OR_RETURN(PayloadSummary summary, WritePayload(header, streams, /*base=*/nullptr, threads, sink));

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PAYLOAD_WRITER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PAYLOAD_WRITER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/internal/element_streams.h"
#include "tensorcask/serialize/payload/payload_header.h"

namespace tensorcask::payload {

// An upper bound of the bytes that WritePayload writes.
uint64_t MaxPayloadBytes(const PayloadHeader& header);

// Codes chunks on num_threads threads. Each needs the memory of a ChunkEncoder and, if the elements are not contiguous,
// a chunk. Equal coded chunks are stored once. `base` is not null for a delta. Requires: the header describes the
// elements.
// Errors: those of the sink; ResourceExhausted.
absl::StatusOr<PayloadSummary> WritePayload(const PayloadHeader& header, const ElementStreams& streams,
                                            const ElementStreams* base, int num_threads, ByteSink* sink);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PAYLOAD_WRITER_H_
