// Joins views along an axis. Elements are copied directly into the result: no view is made dense first.
//
//   absl::StatusOr<Tensor> all = ConcatViews({*a.Transpose(0, 1), *b.Slice(0, 0, 3)}, /*axis=*/1);
//
// The same rules as Concat of tensor/concat.h, which is for tensors: dims are compared, negative axes count from the
// back, strings are supported. (The name differs because the list {a, b} of two tensors would match both functions.)
// The inverse, without a copy, is TensorView::SplitSizes.

#ifndef TENSORCASK_TENSOR_STRIDED_CONCAT_VIEWS_H_
#define TENSORCASK_TENSOR_STRIDED_CONCAT_VIEWS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// The views one after the other along `axis`, in a new row-major buffer: each element is copied once. Views without
// elements count with their dims. Elements that a view repeats (stride 0) are repeated in the result: bound
// num_elements() first if its geometry came from outside.
// Errors: InvalidArgument, naming the number of the view and the axis, if `views` is empty; if they are scalars or
// `axis` is outside; if dtypes, ranks, or dims on another axis differ; if the dims of the result are not a TensorShape.
// FailedPrecondition for a buffer without data. ResourceExhausted if the memory cannot be allocated.
absl::StatusOr<Tensor> ConcatViews(absl::Span<const TensorView> views, int64_t axis = 0,
                                   const RefPtr<Allocator>& allocator = CpuAllocator::Default());

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_CONCAT_VIEWS_H_
