// What the operations of layout.h share. Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_LAYOUT_UTIL_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_LAYOUT_UTIL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::internal {

// The axis that `axis` names, from the back if negative; -1 if it is outside [-rank, rank).
inline int WrapAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// stride * factor, or `stride` if that overflows, which happens only for axes of one element.
inline int64_t StrideTimes(int64_t stride, int64_t factor) {
  int64_t product;
  return __builtin_mul_overflow(stride, factor, &product) ? stride : product;
}

// Returns the error that TensorShape::Create(dims) would return, without creating a shape.
inline absl::Status CheckDims(absl::Span<const int64_t> dims) {
  bool good = dims.size() <= size_t{TensorShape::kMaxRank};
  int64_t product = 1;
  for (const int64_t dim : dims)
    good = good && dim >= 0 && !__builtin_mul_overflow(product, dim == 0 ? 1 : dim, &product);
  return good ? absl::OkStatus() : TensorShape::Create(dims).status();
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_LAYOUT_UTIL_H_
