// Copying and filling strided views, near the speed of memcpy for any pair of layouts.
//
//   absl::Status status = Copy(*images.Permute({0, 2, 3, 1}), &nhwc);   // each element of equal index
//   status = Copy(*row.Expand({1000, 64}), &matrix, {/*num_threads=*/4});
//   status = Fill(1.5f, &view);
//
// Same dtype and dims on both sides: broadcasting is spelled out (TensorView::Expand), converting is convert.h. Axes
// are merged first; what remains is copied in runs, or in blocks where the two sides have different innermost axes.
// Outputs larger than the cache are stored past it. The kernels are chosen by the processor (base/cpu.h) and give equal
// bytes.
//
// Overlap: if source and destination share memory, the result is as if the source had been copied aside first (as
// memmove does). Memory for that is taken only where elements of the one may lie in elements of the other and the two
// are neither the same elements in the same places (nothing happens) nor both dense in the same order. A destination in
// which two indices name one element is refused.
//
// Errors of all, and nothing has been written: InvalidArgument, naming both views, if dtypes or dims differ or the
// destination overlaps itself; ResourceExhausted if memory cannot be had (for an overlapping copy, or for writable
// memory, see TensorBuffer::EnsureMutable); FailedPrecondition for a buffer without data.

#ifndef TENSORCASK_TENSOR_STRIDED_COPY_H_
#define TENSORCASK_TENSOR_STRIDED_COPY_H_

#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct CopyOptions {
  int num_threads = 1;  // at most, and for fixed-size elements; the calling one included
};

// Assigns each element of *to from that of equal index of `from`. Strings are copied as strings.
absl::Status Copy(const TensorView& from, TensorView* to, const CopyOptions& options = {});

// Assigns `value` to each element of *to. T may be std::string. Errors: as above; InvalidArgument, naming both, if T is
// not the element type of *to.
template <typename T>
absl::Status Fill(const T& value, TensorView* to, const CopyOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_COPY_H_
