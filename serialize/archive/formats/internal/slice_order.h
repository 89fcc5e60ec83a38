// The rule for slices of a tensor that is written as it comes: each continues where the one before ended.
//
//   SliceOrder order;
//   CASK_ASSIGN_OR_RETURN(const SliceOrder::Step step, order.Next(entry, slice));
//   if (step.is_first) ... begin the tensor ...
//   ... write the elements ...
//   if (step.is_last) ... end it ...

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SLICE_ORDER_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SLICE_ORDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::archive {

class SliceOrder {
 public:
  struct Step {
    bool is_first = false;
    bool is_last = false;
  };

  // Errors: FailedPrecondition if another tensor is incomplete; InvalidArgument if the elements of `slice` are not the
  // next ones of the tensor in row-major order, or if `elements` have another dtype or number; OutOfRange for a slice
  // outside the tensor. After an error the tensor stays incomplete.
  absl::StatusOr<Step> Next(const ArchiveEntry& entry, const TensorSlice& slice, const TensorView& elements);

  // FailedPrecondition if a tensor is incomplete.
  absl::Status CheckComplete() const;

 private:
  bool is_open_ = false;
  std::string name_;  // the name of the tensor whose slices are coming
  int64_t done_ = 0;  // elements
  int64_t num_elements_ = 0;
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SLICE_ORDER_H_
