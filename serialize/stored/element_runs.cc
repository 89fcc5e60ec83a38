#include "tensorcask/serialize/stored/element_runs.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::stored {

absl::Status SortAxes(Layout* from, Layout* to) {
  struct Axis {
    int64_t dim;
    int64_t from;
    int64_t to;
  };
  absl::InlinedVector<Axis, 8> axes;
  int64_t from_offset = from->offset();
  int64_t to_offset = to->offset();
  for (int i = 0; i < from->rank(); ++i) {
    Axis axis = {from->dim(i), from->stride(i), to->stride(i)};
    if (axis.dim == 1) continue;
    if (axis.from < 0) {
      from_offset += (axis.dim - 1) * axis.from;
      to_offset += (axis.dim - 1) * axis.to;
      axis.from = -axis.from;
      axis.to = -axis.to;
    }
    axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.from > b.from; });
  DimVector dims;
  DimVector from_strides;
  DimVector to_strides;
  for (const Axis& axis : axes) {
    dims.push_back(axis.dim);
    from_strides.push_back(axis.from);
    to_strides.push_back(axis.to);
  }
  CASK_ASSIGN_OR_RETURN(*from, Layout::Create(dims, from_strides, from_offset));
  CASK_ASSIGN_OR_RETURN(*to, Layout::Create(dims, to_strides, to_offset));
  return absl::OkStatus();
}

ElementRuns::ElementRuns(const Layout& from) : start_(from.offset()) {
  int outer = from.rank();
  for (; outer > 0 && from.stride(outer - 1) == length_; --outer) length_ *= from.dim(outer - 1);
  for (int axis = 0; axis < outer; ++axis) {
    dims_.push_back(from.dim(axis));
    strides_.push_back(from.stride(axis));
  }
  index_.resize(dims_.size());
}

ElementRuns::Run ElementRuns::Next(int64_t max_elements) {
  const Run run = {start_ + done_, std::min(length_ - done_, max_elements)};
  done_ += run.count;
  if (done_ < length_) return run;
  done_ = 0;
  for (size_t axis = dims_.size(); axis-- > 0;) {
    start_ += strides_[axis];
    if (++index_[axis] < dims_[axis]) break;
    start_ -= dims_[axis] * strides_[axis];
    index_[axis] = 0;
  }
  return run;
}

}  // namespace tensorcask::stored
