// Reads or writes the bytes of a view's elements in row-major order, piece by piece: for code that stores tensors.
//
//   absl::Status status = ForEachRowMajorPiece(view, /*max_bytes=*/size_t{256} << 10,
//                                              [&](absl::string_view bytes) { return sink->Append(bytes); });
//
// The bytes of a contiguous view are passed without a copy. The elements of any other view are gathered into a block of
// at most `max_bytes`, so that memory is bounded for tensors of any size.

#ifndef TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_H_
#define TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Calls fn for successive pieces, none of them empty. Their concatenation is bytes() of a contiguous copy.
// Requires: a dtype of fixed size; max_bytes of at least one element.
// Errors: the first error of fn; FailedPrecondition for a buffer without data; ResourceExhausted.
absl::Status ForEachRowMajorPiece(const TensorView& view, size_t max_bytes,
                                  absl::FunctionRef<absl::Status(absl::string_view bytes)> fn);

// The inverse: calls fill for successive blocks, none of them empty. `fill` writes the bytes of the next elements,
// which are then assigned to the elements of *view. No block ends inside an element. For a contiguous view, blocks are
// its own memory; for any other view, one block is reused. Requires: as for ForEachRowMajorPiece, and no two indices of
// *view name one element.
//
// A view on a device is filled, too: a contiguous one through the device's staging memory, of which the device copies
// one part while `fill` writes the next; any other one through a copy of all elements on the host.
//
// Errors: the first error of fill (some elements may have been assigned); those of TensorBuffer::EnsureMutable; errors
// of the device.
absl::Status FillRowMajorPieces(TensorView* view, size_t max_bytes,
                                absl::FunctionRef<absl::Status(absl::Span<char> block)> fill);

// Copies all bytes to `out`. Requires: a dtype of fixed size; out.size() is the number of bytes.
// Errors: FailedPrecondition for a buffer without data.
absl::Status CopyRowMajor(const TensorView& view, absl::Span<char> out);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_H_
