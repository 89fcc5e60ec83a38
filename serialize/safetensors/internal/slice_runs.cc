#include "tensorcask/serialize/safetensors/internal/slice_runs.h"

#include <cstddef>

namespace tensorcask::safetensors {

SliceRuns::SliceRuns(const TensorShape& shape, const TensorSlice& slice, const TensorShape& part) {
  if (part.num_elements() == 0) {
    count_ = 0;
    return;
  }
  const auto start = [&](int axis) { return slice.IsFullAt(axis) ? 0 : slice.extent(axis).start; };
  int axis = shape.rank();
  int64_t stride = 1;
  while (axis > 0 && part.dim(axis - 1) == shape.dim(axis - 1)) stride *= shape.dim(--axis);
  length_ = stride;
  if (axis > 0) {  // of the innermost axis that is not whole, the elements of the slice are neighbours too
    --axis;
    length_ *= part.dim(axis);
    first_ = start(axis) * stride;
    stride *= shape.dim(axis);
  }
  while (axis-- > 0) {
    dims_.push_back(part.dim(axis));
    strides_.push_back(stride);
    first_ += start(axis) * stride;
    stride *= shape.dim(axis);
    count_ *= dims_.back();
  }
  index_.resize(dims_.size(), 0);
}

int64_t SliceRuns::last() const {
  int64_t at = first_;
  for (size_t i = 0; i < dims_.size(); ++i) at += (dims_[i] - 1) * strides_[i];
  return at;
}

int64_t SliceRuns::Next() {
  int64_t at = first_;
  for (size_t i = 0; i < dims_.size(); ++i) at += index_[i] * strides_[i];
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (++index_[i] < dims_[i]) break;
    index_[i] = 0;
  }
  return at;
}

}  // namespace tensorcask::safetensors
