// Joining views along an axis, straight into the result: no part is made dense first.
//
//   absl::StatusOr<Tensor> all = ConcatViews({*a.Transpose(0, 1), *b.Slice(0, 0, 3)}, /*axis=*/1);
//
// As Concat of tensor/concat.h, which is for tensors: dims compared likewise, axes counted from the back when negative,
// strings too. (Of another name, since {a, b} of two tensors would be a list of either.) The way back, without a copy,
// is TensorView::SplitSizes.

#ifndef TENSORCASK_TENSOR_STRIDED_CONCAT_VIEWS_H_
#define TENSORCASK_TENSOR_STRIDED_CONCAT_VIEWS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// The elements of `views`, one behind the other along `axis`, in row-major memory of its own: each element is copied
// once. Views without elements take part by their dims. A view that repeats elements (stride 0) gives all of them:
// bound num_elements() first where its geometry came from outside.
// Errors: InvalidArgument, naming the number of the part and the axis, if there is none; if they are scalars or `axis`
// is outside; if dtypes, ranks, or dims on another axis differ; if the dims of the result are no TensorShape.
// FailedPrecondition if a view has no data to read. ResourceExhausted if the memory cannot be had.
absl::StatusOr<Tensor> ConcatViews(absl::Span<const TensorView> views, int64_t axis = 0,
                                   const RefPtr<Allocator>& allocator = CpuAllocator::Default());

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_CONCAT_VIEWS_H_
