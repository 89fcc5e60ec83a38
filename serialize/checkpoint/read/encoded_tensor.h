// Encoded entries: the payload in a data file (FORMAT.md section 5.5).
//
//   CASK_ASSIGN_OR_RETURN(PayloadReader payload, OpenPayload(file, entry, options));
//   CASK_RETURN_IF_ERROR(payload.SetBase(base, entry.name));   // for elements; not to verify
//   CASK_RETURN_IF_ERROR(payload.ReadSliceInto(entry.shape, slice, &part));
//
// Errors do not name the tensor.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_ENCODED_TENSOR_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_ENCODED_TENSOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/payload/payload_reader.h"

namespace tensorcask::checkpoint {

// Turns InvalidArgument, which a payload reports, into DataLoss, since the payload is in a file. Other errors stay.
absl::Status InFile(const absl::Status& status);

// Reads header and index. Requires: entry.payload is not null; its bytes lie in `file`.
// Errors: DataLoss, also for a header other than the one in the index; those of PayloadReader::Open.
absl::StatusOr<PayloadReader> OpenPayload(const std::shared_ptr<const ByteSource>& file, const CheckpointEntry& entry,
                                          const CheckpointReaderOptions& options);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_ENCODED_TENSOR_H_
