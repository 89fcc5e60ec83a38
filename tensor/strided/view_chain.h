// Views of views in one expression, which keeps the first error.
//
//   absl::StatusOr<TensorView> crop = ViewChain(image).Narrow(0, 16, 224).Narrow(1, 16, 224).Flip({1}).view();
//   absl::StatusOr<TensorView> input = ViewChain(image).Permute({2, 0, 1}).Unsqueeze(0).ConvertTo(DType::kBFloat16);
//   absl::StatusOr<Tensor> dense = ViewChain(image).Transpose(0, 1).ToTensor();
//
// Each step is the function of TensorView of that name (view.h), with its errors; after an error, the steps that follow
// do nothing. A value: a chain may be kept, and continued more than once.

#ifndef TENSORCASK_TENSOR_STRIDED_VIEW_CHAIN_H_
#define TENSORCASK_TENSOR_STRIDED_VIEW_CHAIN_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

class ViewChain {
 public:
  // Starts with a tensor, a view, or a StatusOr of one.
  explicit ViewChain(absl::StatusOr<TensorView> view) : view_(std::move(view)) {}

  ViewChain Slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step = 1) const {
    return Then([&](const TensorView& view) { return view.Slice(axis, start, end, step); });
  }
  ViewChain Slice(const TensorSlice& slice) const {
    return Then([&](const TensorView& view) { return view.Slice(slice); });
  }
  ViewChain Narrow(int64_t axis, int64_t start, int64_t length) const {
    return Then([&](const TensorView& view) { return view.Narrow(axis, start, length); });
  }
  ViewChain Select(int64_t axis, int64_t index) const {
    return Then([&](const TensorView& view) { return view.Select(axis, index); });
  }
  ViewChain Transpose(int64_t axis1, int64_t axis2) const {
    return Then([&](const TensorView& view) { return view.Transpose(axis1, axis2); });
  }
  ViewChain Permute(absl::Span<const int64_t> axes) const {
    return Then([&](const TensorView& view) { return view.Permute(axes); });
  }
  ViewChain MoveAxis(int64_t from, int64_t to) const {
    return Then([&](const TensorView& view) { return view.MoveAxis(from, to); });
  }
  ViewChain Flip(absl::Span<const int64_t> axes) const {
    return Then([&](const TensorView& view) { return view.Flip(axes); });
  }
  ViewChain Reshape(absl::Span<const int64_t> dims) const {
    return Then([&](const TensorView& view) { return view.Reshape(dims); });
  }
  ViewChain ReshapeOrCopy(absl::Span<const int64_t> dims) const {
    return Then([&](const TensorView& view) { return view.ReshapeOrCopy(dims); });
  }
  ViewChain Flatten(int64_t first = 0, int64_t last = -1) const {
    return Then([&](const TensorView& view) { return view.Flatten(first, last); });
  }
  ViewChain Squeeze(int64_t axis) const {
    return Then([&](const TensorView& view) { return view.Squeeze(axis); });
  }
  ViewChain Unsqueeze(int64_t axis) const {
    return Then([&](const TensorView& view) { return view.Unsqueeze(axis); });
  }
  ViewChain Expand(absl::Span<const int64_t> dims) const {
    return Then([&](const TensorView& view) { return view.Expand(dims); });
  }
  ViewChain BroadcastTo(const TensorShape& shape) const { return Expand(shape.dims()); }
  ViewChain Bitcast(DType dtype) const {
    return Then([&](const TensorView& view) { return view.Bitcast(dtype); });
  }
  ViewChain Contiguous(MemoryFormat format = MemoryFormat::kContiguous) const {
    return Then([&](const TensorView& view) { return view.Contiguous(format); });
  }
  // A copy, in memory from where the elements have theirs. Errors: those of tensorcask::ConvertTo.
  ViewChain ConvertTo(DType dtype) const {
    return Then([&](const TensorView& view) {
      return tensorcask::ConvertTo(view, dtype, MemoryFormat::kPreserve, {},
                                   view.buffer() ? view.buffer()->copy_allocator() : CpuAllocator::Default());
    });
  }

  // The result, or the first error.
  const absl::StatusOr<TensorView>& view() const& { return view_; }
  absl::StatusOr<TensorView> view() && { return std::move(view_); }
  operator absl::StatusOr<TensorView>() const& { return view_; }         // NOLINT(google-explicit-constructor)
  operator absl::StatusOr<TensorView>() && { return std::move(view_); }  // NOLINT(google-explicit-constructor)
  absl::StatusOr<Tensor> ToTensor() const {
    if (!view_.ok()) return view_.status();
    return view_->ToTensor();
  }

 private:
  template <typename Step>
  ViewChain Then(Step step) const {
    return view_.ok() ? ViewChain(step(*view_)) : *this;
  }

  absl::StatusOr<TensorView> view_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_VIEW_CHAIN_H_
