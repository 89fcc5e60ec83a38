// One message of a Pull on the wire: a short header, and the bytes (FORMAT.md section 4). The header is read and
// written without protobuf's classes, which would copy the bytes.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::rpc {

// What a server puts into one piece: whole elements of every size.
inline constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// What a client accepts.
inline constexpr uint64_t kMaxPieceBytes = uint64_t{4} << 20;
inline constexpr size_t kMaxPieceHeaderBytes = 64;

struct PieceHeader {
  uint32_t item = 0;
  uint64_t offset = 0;
  uint32_t crc32c = 0;
  uint64_t version_id = 0;
  uint64_t message_bytes = 0;
  uint64_t data_bytes = 0;
};

// Writes all of the message that stands before the data, and returns its size. Requires: out.size() is
// kMaxPieceHeaderBytes.
size_t EncodePieceHeader(const PieceHeader& header, absl::Span<char> out);

struct ParsedPiece {
  PieceHeader header;
  size_t header_bytes = 0;  // the data begins here
};

// `begin` is the start of a message of `total_bytes` bytes: all of it, or at least kMaxPieceHeaderBytes.
// Errors: DataLoss for bytes that are not a message, a known field of another type, data that is empty, too long or not
// the last field, a longer header. Unknown numbers in the header are skipped.
absl::StatusOr<ParsedPiece> ParsePieceHeader(absl::string_view begin, uint64_t total_bytes);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_PIECE_H_
