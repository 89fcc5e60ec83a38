// Who writes which piece of a sharded save: computed from the declarations of all ranks, by the same rule on each.
//
//   std::string mine = EncodeDeclarations(pieces, &order);      // gathered and sent to all
//   CASK_ASSIGN_OR_RETURN(SavePlan plan, MakeSavePlan(declarations, /*rank=*/2));
//   for (const SavePlan::Piece& piece : plan.pieces) ... pieces[order[piece.declared]] ...
//
// Declarations are sorted by name, so that the plan is made tensor by tensor: memory is the declarations, a number for
// each piece of a rank, and for each replicated piece the ranks that have it.

#ifndef TENSORCASK_SERIALIZE_SHARDED_INTERNAL_SAVE_PLAN_H_
#define TENSORCASK_SERIALIZE_SHARDED_INTERNAL_SAVE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::sharded {

// `slice` with '-' on each axis that it has all of. Requires: it lies in `shape`.
TensorSlice Canonical(const TensorSlice& slice, const TensorShape& shape);

// The declarations of one rank, sorted by name and slice; (*order)[i] is the number in `pieces` of declaration i.
// Requires: each slice lies in its shape.
std::string EncodeDeclarations(absl::Span<const LocalPiece> pieces, std::vector<size_t>* order);

struct SavePlan {
  struct Piece {
    size_t declared = 0;  // the number of the declaration of this rank
    // For the first piece of a tensor in pieces: all its pieces, whose record the writer of the first one adds. Else
    // empty.
    std::vector<TensorSlice> slices;
  };
  std::vector<Piece> pieces;  // that this rank writes, in the order of its declarations
  uint64_t bytes = 0;         // the size of these pieces
  uint64_t num_records = 0;   // for all ranks: pieces, and tensors in pieces
};

// `declarations` by rank. Errors: InvalidArgument, naming tensor and ranks, if they disagree; ResourceExhausted as
// TensorSliceSet::Register; Internal for bytes that EncodeDeclarations does not write.
absl::StatusOr<SavePlan> MakeSavePlan(absl::Span<const std::string> declarations, int rank);

}  // namespace tensorcask::sharded

#endif  // TENSORCASK_SERIALIZE_SHARDED_INTERNAL_SAVE_PLAN_H_
