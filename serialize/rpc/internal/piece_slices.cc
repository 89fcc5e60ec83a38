#include "tensorcask/serialize/rpc/internal/piece_slices.h"

#include <array>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::rpc {
namespace {

void ReleaseHeld(void* held) { delete static_cast<std::shared_ptr<const void>*>(held); }

}  // namespace

grpc::ByteBuffer MakePieceBuffer(PieceHeader header, ItemBytes::Piece piece) {
  header.crc32c = Crc32c(piece.bytes);
  header.data_bytes = piece.bytes.size();
  std::array<char, kMaxPieceHeaderBytes> bytes;
  const size_t size = EncodePieceHeader(header, absl::MakeSpan(bytes));
  const grpc::Slice slices[] = {grpc::Slice(bytes.data(), size),
                                grpc::Slice(const_cast<char*>(piece.bytes.data()), piece.bytes.size(), ReleaseHeld,
                                            new std::shared_ptr<const void>(std::move(piece.held)))};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace tensorcask::rpc
