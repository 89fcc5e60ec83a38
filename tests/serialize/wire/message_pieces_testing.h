// Messages in pieces: as one text, and as a cord of many chunks.

#ifndef TENSORCASK_TESTS_SERIALIZE_WIRE_MESSAGE_PIECES_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_WIRE_MESSAGE_PIECES_TESTING_H_

#include <cstddef>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/zero_copy.h"

namespace tensorcask::testing {

inline std::string Joined(const MessagePieces& message) {
  std::string text;
  for (const absl::string_view piece : message.pieces) text.append(piece.data(), piece.size());
  return text;
}

// `text` in chunks of `chunk_bytes`, each in memory of its own.
inline absl::Cord InChunks(absl::string_view text, size_t chunk_bytes) {
  absl::Cord cord;
  for (size_t at = 0; at < text.size(); at += chunk_bytes) {
    auto* chunk = new std::string(text.substr(at, chunk_bytes));
    cord.Append(absl::MakeCordFromExternal(*chunk, [chunk] { delete chunk; }));
  }
  return cord;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_WIRE_MESSAGE_PIECES_TESTING_H_
