// Decodes the metadata of a tensor from the extension of its message (FORMAT.md section 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_METADATA_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_METADATA_DECODER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::internal {

// The metadata in `fields`, for a tensor of this dtype and rank. Memory stays within what TensorMetadata::Validate
// allows.
// Errors: InvalidArgument, naming the field; ResourceExhausted for names and keys past max_name_bytes.
absl::StatusOr<TensorMetadata> DecodeMetadata(const TensorFields& fields, DType dtype, int rank,
                                              const DecodeOptions& options);

// Sets *metadata to the fields that can be read, and returns the first error of the others. The attributes count as one
// field.
absl::Status DecodeReadableMetadata(const TensorFields& fields, DType dtype, int rank, const DecodeOptions& options,
                                    TensorMetadata* metadata);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_METADATA_DECODER_H_
