// What copies and conversions of few elements share: so few that a call or a plan would take longer than the work.
// Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_

#include <cstdint>

#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

inline constexpr int64_t kFewElements = 256;

// As Layout::IsContiguous, inlined, for layouts with elements.
inline bool IsRowMajor(const Layout& layout) {
  const int64_t* const dims = layout.dims().data();
  const int64_t* const strides = layout.strides().data();
  int64_t dense = 1;
  for (int axis = layout.rank() - 1; axis >= 0; --axis) {
    if (dims[axis] != 1 && strides[axis] != dense) return false;
    dense *= dims[axis];
  }
  return true;
}

// True if the elements of both are few, of a fixed size, dense and row-major in memory of the host. Requires: equal
// dims.
inline bool AreFewAndDense(const TensorView& from, const TensorView& to) {
  const auto is_of_host = [](const TensorView& view) {
    const TensorBuffer::Kind kind = view.buffer()->kind();
    return kind != TensorBuffer::Kind::kNoData && kind != TensorBuffer::Kind::kDevice;
  };
  const int64_t count = to.num_elements();
  return count > 0 && count <= kFewElements && !IsObject(from.dtype()) && !IsObject(to.dtype()) &&
         IsRowMajor(from.layout()) && IsRowMajor(to.layout()) && is_of_host(from) && is_of_host(to);
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_FEW_ELEMENTS_H_
