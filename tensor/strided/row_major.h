// The bytes of a view's elements in row-major order, piece by piece: for whoever writes them down, or reads them back.
//
//   absl::Status status = ForEachRowMajorPiece(view, /*max_bytes=*/size_t{256} << 10,
//                                              [&](absl::string_view bytes) { return sink->Append(bytes); });
//
// A contiguous view is handed over where it lies; any other is gathered into a block of at most `max_bytes`, so that
// memory stays bounded whatever the size.

#ifndef TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_H_
#define TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Calls fn for successive pieces, none empty, whose concatenation is what bytes() would be of a contiguous copy.
// Requires: a dtype of fixed size; max_bytes of at least one element. Errors: what fn returns, at once;
// FailedPrecondition for a buffer without data; ResourceExhausted.
absl::Status ForEachRowMajorPiece(const TensorView& view, size_t max_bytes,
                                  absl::FunctionRef<absl::Status(absl::string_view bytes)> fn);

// The inverse: calls fill for successive blocks, none empty, to set them to the bytes of the next elements, and assigns
// these to the elements of *view. No block ends inside an element. Contiguous memory is handed out where it lies; for
// any other view there is one block. Requires: as above, and that no two indices of *view name one element. Errors:
// what fill returns, at once (elements may have been assigned); as TensorBuffer::EnsureMutable.
absl::Status FillRowMajorPieces(TensorView* view, size_t max_bytes,
                                absl::FunctionRef<absl::Status(absl::Span<char> block)> fill);

// The whole into `out`. Requires: a dtype of fixed size; out.size() is the number of bytes. Errors: FailedPrecondition.
absl::Status CopyRowMajor(const TensorView& view, absl::Span<char> out);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_ROW_MAJOR_H_
