// Tensors to and from serialized TensorProto messages without a protobuf object in between. The elements are copied
// once, straight into memory of the caller.
//
//   CASK_ASSIGN_OR_RETURN(uint64_t size, EncodedSize(tensor, {}));
//   std::string message(size, '\0');
//   CASK_RETURN_IF_ERROR(EncodeTensorTo(tensor, {}, absl::MakeSpan(&message[0], size)));
//   CASK_RETURN_IF_ERROR(DecodeTensorInto(message, {}, &existing));   // same dtype and shape
//
// The bytes are exactly those that EncodeTensor and protobuf's SerializeToString write, and each side parses the bytes
// of the other. Messages may be larger than 2 GiB (DecodeLimits::max_message_bytes is the limit).

#ifndef TENSORCASK_SERIALIZE_WIRE_SERIALIZED_TENSOR_H_
#define TENSORCASK_SERIALIZE_WIRE_SERIALIZED_TENSOR_H_

#include "tensorcask/tensor/base/cxx17.h"

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

// The size of the message that EncodeTensorTo writes, in bytes. If options.payload.level is above kStored, this
// function encodes the tensor to find the size, and EncodeTensorTo encodes it again; EncodeTensorToPieces (zero_copy.h)
// encodes it once. A tensor on a device is copied to the host twice in the same way.
// Errors: those of EncodeTensor, without the limit of 2 GiB.
absl::StatusOr<uint64_t> EncodedSize(const TensorView& view, const EncodeOptions& options);
absl::StatusOr<uint64_t> EncodedSize(const TensorView& view, const TensorMetadata& metadata,
                                     const EncodeOptions& options);

// Writes the message to `out`, with the elements in row-major order (or as options.layout says). Elements of a strided
// view are gathered directly into `out`.
// Errors: those of EncodeTensor, without the limit of 2 GiB.
// Requires: out.size() is what EncodedSize returns for the same arguments.
absl::Status EncodeTensorTo(const TensorView& view, const EncodeOptions& options, absl::Span<char> out);
absl::Status EncodeTensorTo(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                            absl::Span<char> out);

// The tensor in `message`, in memory of its own. Both functions accept the same messages as DecodeTensor and
// DecodeTensorWithMetadata, with the same errors.
// Further error: InvalidArgument, with the position, for bytes that are not a protobuf message.
absl::StatusOr<Tensor> DecodeSerializedTensor(absl::string_view message, const DecodeOptions& options = {});
absl::StatusOr<DecodedTensor> DecodeSerializedTensorWithMetadata(absl::string_view message,
                                                                 const DecodeOptions& options = {});

// Decodes into the memory of *out. Its dtype and shape must be those of the message (else InvalidArgument, naming
// both). If *out is not contiguous, or the message has strides, the elements go through a temporary dense tensor. An
// encoded message is decoded directly into any view, unless the view shares a buffer with its base. On error the
// elements of *out are unspecified.
absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, TensorView* out);
absl::Status DecodeTensorInto(absl::string_view message, const DecodeOptions& options, Tensor* out);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_SERIALIZED_TENSOR_H_
