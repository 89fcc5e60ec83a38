// Parts of a view, selected by one index per axis, as with a[1, 2:, ::2] in Python.
//
//   absl::StatusOr<TensorView> part = IndexView(view, {1, AxisIndex::Slice(2, std::nullopt)});
//   IndexView(view, {AxisIndex::All(), -1})     // the last column
//   IndexView(view, {})                         // all of it
//
// An element removes its axis (TensorView::Select); a slice keeps it (TensorView::Slice, with the same clamping). Axes
// after the last index are taken whole.

#ifndef TENSORCASK_TENSOR_COMPAT_AXIS_INDEX_H_
#define TENSORCASK_TENSOR_COMPAT_AXIS_INDEX_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

class AxisIndex {
 public:
  // One element; negative: from the back.
  AxisIndex(int64_t element)  // NOLINT(google-explicit-constructor): a number is an index
      : start_(element), step_(0) {}

  static AxisIndex Slice(std::optional<int64_t> start, std::optional<int64_t> end, int64_t step = 1) {
    return AxisIndex(start, end, step);
  }
  static AxisIndex All() { return Slice(std::nullopt, std::nullopt); }

  bool is_slice() const { return is_slice_; }
  std::optional<int64_t> start() const { return start_; }  // for an index of one element: that element
  std::optional<int64_t> end() const { return end_; }
  int64_t step() const { return step_; }

 private:
  AxisIndex(std::optional<int64_t> start, std::optional<int64_t> end, int64_t step)
      : start_(start), end_(end), step_(step), is_slice_(true) {}

  std::optional<int64_t> start_;  // for an index of one element: that element
  std::optional<int64_t> end_;
  int64_t step_;
  bool is_slice_ = false;
};

// Errors: InvalidArgument for more indices than axes; those of TensorView::Select and Slice.
absl::StatusOr<TensorView> IndexView(const TensorView& view, absl::Span<const AxisIndex> index);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_COMPAT_AXIS_INDEX_H_
