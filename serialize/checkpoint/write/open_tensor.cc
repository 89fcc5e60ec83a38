#include "tensorcask/serialize/checkpoint/write/open_tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask::checkpoint {

OpenTensor::OpenTensor(IndexItem* item, DType dtype, const TensorShape& shape, int shard,
                       const TensorMetadata& metadata)
    : item_(item),
      streamed_(std::make_shared<StreamedTensor>(dtype, shape)),
      shard_(shard),
      metadata_(metadata.IsDefault() ? nullptr : std::make_unique<const TensorMetadata>(metadata)),
      missing_(shape.num_elements()) {}

absl::Status OpenTensor::CheckComplete() const {
  if (is_complete()) return absl::OkStatus();
  const int64_t wanted = streamed_->shape.num_elements();
  return absl::FailedPreconditionError(
      absl::StrCat("only ", wanted - missing_, " of ", wanted, " elements were added"));
}

absl::StatusOr<TensorJob> OpenTensor::NextJob(const TensorView& block) {
  if (block.dtype() != streamed_->dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block is ", DTypeName(block.dtype()), "; wanted ", DTypeName(streamed_->dtype)));
  }
  if (block.num_elements() > missing_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block has ", block.num_elements(), " elements; ", missing_, " are missing"));
  }
  if (block.buffer() && !internal::IsOnDevice(block)) CASK_RETURN_IF_ERROR(block.buffer()->CheckReadable());
  missing_ -= block.num_elements();
  TensorJob job;
  job.item = item_;
  job.tensor = block;
  job.shard = shard_;
  job.streamed = streamed_;
  job.is_last_block = is_complete();
  if (job.is_last_block) job.metadata = std::move(metadata_);
  return job;
}

}  // namespace tensorcask::checkpoint
