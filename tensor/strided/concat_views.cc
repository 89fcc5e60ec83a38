#include "tensorcask/tensor/strided/concat_views.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/concat_parts.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

absl::StatusOr<Tensor> ConcatViews(absl::Span<const TensorView> views, int64_t axis,
                                   const RefPtr<Allocator>& allocator) {
  if (views.empty()) return absl::InvalidArgumentError("Concat: no views, so no dtype and no shape");
  CASK_ASSIGN_OR_RETURN(const int joined_axis, internal::CheckedAxis("Concat", views[0].shape(), axis));
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, internal::JoinedShape(views, joined_axis));
  for (const TensorView& view : views) {
    if (view.buffer()) CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  }
  CASK_ASSIGN_OR_RETURN(const Tensor whole, Tensor::Create(views[0].dtype(), shape, allocator));
  if (whole.num_elements() == 0) return whole;
  CASK_RETURN_IF_ERROR(whole.buffer()->EnsureMutable());
  const Layout rows = Layout::RowMajor(shape);
  void* const data = whole.buffer()->mutable_data();
  int64_t start = 0;
  for (const TensorView& view : views) {
    if (view.num_elements() == 0) continue;
    // The memory is new and private, so the checks of Copy for overlap and write access are not needed.
    CASK_ASSIGN_OR_RETURN(const Layout place, rows.Narrow(joined_axis, start, view.dim(joined_axis)));
    internal::CopyStrided(view.dtype(), view.buffer()->data(), view.layout(), data, place);
    start += view.dim(joined_axis);
  }
  return whole;
}

}  // namespace tensorcask
