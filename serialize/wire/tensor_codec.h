// Tensor <-> TensorProto.
//
//   TensorProto proto;
//   CASK_RETURN_IF_ERROR(EncodeTensor(tensor, {}, &proto));          // a Tensor, or any TensorView
//   CASK_ASSIGN_OR_RETURN(Tensor same, DecodeTensor(proto));
//
//   TensorMetadata metadata;
//   metadata.name = "encoder.weight";
//   CASK_RETURN_IF_ERROR(EncodeTensor(view, metadata, {}, &proto));  // and what travels beside it
//   CASK_ASSIGN_OR_RETURN(DecodedTensor both, DecodeTensorWithMetadata(proto));
//
// The messages are TensorFlow's: its rules for what a message means, its field numbers, and byte for byte what its
// encoders write (FORMAT.md; tried on the messages in its own files). For whole messages as bytes, without a protobuf
// object and its copies, see zero_copy.h.

#ifndef TENSORCASK_SERIALIZE_WIRE_TENSOR_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_TENSOR_CODEC_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// Fills *out with the elements of `view`, little-endian, row-major unless options.layout says otherwise, and with the
// metadata. *out is cleared first, and may be a field of a larger message: EncodeTensor(t, {},
// request.mutable_input()). On error *out is empty. Equal elements, strides, metadata and options give equal bytes.
// Errors: InvalidArgument for metadata that the tensor cannot have (TensorMetadata::Validate, and a memory format of
// another rank), for more than 2 GiB, which a protobuf message cannot hold (zero_copy.h can), for a string of 4 GiB in
// tensor_content, and for resources and variants that no message holds (text that is not UTF-8, variants in variants
// deeper than readers take by default), chunk_bytes that cannot be, and a base of another dtype or number of elements;
// ResourceExhausted; FailedPrecondition for a buffer without data.
absl::Status EncodeTensor(const TensorView& view, const EncodeOptions& options, TensorProto* out);
absl::Status EncodeTensor(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                          TensorProto* out);

// The inverse. The result owns 64-byte-aligned memory; `proto` may be discarded. DecodeTensor gives a row-major tensor
// whatever order the message has, and leaves metadata unread.
// Errors (all but DataLoss, and what is wrong in a chunk of a payload, are ruled out before memory is taken):
// InvalidArgument, naming the field, what was found and what was wanted, for a message whose fields disagree;
// ResourceExhausted past a limit; DataLoss if a checksum in it is wrong; Unimplemented for dtypes and payloads newer
// than this build. Of the encoded form besides: DataLoss for a damaged chunk; FailedPrecondition for a delta without
// the base that it is to (options.base). Messages about its payload begin with "payload: ".
absl::StatusOr<Tensor> DecodeTensor(const TensorProto& proto, const DecodeOptions& options = {});
// Besides: InvalidArgument, naming the field, for metadata that no tensor of this dtype and rank has, and for a device
// that options.device_map does not take.
absl::StatusOr<DecodedTensor> DecodeTensorWithMetadata(const TensorProto& proto, const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_CODEC_H_
