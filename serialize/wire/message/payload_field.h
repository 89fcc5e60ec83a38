// Field 10 of the extension, the payload of the encoded form (FORMAT.md section 2.6): from a tensor to memory and back.
// Internal. Errors of serialize/payload keep their code and begin with "payload: ".

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_PAYLOAD_FIELD_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_PAYLOAD_FIELD_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// The payload of a tensor called `name` as uint8 [n] in a buffer of its own; nothing if it saves less than 2 % of
// `plain_bytes`, the size of the elements in the plain form, or of the elements in memory. Errors: those of
// EncodePayload.
// Requires: PayloadHeader::Supports the dtype.
absl::StatusOr<std::optional<TensorView>> EncodePayloadField(const TensorView& view, absl::string_view name,
                                                             const EncodeOptions& options, uint64_t plain_bytes);

// Header and index of a payload that says it holds `dtype` and as many elements as `shape`. `payload` must outlive the
// result.
// Errors: InvalidArgument if it holds others; those of PayloadReader::Open.
absl::StatusOr<PayloadReader> OpenPayloadField(absl::string_view payload, DType dtype, const TensorShape& shape,
                                               const DecodeOptions& options);

// Gives a delta its base, the tensor called `name` in `base`; does nothing for other payloads.
// Errors: FailedPrecondition without a base, and if it is not the base of this delta.
absl::Status SetPayloadBase(const BaseLookup* base, absl::string_view name, PayloadReader* reader);

// All elements. Requires and errors: those of PayloadReader::ReadInto.
absl::Status ReadPayloadField(const PayloadReader& reader, TensorView* out);

// How many of the decoded bytes max_expansion does not allow for, so that they are charged to max_memory_beyond_input.
int64_t UnbackedPayloadBytes(uint64_t decoded_bytes, uint64_t payload_bytes, const DecodeLimits& limits);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_PAYLOAD_FIELD_H_
