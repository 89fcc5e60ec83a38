// Joins tensors along an axis, and splits a tensor into parts.
//
//   absl::StatusOr<Tensor> all = Concat({a, b}, /*axis=*/1);                    // [2,3] and [2,5] give [2,8]
//   absl::StatusOr<std::vector<Tensor>> parts = Split(*all, {3, 5}, /*axis=*/1);  // [2,3] and [2,5] again
//
// An axis counts from 0, or from the back when negative: -1 is the last one. All dtypes are supported, strings too.
//
// For views: tensor/strided/concat_views.h joins views of any strides without making them dense first, and
// TensorView::SplitSizes(axis, sizes) of tensor/strided/view.h shares memory along every axis.
//
// Source: Concat and Split of tensorflow/core/framework/tensor_util.h. Those use axis 0 and do not compare the dims.

#ifndef TENSORCASK_TENSOR_CONCAT_H_
#define TENSORCASK_TENSOR_CONCAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// The tensors one after the other along `axis`, in a new buffer: each element is copied once, and a single tensor is
// cloned. Tensors without elements count with their dims.
// Errors: InvalidArgument, naming the tensor and the axis, if `tensors` is empty; if they are scalars or `axis` is
// outside; if dtypes, ranks, or dims on another axis differ; if the dims of the result are not a TensorShape (their sum
// or product exceeds 2^63-1). FailedPrecondition for a buffer without data. ResourceExhausted if the memory cannot be
// allocated.
absl::StatusOr<Tensor> Concat(absl::Span<const Tensor> tensors, int64_t axis = 0,
                              const RefPtr<Allocator>& allocator = CpuAllocator::Default());

// The inverse: one tensor per size, number i of size sizes[i] on `axis`. Along axis 0 the results are rows of `tensor`
// and share its memory, as Tensor::Slice does; along any other axis they are copies (TensorView::SplitSizes shares).
// Errors: InvalidArgument if `tensor` is a scalar, `axis` is outside, a size is negative (naming it), or the sizes do
// not add up to the dim; ResourceExhausted for more than 1,048,576 sizes, the bound of TensorView::SplitSizes. For
// copies also FailedPrecondition and ResourceExhausted, as above.
absl::StatusOr<std::vector<Tensor>> Split(const Tensor& tensor, absl::Span<const int64_t> sizes, int64_t axis = 0,
                                          const RefPtr<Allocator>& allocator = CpuAllocator::Default());

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_CONCAT_H_
