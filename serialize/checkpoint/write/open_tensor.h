// A tensor that arrives in blocks: makes the job of each block, and knows how many elements are missing.
//
//   OpenTensor open(&items.emplace_back("w"), DType::kFloat32, TensorShape({1000, 1000}), /*shard=*/0, metadata);
//   while (!open.is_complete()) {
//     CASK_ASSIGN_OR_RETURN(TensorJob job, open.NextJob(block));
//     queue.Push(std::move(job));
//   }

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_OPEN_TENSOR_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_OPEN_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/write/tensor_job.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::checkpoint {

class OpenTensor {
 public:
  // `item` outlives the jobs. Requires: the dtype has a fixed size.
  OpenTensor(IndexItem* item, DType dtype, const TensorShape& shape, int shard, const TensorMetadata& metadata);

  const std::string& name() const { return item_->key; }
  bool is_complete() const { return missing_ == 0; }
  // FailedPrecondition, saying how many elements there are, unless the tensor is complete.
  absl::Status CheckComplete() const;

  // The job that writes `block`, which the job refers to. Errors: InvalidArgument for another dtype, and for more
  // elements than are missing; FailedPrecondition for a buffer without data.
  absl::StatusOr<TensorJob> NextJob(const TensorView& block);

 private:
  IndexItem* item_;
  std::shared_ptr<StreamedTensor> streamed_;
  int shard_;
  std::unique_ptr<const TensorMetadata> metadata_;  // null: none
  int64_t missing_;                                 // elements
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_OPEN_TENSOR_H_
