#include "tensorcask/serialize/archive/internal/block_plan.h"

#include <algorithm>

namespace tensorcask::archive {

BlockPlan::BlockPlan(const TensorShape& shape, size_t element_size, uint64_t block_bytes) : shape_(shape) {
  const int64_t limit = static_cast<int64_t>(
      std::clamp<uint64_t>(block_bytes / element_size, 1, uint64_t{1} << 62));  // elements of a block
  axis_ = -1;
  if (shape.num_elements() <= limit) return;
  int64_t inner = 1;  // elements of one step along axis_
  axis_ = shape.rank() - 1;
  while (shape.dim(axis_) <= limit / inner) inner *= shape.dim(axis_--);  // ends: the product of all is above the limit
  rows_ = std::max<int64_t>(limit / inner, 1);
  starts_.assign(axis_ + 1, 0);
}

std::optional<TensorSlice> BlockPlan::Next() {
  if (done_) return std::nullopt;
  if (axis_ < 0) {
    done_ = true;
    return TensorSlice::Full(shape_.rank());
  }
  std::vector<TensorSlice::Extent> extents(shape_.rank());
  for (int axis = 0; axis < axis_; ++axis) {
    if (shape_.dim(axis) > 1) extents[axis] = {starts_[axis], 1};
  }
  extents[axis_] = {starts_[axis_], std::min(rows_, shape_.dim(axis_) - starts_[axis_])};
  starts_[axis_] += rows_;
  for (int axis = axis_; starts_[axis] >= shape_.dim(axis); --axis) {
    starts_[axis] = 0;
    if (axis == 0) {
      done_ = true;
      break;
    }
    ++starts_[axis - 1];
  }
  return *TensorSlice::Create(extents);  // starts and lengths lie in the shape
}

}  // namespace tensorcask::archive
