// From the extension of a message to the metadata of a tensor (FORMAT.md section 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_METADATA_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_METADATA_DECODER_H_

#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::internal {

// What `fields` say of a tensor of this dtype and rank. Memory stays within what TensorMetadata::Validate allows.
// Errors: InvalidArgument, naming the field; ResourceExhausted for names and keys past max_name_bytes.
absl::StatusOr<TensorMetadata> DecodeMetadata(const TensorFields& fields, DType dtype, int rank,
                                              const DecodeOptions& options);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_METADATA_DECODER_H_
