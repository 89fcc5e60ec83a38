#include "tensorcask/tensor/compat/axis_index.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

absl::StatusOr<TensorView> IndexView(const TensorView& view, absl::Span<const AxisIndex> index) {
  if (index.size() > static_cast<size_t>(view.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat(index.size(), " indices for the ", view.rank(), " axes of ", view.ToString()));
  }
  TensorView part = view.Alias();
  int64_t axis = 0;  // an axis of `part`
  for (const AxisIndex& at : index) {
    if (at.is_slice()) {
      CASK_ASSIGN_OR_RETURN(part, part.Slice(axis, at.start(), at.end(), at.step()));
      ++axis;
    } else {
      CASK_ASSIGN_OR_RETURN(part, part.Select(axis, *at.start()));
    }
  }
  return part;
}

}  // namespace tensorcask
