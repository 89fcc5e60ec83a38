// Matches the sliced tensors of an index with the entries of their pieces, in one walk. Both are sorted by the name of
// the tensor, so that no piece must be kept in memory.
//
//   PieceWalk walk(table, &memory, orphan);
//   for each sliced tensor, in the order of the names:
//     CASK_RETURN_IF_ERROR(walk.Visit(tensor, [&](size_t slice, const PieceWalk::Piece* piece) { ... }));
//   CASK_RETURN_IF_ERROR(walk.Finish());

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_PIECE_WALK_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_PIECE_WALK_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/decode_quota.h"

namespace tensorcask::checkpoint {

class PieceWalk {
 public:
  struct Piece {
    absl::string_view key;
    absl::string_view value;  // both valid during the call
    uint32_t number = 0;      // the number of the key in the table, counted without the header
  };
  using Orphan = absl::FunctionRef<void(const Piece&)>;

  // `memory` is charged with the memory of the walk. Calls orphan(piece) for each piece that no visited tensor lists;
  // keys increase. All three outlive this.
  PieceWalk(const TableReader& table, DecodeQuota* memory, Orphan orphan)
      : memory_(memory), orphan_(orphan), cursor_(table.NewCursor(memory)) {}

  // Calls visit(i, piece) for each of tensor.slices, in the order of their keys; `piece` is null if it is not stored.
  // Requires: names increase from call to call. Errors: those of the table; those of the quota; those of visit, at
  // once.
  absl::Status Visit(const CheckpointEntry& tensor,
                     absl::FunctionRef<absl::Status(size_t i, const Piece* piece)> visit);

  // Reports the orphans after the last tensor.
  absl::Status Finish() { return Advance(nullptr); }

 private:
  // Moves to the first piece whose key is not less than `key`; null: past all pieces.
  absl::Status Advance(const absl::string_view* key);

  DecodeQuota* const memory_;
  const Orphan orphan_;
  const std::unique_ptr<TableReader::Cursor> cursor_;
  Piece current_;
  bool has_current_ = false;
  bool is_listed_ = false;  // the current piece
  bool at_end_ = false;
  uint32_t count_ = 0;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_PIECE_WALK_H_
