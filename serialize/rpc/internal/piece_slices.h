// One piece as the message that gRPC sends: the data stays where it is.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_SLICES_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_SLICES_H_

#include <grpcpp/support/byte_buffer.h>

#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/piece.h"

namespace tensorcask::rpc {

// Computes the checksum. `header` has all else but the size of the data. The result keeps piece.held.
grpc::ByteBuffer MakePieceBuffer(PieceHeader header, ItemBytes::Piece piece);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_SLICES_H_
