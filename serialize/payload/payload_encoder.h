// Tensors as encoded payloads: smaller, checked chunk by chunk, readable by slice.
//
//   std::string bytes;
//   StringSink sink(&bytes);
//   CASK_ASSIGN_OR_RETURN(auto written, EncodePayload(weights, {}, &sink));
//   if (!written) ...                        // nothing was written: it would not save 2 %
//   written->stored_bytes;                   // of written->decoded_bytes
//
// The bytes are described in FORMAT.md and read by payload_reader.h.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_ENCODER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct PayloadOptions {
  PayloadLevel level = PayloadLevel::kDefault;
  // Decoded bytes of a chunk, a power of two from 64 KiB to 4 MiB. Whoever reads many small slices wants small ones.
  size_t chunk_bytes = size_t{1} << 20;
  int num_threads = 1;  // the bytes do not depend on it
  // Another tensor of the same dtype and number of elements, say the same weights some steps ago: only differences are
  // stored where that is smaller. A reader needs it. Ignored for strings and bool. Must not be one that itself is
  // stored as a delta.
  const TensorView* base = nullptr;
  // Write the payload even if it saves less than 2 %; kStored does so always.
  bool always = false;
};

// Appends the payload of `view` to *sink, whose first byte should come to lie at a multiple of 64 if raw chunks are to
// be used where they lie. Nothing is written, and the result is empty, if it saves less than 2 %: judged on samples
// from all of the tensor, and on everything if that is 16 MiB or less and samples do not say clearly. Memory: some
// chunks a thread, and up to 16 MiB, with a base twice; of strings 8 bytes each besides, and of a strided view of them
// a copy. Errors: InvalidArgument for options that cannot be, a base of another dtype or number of elements;
// Unimplemented for resources and variants; of the sink; FailedPrecondition for a buffer without data;
// ResourceExhausted.
absl::StatusOr<std::optional<PayloadSummary>> EncodePayload(const TensorView& view, const PayloadOptions& options,
                                                            ByteSink* sink);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_ENCODER_H_
