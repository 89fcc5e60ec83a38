// Tensor <-> TensorProto.
//
//   TensorProto proto;
//   CASK_RETURN_IF_ERROR(EncodeTensor(tensor, {}, &proto));          // a Tensor, or any TensorView
//   CASK_ASSIGN_OR_RETURN(Tensor same, DecodeTensor(proto));
//
//   TensorMetadata metadata;
//   metadata.name = "encoder.weight";
//   CASK_RETURN_IF_ERROR(EncodeTensor(view, metadata, {}, &proto));  // with a name, device, attributes
//   CASK_ASSIGN_OR_RETURN(DecodedTensor both, DecodeTensorWithMetadata(proto));
//
// The messages are TensorFlow's: the same field numbers, the same meaning, and byte for byte what TensorFlow's encoders
// write (FORMAT.md; tested on messages in TensorFlow's own files). serialized_tensor.h writes and reads messages as
// bytes without a protobuf object; zero_copy.h does so without copying the elements.

#ifndef TENSORCASK_SERIALIZE_WIRE_TENSOR_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_TENSOR_CODEC_H_

#include "tensorcask/tensor/base/cxx17.h"

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
// Errors:
//   InvalidArgument     metadata that this tensor cannot have (TensorMetadata::Validate, or a memory format of another
//                       rank); a message of more than 2 GiB, the limit of protobuf (serialized_tensor.h has no such
//                       limit); a string of 4 GiB or more in tensor_content; a resource or variant with text that is
//                       not UTF-8; variants nested deeper than readers accept by default; an invalid chunk_bytes; a
//                       base of another dtype or number of elements
//   ResourceExhausted   memory cannot be allocated
//   FailedPrecondition  the buffer of `view` has no data
absl::Status EncodeTensor(const TensorView& view, const EncodeOptions& options, TensorProto* out);
absl::Status EncodeTensor(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options,
                          TensorProto* out);

// The inverse. The result owns 64-byte-aligned memory; `proto` may be discarded. DecodeTensor returns a row-major
// tensor, whatever the order in the message, and does not read the metadata. Errors:
//   InvalidArgument     fields that disagree; the message names the field, what was found and what was expected
//   ResourceExhausted   a limit is exceeded, or memory cannot be allocated
//   DataLoss            a checksum does not match, or a chunk of a payload is damaged
//   Unimplemented       a dtype or payload that is newer than this build
//   FailedPrecondition  a delta without its base (options.base)
// Except for DataLoss, and for errors within a chunk, they are found before memory for elements is allocated. Messages
// about a payload begin with "payload: ".
absl::StatusOr<Tensor> DecodeTensor(const TensorProto& proto, const DecodeOptions& options = {});
// Further errors: InvalidArgument, naming the field, for metadata that a tensor of this dtype and rank cannot have, and
// for a device that options.device_map refuses; ResourceExhausted for a name past a limit.
// options.unreadable_metadata kSkip leaves out such metadata instead.
absl::StatusOr<DecodedTensor> DecodeTensorWithMetadata(const TensorProto& proto, const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_CODEC_H_
