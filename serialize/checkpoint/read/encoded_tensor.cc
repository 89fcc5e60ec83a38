#include "tensorcask/serialize/checkpoint/read/encoded_tensor.h"

#include "tensorcask/serialize/payload/payload_header.h"

namespace tensorcask::checkpoint {

absl::Status InFile(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

absl::StatusOr<PayloadReader> OpenPayload(const std::shared_ptr<const ByteSource>& file, const CheckpointEntry& entry,
                                          const CheckpointReaderOptions& options) {
  PayloadReadOptions read;
  read.limits = options.limits;
  read.num_threads = options.read.strategy == ReadStrategy::kParallel ? options.read.num_threads : 1;
  read.verify = options.verify == Verify::kOnRead;
  absl::StatusOr<PayloadReader> payload = PayloadReader::Open(file, entry.offset, entry.stored_bytes, read);
  // This version knows the header in the index, so a header in the data file that it does not know is a different one.
  if (absl::IsUnimplemented(payload.status()) || (payload.ok() && payload->header() != *entry.payload)) {
    return absl::DataLossError("the header of its payload is not the one that the index has");
  }
  if (!payload.ok()) return InFile(payload.status());
  return payload;
}

}  // namespace tensorcask::checkpoint
