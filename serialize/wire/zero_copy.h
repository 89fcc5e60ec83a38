// Tensors to and from messages without copying the elements. A message refers to the elements in the buffer of the
// tensor and keeps that buffer alive; a decoded tensor refers to the memory of the message and keeps that alive.
//
//   CASK_ASSIGN_OR_RETURN(absl::Cord message, EncodeTensorToCord(view, metadata, {}));  // writes some header bytes
//   CASK_ASSIGN_OR_RETURN(DecodedTensor same, DecodeTensorFromCord(message));           // in the buffer of `view`
//
// The bytes are those of EncodeTensorTo; messages may be larger than 2 GiB. Without a checksum the elements are not
// even read (except bools, which decoding checks). So the caller must not write to the elements while a message refers
// to them. To continue writing, encode a Clone() instead. (A cord copies pieces of up to some hundred bytes.)

#ifndef TENSORCASK_SERIALIZE_WIRE_ZERO_COPY_H_
#define TENSORCASK_SERIALIZE_WIRE_ZERO_COPY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// A message in pieces, for writev and similar calls.
struct MessagePieces {
  std::vector<absl::string_view> pieces;  // in order, none empty
  RefPtr<RefCounted> owner;               // keeps all pieces alive
};

// The message refers to the elements of `view` if they have a fixed size, are written as content, and are in memory in
// the order of the message (with StoredLayout::kPreserve this holds for every dense view). All other elements are
// copied: strided views, strings and objects, values in typed fields. Elements in external or mapped memory are copied
// if there is a checksum: another process may change them after it was computed. The payload of an encoded tensor is a
// piece of its own.
// Errors: those of EncodeTensor, without the limit of 2 GiB.
absl::StatusOr<MessagePieces> EncodeTensorToPieces(const TensorView& view, const TensorMetadata& metadata,
                                                   const EncodeOptions& options);
absl::StatusOr<absl::Cord> EncodeTensorToCord(const TensorView& view, const TensorMetadata& metadata,
                                              const EncodeOptions& options);

// The tensor in `message`. Its elements stay in the memory of the cord if they are content in one chunk, at an address
// that is aligned for their type; otherwise they are copied. The first write to the tensor copies the elements. A cord
// of several chunks is not flattened; but then values in typed fields, and payloads, are copied once more. An encoded
// tensor is decoded into memory of its own.
// Errors: those of DecodeSerializedTensorWithMetadata.
absl::StatusOr<DecodedTensor> DecodeTensorFromCord(const absl::Cord& message, const DecodeOptions& options = {});

// The same for bytes in one piece, a mapped file for example. `owner` keeps the bytes alive; they must not change. (The
// header of a message can have any size, so the elements are aligned only if the program that stored the message
// aligned them.)
absl::StatusOr<DecodedTensor> DecodeTensorInPlace(absl::string_view message, const RefPtr<RefCounted>& owner,
                                                  const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_ZERO_COPY_H_
