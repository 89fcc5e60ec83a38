// Tensors to and from serialized TensorProto messages without a protobuf object in between: one copy, at memory speed,
// into memory the caller has.
//
//   CASK_ASSIGN_OR_RETURN(uint64_t size, EncodedTensorBytes(tensor, {}));
//   std::string message(size, '\0');
//   CASK_RETURN_IF_ERROR(EncodeTensorTo(tensor, {}, absl::MakeSpan(&message[0], size)));
//   CASK_RETURN_IF_ERROR(DecodeTensorInto(message, {}, &existing));   // same dtype and shape
//
// The bytes are those that EncodeTensor and protobuf's SerializeToString give, to the last one; each side parses the
// other's. Messages may be larger than 2 GiB here (DecodeLimits::max_message_bytes decides).

#ifndef TENSORCASK_SERIALIZE_WIRE_ZERO_COPY_H_
#define TENSORCASK_SERIALIZE_WIRE_ZERO_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// The size of the message that EncodeTensorTo writes. With an options.level above kStored it is found by encoding, and
// EncodeTensorTo encodes again: EncodeTensorToPieces (pieces.h) does so once. Errors: as EncodeTensor, but for the
// limit of 2 GiB.
absl::StatusOr<uint64_t> EncodedTensorBytes(const TensorView& view, const EncodeOptions& options);
absl::StatusOr<uint64_t> EncodedTensorBytes(const TensorView& view, const TensorMetadata& metadata,
                                            const EncodeOptions& options);

// Writes the message to `out`: elements in row-major order (or as options.layout says), gathered from a view of other
// strides straight to where they belong. Errors: as EncodeTensor, but for the limit of 2 GiB. Requires: out.size() is
// what EncodedTensorBytes says of the same arguments.
absl::Status EncodeTensorTo(const TensorView& view, const EncodeOptions& options, absl::Span<char> out);
absl::Status EncodeTensorTo(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                            absl::Span<char> out);

// The tensor in `message`, in its own memory. Accepts and refuses what DecodeTensor and DecodeTensorWithMetadata do of
// the parsed message; besides: InvalidArgument, with the position, for bytes that are no message.
absl::StatusOr<Tensor> DecodeTensorBytes(absl::string_view message, const DecodeOptions& options = {});
absl::StatusOr<DecodedTensor> DecodeTensorBytesWithMetadata(absl::string_view message,
                                                            const DecodeOptions& options = {});

// The same into the memory of *out, whose dtype and shape must be those of the message (InvalidArgument, naming both).
// A view that is not contiguous is filled by way of a dense tensor, and so is any from a message with strides; but an
// encoded message is decoded straight into any view, unless that is on the memory of options.base. On error the
// elements of *out are unspecified.
absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, TensorView* out);
absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, Tensor* out);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_ZERO_COPY_H_
