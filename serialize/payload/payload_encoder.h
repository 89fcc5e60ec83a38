// Tensors as encoded payloads: smaller, checked chunk by chunk, readable by slice.
//
//   std::string bytes;
//   StringSink sink(&bytes);
//   CASK_ASSIGN_OR_RETURN(auto written, EncodePayload(weights, {}, &sink));
//   if (!written) ...                        // nothing was written: it would save less than 2 %
//   written->stored_bytes;                   // less than written->decoded_bytes
//
// The bytes are described in FORMAT.md and read by payload_reader.h.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_ENCODER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_ENCODER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct PayloadWriteOptions {
  PayloadOptions payload = {PayloadLevel::kDefault};
  std::string name = {};  // names the tensor; payload.base is asked for the tensor of this name
  int num_threads = 1;    // at most; the bytes do not depend on it
  // Write the payload even if it saves less than 2 %. Level kStored always does.
  bool always = false;
};

// Appends the payload of `view` to *sink. The first byte should be stored at a multiple of 64, so that readers can use
// raw chunks in place. Writes nothing, and returns nothing, if the payload would save less than 2 %. Tensors over 16
// MiB are judged on samples from all of the tensor; smaller ones too where the samples are clear, else they are encoded
// in memory and measured. Memory: a few chunks a thread; up to 16 MiB, twice with a base; the base; for strings 8 bytes
// each, and a copy of a strided view.
// Errors: InvalidArgument for wrong options or a base that does not match; Unimplemented for resources and variants;
// FailedPrecondition for a buffer without data; ResourceExhausted; those of the sink.
absl::StatusOr<std::optional<PayloadSummary>> EncodePayload(const TensorView& view, const PayloadWriteOptions& options,
                                                            ByteSink* sink);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_ENCODER_H_
