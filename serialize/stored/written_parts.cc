#include "tensorcask/serialize/stored/written_parts.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::stored {

absl::Status CheckIsDeclared(const TensorView& part, DType dtype, const TensorShape& shape) {
  if (part.dtype() == dtype && part.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("is ", DTypeName(part.dtype()), " ", part.shape().ToString(),
                                                 ", but was declared as ", DTypeName(dtype), " ", shape.ToString()));
}

absl::Status CheckFollows(const TensorView& part, const TensorSlice& slice, const TensorShape& shape,
                          uint64_t bytes_before) {
  if (part.num_elements() == 0) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const Layout in_tensor, Layout::RowMajor(shape).Slice(slice));
  const auto start = static_cast<uint64_t>(in_tensor.offset()) * static_cast<uint64_t>(part.element_size());
  if (start != bytes_before || !in_tensor.IsContiguous()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the part ", slice.ToString(), " does not continue in row-major order at byte ", bytes_before));
  }
  return CheckCanBeRead(part);
}

absl::Status CheckCanBeRead(const TensorView& part) {
  if (part.num_elements() == 0 || internal::IsOnDevice(part)) return absl::OkStatus();
  return part.buffer()->CheckReadable();
}

absl::Status ForEachPieceOnce(const TensorView& part, size_t max_bytes,
                              absl::FunctionRef<absl::Status(absl::string_view bytes)> fn) {
  return internal::IsOnDevice(part) ? internal::ForEachStablePiece(part, max_bytes, fn)
                                    : ForEachRowMajorPiece(part, max_bytes, fn);
}

absl::Status Incomplete(bool has_part) {
  return absl::FailedPreconditionError(has_part ? "was added in part only" : "was declared and not added");
}

}  // namespace tensorcask::stored
