// Reads memory that changes while it is read: for code that writes elements together with a checksum of them.
//
//   CASK_RETURN_IF_ERROR(ForEachStablePiece(view, /*max_bytes=*/size_t{256} << 10, [&](absl::string_view bytes) {
//     crc = ExtendCrc32c(crc, bytes);     // the same bytes ...
//     return sink->Append(bytes);         // ... whatever another process does to the view meanwhile
//   }));
//
// External and mapped memory, and memory that another process can map, may be written by code that the library cannot
// see. Elements that are read twice may then differ. Such elements are copied to private memory once, and the copy is
// read; whether it has old or new values does not matter. All other memory is read in place: a program that writes to
// it while the library reads has a data race of its own.

#ifndef TENSORCASK_TENSOR_STRIDED_CHANGING_MEMORY_H_
#define TENSORCASK_TENSOR_STRIDED_CHANGING_MEMORY_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// True if code outside the library may write to the elements of `view`.
bool MayChange(const TensorView& view);

// `view` itself; if it may change, a row-major copy in private memory; if it is on a device, a copy in memory of the
// host with the same strides. Variants count as changing if a tensor in them does, at any depth up to 64; the copy has
// private tensors.
// Errors: ResourceExhausted; FailedPrecondition for a buffer without data.
absl::StatusOr<TensorView> InPrivateMemory(const TensorView& view);

// As ForEachRowMajorPiece (row_major.h), except that the bytes given to `fn` never change. Elements that may change are
// copied through a block of at most `max_bytes`. Elements on a device are copied to the host: those of a contiguous
// view in pieces, while fn works on the last one, those of another view all at once.
absl::Status ForEachStablePiece(const TensorView& view, size_t max_bytes,
                                absl::FunctionRef<absl::Status(absl::string_view bytes)> fn);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_CHANGING_MEMORY_H_
