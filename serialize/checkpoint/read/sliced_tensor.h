// Reads tensors that are stored in pieces: finds the pieces with the wanted elements, and copies these to the result.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_SLICED_TENSOR_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_SLICED_TENSOR_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/read/plain_tensor.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::checkpoint {

// The pieces of `tensor` as a set.
// Errors: DataLoss, without the names of file and tensor, if two overlap or one is listed twice; ResourceExhausted as
// TensorSliceSet.
absl::StatusOr<TensorSliceSet> PiecesOf(const CheckpointEntry& tensor);
// An upper bound of the memory that PiecesOf takes.
uint64_t PieceSetBytes(const CheckpointEntry& tensor);

// Methods are safe from several threads. "tensor" is an entry of form kSliced.
class SlicedTensors {
 public:
  // Requires: all outlive this.
  SlicedTensors(const BundleIndex* index, const StoredTensors* stored, const CheckpointReaderOptions* options)
      : index_(index), stored_(stored), options_(options) {}

  // The pieces that have elements of `slice`. Checks that each piece matches the tensor and that its bytes exist.
  // Charges *decoded with their size in memory.
  // Errors: DataLoss, naming the tensor, also if some elements are in no piece; those of StoredTensors; those of
  // *decoded.
  // Requires: `slice` lies in the tensor.
  absl::StatusOr<std::vector<TensorSlice>> Find(const LocatedEntry& tensor, const TensorSlice& slice,
                                                DecodeQuota* decoded) const;

  // What ReadInto reads of these pieces if they are wanted whole, for a plan of reads. Requires: as ReadInto.
  ReadPlan::Step ToPlan(const LocatedEntry& tensor, const std::vector<TensorSlice>& pieces) const;
  // Fills *out, of the shape of `slice`. Requires: `pieces` is Find(tensor, slice, decoded); *out may be written.
  absl::Status ReadInto(const LocatedEntry& tensor, const std::vector<TensorSlice>& pieces, const TensorSlice& slice,
                        bool verify_whole, DecodeQuota* decoded, TensorView* out) const;

 private:
  ReadPlan::Step StepOf(const LocatedEntry& tensor, const TensorSlice& piece) const;
  absl::StatusOr<std::shared_ptr<const TensorSliceSet>> SetOf(const LocatedEntry& tensor) const;

  const BundleIndex* const index_;
  const StoredTensors* const stored_;
  const CheckpointReaderOptions* const options_;

  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<const void*, std::shared_ptr<const TensorSliceSet>> sets_;  // by LocatedEntry::id
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_SLICED_TENSOR_H_
