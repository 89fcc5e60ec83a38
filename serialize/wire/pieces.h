// Tensors to and from messages without a copy of the elements: they stay where they are, and the message, or the tensor
// made from it, keeps that memory alive.
//
//   CASK_ASSIGN_OR_RETURN(absl::Cord message, EncodeTensorToCord(view, metadata, {}));       // some bytes are written
//   CASK_ASSIGN_OR_RETURN(DecodedTensor same, DecodeTensorFromCord(message));                // on the memory of `view`
//
// The bytes are those of EncodeTensorTo; messages may be larger than 2 GiB. Without a checksum the elements are not
// even read (but for bools, which are checked on decoding). So they must not be written while a message refers to them:
// who goes on writing encodes a Clone. (A cord copies pieces of some hundred bytes instead.)

#ifndef TENSORCASK_SERIALIZE_WIRE_PIECES_H_
#define TENSORCASK_SERIALIZE_WIRE_PIECES_H_

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

// A message in pieces, as writev and its like take them.
struct MessagePieces {
  std::vector<absl::string_view> pieces;  // in order, none empty
  RefPtr<RefCounted> owner;               // keeps all of them alive
};

// Elements are referred to if they are content, of fixed size, and lie in memory as they are to stand in the message
// (with StoredLayout::kPreserve any dense view does). All else is gathered or written out first: strided views,
// objects, values; so is an encoded tensor, whose payload then is a piece of its own. Errors: as EncodeTensor, but for
// the limit of 2 GiB.
absl::StatusOr<MessagePieces> EncodeTensorToPieces(const TensorView& view, const TensorMetadata& metadata,
                                                   const EncodeOptions& options);
absl::StatusOr<absl::Cord> EncodeTensorToCord(const TensorView& view, const TensorMetadata& metadata,
                                              const EncodeOptions& options);

// The tensor in `message`. Its elements stay in the memory of the cord if they are content, in one chunk, at an address
// that their type allows, and are copied otherwise; a write to the tensor copies first. A cord in chunks is taken apart
// without flattening it; values in the typed fields, and payloads, are then copied once more. An encoded tensor is
// decoded into memory of its own. Errors: as
// DecodeTensorBytesWithMetadata.
absl::StatusOr<DecodedTensor> DecodeTensorFromCord(const absl::Cord& message, const DecodeOptions& options = {});

// The same for bytes in one piece, a mapped file for example, that `owner` keeps alive and nobody writes. (Whether the
// elements are aligned is up to whoever placed the message; those of a message at its own alignment rarely are.)
absl::StatusOr<DecodedTensor> DecodeTensorInPlace(absl::string_view message, const RefPtr<RefCounted>& owner,
                                                  const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_PIECES_H_
