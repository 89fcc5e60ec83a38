#include "tensorcask/serialize/archive/formats/internal/slice_order.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::archive {
namespace {

// The number of the first element of `slice` in row-major order; -1 if the elements do not follow one another. `part`
// is the shape of the slice. Requires: the slice lies in the shape and has elements.
int64_t RowMajorStart(const TensorShape& shape, const TensorSlice& slice, const TensorShape& part) {
  int64_t start = 0;
  int64_t stride = 1;
  bool is_cut = false;  // an inner axis is not selected as a whole
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (is_cut && part.dim(axis) != 1) return -1;
    if (!slice.IsFullAt(axis)) start += slice.extent(axis).start * stride;
    is_cut = is_cut || part.dim(axis) != shape.dim(axis);
    stride *= shape.dim(axis);
  }
  return start;
}

}  // namespace

absl::StatusOr<SliceOrder::Step> SliceOrder::Next(const ArchiveEntry& entry, const TensorSlice& slice,
                                                  const TensorView& elements) {
  if (is_open_ && name_ != entry.name) return CheckComplete();
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(entry.name), ": ", what));
  };
  Step step;
  if (!is_open_) {
    step.is_first = true;
    is_open_ = true;
    name_ = entry.name;
    done_ = 0;
    num_elements_ = entry.shape.num_elements();
  }
  CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(entry.shape));
  if (elements.dtype() != entry.dtype || elements.num_elements() != part.num_elements()) {
    return refuse(absl::StrCat("slice ", slice.ToString(), " has ", elements.num_elements(), " elements of ",
                               DTypeName(elements.dtype()), "; wanted ", part.num_elements(), " of ",
                               DTypeName(entry.dtype)));
  }
  if (part.num_elements() > 0 && RowMajorStart(entry.shape, slice, part) != done_) {
    return refuse(
        absl::StrCat("slice ", slice.ToString(), " does not continue at element ", done_, " in row-major order"));
  }
  done_ += part.num_elements();
  step.is_last = done_ == num_elements_;
  is_open_ = !step.is_last;
  return step;
}

absl::Status SliceOrder::CheckComplete() const {
  if (!is_open_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("tensor ", Quoted(name_), ": only ", done_, " of ", num_elements_, " elements have come"));
}

}  // namespace tensorcask::archive
