// Copies of so few elements that a plan would take longer than the copy. Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_FEW_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_FEW_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

inline constexpr int64_t kFewStridedElements = 96;  // for which no vector kernel is worth a plan
inline constexpr int kFewAxes = 8;

// Copies the elements at `from`, whose dims and strides are those of `layout`, to `to`, whose strides are `to_strides`.
// `element_bytes` is 1, 2, 4, 8 or 16. Requires: at least one element; at most kFewAxes axes; no overlap.
void CopyFewElements(size_t element_bytes, const char* from, const Layout& layout, char* to,
                     absl::Span<const int64_t> to_strides);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_FEW_H_
