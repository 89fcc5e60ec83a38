// A box of a tensor, copied.

#ifndef TENSORCASK_TOOLS_TAKE_SLICE_H_
#define TENSORCASK_TOOLS_TAKE_SLICE_H_

#include "absl/status/statusor.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {

// Errors: as TensorSlice::Apply.
absl::StatusOr<Tensor> TakeSlice(const Tensor& tensor, const TensorSlice& slice);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_TAKE_SLICE_H_
