#include "tensorcask/serialize/rpc/internal/strided_memory.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::rpc {
namespace {

// The position of the first element, so that the lowest one of an axis with a negative stride is 0. nullopt: too large.
std::optional<int64_t> OffsetOf(const TensorShape& shape, absl::Span<const int64_t> strides) {
  std::optional<int64_t> offset = 0;
  for (int axis = 0; axis < shape.rank() && offset.has_value(); ++axis) {
    const int64_t stride = strides[static_cast<size_t>(axis)];
    if (stride >= 0) continue;
    const std::optional<int64_t> reach = CheckedMul<int64_t>(shape.dim(axis) - 1, stride);
    offset = reach.has_value() && *reach != INT64_MIN ? CheckedAdd<int64_t>(*offset, -*reach) : std::nullopt;
  }
  return offset;
}

}  // namespace

absl::StatusOr<TensorView> MakeStridedView(DType dtype, const TensorShape& shape, absl::Span<const int64_t> strides) {
  if (strides.empty() || shape.num_elements() == 0) return Tensor::Create(dtype, shape);
  const std::optional<int64_t> offset = OffsetOf(shape, strides);
  if (!offset.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("the strides of ", shape.ToString(), " are too large"));
  }
  CASK_ASSIGN_OR_RETURN(Layout layout, Layout::Create(shape.dims(), strides, *offset));
  if (!layout.IsNonOverlappingAndDense()) {
    CASK_ASSIGN_OR_RETURN(layout, layout.Dense(MemoryFormat::kPreserve));
  }
  const std::optional<uint64_t> bytes =
      CheckedMul<uint64_t>(static_cast<uint64_t>(shape.num_elements()), ElementSize(dtype));
  if (!bytes.has_value()) return absl::ResourceExhaustedError(absl::StrCat(shape.ToString(), " is too large"));
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(*bytes));
  return TensorView::Create(std::move(buffer), dtype, std::move(layout));
}

}  // namespace tensorcask::rpc
