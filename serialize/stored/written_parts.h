// What writers of files check of a tensor that was declared, and how they read its elements.
//
//   CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(declared.shape));
//   CASK_RETURN_IF_ERROR(CheckIsDeclared(part, declared.dtype, shape));
//   CASK_RETURN_IF_ERROR(CheckFollows(part, slice, declared.shape, written_bytes));
//   CASK_RETURN_IF_ERROR(ForEachPieceOnce(part, /*max_bytes=*/size_t{512} << 10, [&](absl::string_view bytes) {
//     written_bytes += bytes.size();
//     return sink->Append(bytes);
//   }));
//   if (written_bytes < stored_bytes) return Incomplete(written_bytes > 0);
//
// The messages of the errors do not name the tensor (WriterState::About does).

#ifndef TENSORCASK_SERIALIZE_STORED_WRITTEN_PARTS_H_
#define TENSORCASK_SERIALIZE_STORED_WRITTEN_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::stored {

// Errors: InvalidArgument if `part` has another dtype or shape than what was declared.
absl::Status CheckIsDeclared(const TensorView& part, DType dtype, const TensorShape& shape);

// For files whose elements are appended: whether `part`, at `slice` of a tensor of `shape`, continues in row-major
// order after the `bytes_before` bytes that were added, and can be read. Requires: `part` has the shape of the slice.
// Errors: InvalidArgument if not; those of CheckCanBeRead.
absl::Status CheckFollows(const TensorView& part, const TensorSlice& slice, const TensorShape& shape,
                          uint64_t bytes_before);

// Errors: FailedPrecondition if the buffer of the elements has no data.
absl::Status CheckCanBeRead(const TensorView& part);

// Calls fn for successive pieces of the elements, in row-major order. Memory that may change meanwhile is read in
// place: fn must not read its bytes twice (changing_memory.h). Errors: those of ForEachRowMajorPiece; errors of the
// device.
absl::Status ForEachPieceOnce(const TensorView& part, size_t max_bytes,
                              absl::FunctionRef<absl::Status(absl::string_view bytes)> fn);

// The error of a writer that cannot finish because elements of a declared tensor are missing: FailedPrecondition.
absl::Status Incomplete(bool has_part);

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_WRITTEN_PARTS_H_
