// Memory for a tensor that arrives with strides.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_STRIDED_MEMORY_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_STRIDED_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::rpc {

// A tensor in memory of its own, whose elements have any values: with these strides if they are those of a dense
// tensor, else dense and in the same order of axes (StoredLayout::kPreserve). No strides: row-major.
// Errors: InvalidArgument for strides that no tensor of the shape can have; ResourceExhausted without memory. Requires:
// elements of a fixed size, and as many strides as axes, or none.
absl::StatusOr<TensorView> MakeStridedView(DType dtype, const TensorShape& shape, absl::Span<const int64_t> strides);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_STRIDED_MEMORY_H_
