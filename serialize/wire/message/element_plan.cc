#include "tensorcask/serialize/wire/message/element_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask::internal {
namespace {

// The axes of a dense layout, outermost first.
DimVector OuterToInner(const Layout& layout) {
  DimVector axes;
  for (int axis = 0; axis < layout.rank(); ++axis) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&layout](int64_t a, int64_t b) {
    return layout.stride(static_cast<int>(a)) > layout.stride(static_cast<int>(b));
  });
  return axes;
}

// Sets data, strides and offset for a view whose order is kept. Requires: elements of a fixed size, not row-major (so
// the view has elements).
absl::Status PlanStrides(const TensorView& view, TensorView* data, ExtensionContent* extension) {
  const Layout& layout = view.layout();
  if (layout.IsNonOverlappingAndDense()) {  // the range of memory between its ends, unchanged
    const int64_t begin = layout.bounds().begin;
    CASK_ASSIGN_OR_RETURN(*data, view.AsStrided({layout.num_elements()}, {1}, begin));
    extension->strides.assign(layout.strides().begin(), layout.strides().end());
    extension->storage_offset = layout.offset() - begin;
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(const Layout dense, layout.Dense(MemoryFormat::kPreserve));
  if (dense.IsContiguous()) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(*data, view.Permute(OuterToInner(dense)));
  extension->strides.assign(dense.strides().begin(), dense.strides().end());
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMetadata(const TensorView& view, const TensorMetadata& metadata) {
  return CheckMetadata(view.dtype(), view.shape(), metadata);
}

absl::Status CheckMetadata(DType dtype, const TensorShape& shape, const TensorMetadata& metadata) {
  CASK_RETURN_IF_ERROR(metadata.Validate(dtype));
  const size_t wanted_rank = ChannelsLastOrder(metadata.memory_format).size();
  if (wanted_rank == 0 || wanted_rank == static_cast<size_t>(shape.rank())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("metadata: memory_format is ",
                                                 MemoryFormatName(metadata.memory_format), ", which is for rank ",
                                                 wanted_rank, "; the tensor is ", shape.ToString()));
}

absl::Status PlanElements(const TensorView& view, StoredLayout layout, TensorView* data, ExtensionContent* extension) {
  *data = view;
  if (layout == StoredLayout::kPreserve && !view.IsContiguous()) {
    CASK_RETURN_IF_ERROR(PlanStrides(view, data, extension));
  }
  if (!extension->strides.empty() || DTypeNumber(view.dtype()) >= kFirstOwnDTypeNumber) {
    extension->dtype_number = DTypeNumber(view.dtype());
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
