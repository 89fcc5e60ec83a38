// Writes a payload of which it is decided what it shall be: head, chunks as they come, index (FORMAT.md).
//
//   CASK_ASSIGN_OR_RETURN(PayloadSummary summary, WritePayload(head, streams, /*base=*/nullptr, threads, sink));

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_WRITER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_WRITER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/element_streams.h"
#include "tensorcask/serialize/payload/payload_head.h"

namespace tensorcask::payload {

// The most that WritePayload writes.
uint64_t MaxPayloadBytes(const PayloadHead& head);

// Chunks are coded on num_threads threads, each of which takes the memory of a ChunkEncoder and, of what is not
// contiguous, a chunk. Chunks that are stored as the same bytes are stored once. `base` is not null for a delta.
// Requires: the head is that of the elements. Errors: of the sink; ResourceExhausted.
absl::StatusOr<PayloadSummary> WritePayload(const PayloadHead& head, const ElementStreams& streams,
                                            const ElementStreams* base, int num_threads, ByteSink* sink);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_WRITER_H_
