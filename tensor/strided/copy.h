// Copies and fills strided views, at nearly the speed of memcpy for any pair of layouts.
//
//   absl::Status status = Copy(*images.Permute({0, 2, 3, 1}), &nhwc);   // each element of equal index
//   status = Copy(*row.Expand({1000, 64}), &matrix, {/*num_threads=*/4});
//   status = Fill(0.5, &view);                                          // a view of any dtype that holds 0.5
//
// A destination is a view or a tensor. Both sides have the same dtype and dims: to broadcast, call TensorView::Expand
// first; to convert, see convert.h. The copy merges axes, then copies runs, or blocks if the two sides have different
// innermost axes. Outputs larger than the cache are written with non-temporal stores. The kernels depend on the
// processor; internal/copy_plan.cc chooses among them, and all give equal bytes.
//
// Overlap: if source and destination share memory, the result is as if the source had been copied aside first, as with
// memmove. The copy allocates memory for that only if elements of the source may overlap elements of the destination,
// and the two views are neither the same elements at the same addresses (nothing happens) nor both dense in the same
// order. A destination in which two indices name one element is refused.
//
// Errors of all, and nothing has been written: InvalidArgument, naming both views, if dtypes or dims differ or the
// destination overlaps itself; ResourceExhausted if memory cannot be allocated (for an overlapping copy, or for
// writable memory, see TensorBuffer::EnsureMutable); FailedPrecondition for a buffer without data.

#ifndef TENSORCASK_TENSOR_STRIDED_COPY_H_
#define TENSORCASK_TENSOR_STRIDED_COPY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <type_traits>

#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/nested_values.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

struct CopyOptions {
  int num_threads = 1;  // at most this many, the calling thread included; objects are copied by one
};

// Assigns to each element of *to the element of `from` with the same index. Objects are assigned as C++ objects.
absl::Status Copy(const TensorView& from, TensorView* to, const CopyOptions& options = {});
inline absl::Status Copy(const TensorView& from, Tensor* to, const CopyOptions& options = {}) {
  TensorView view = *to;
  return Copy(from, &view, options);
}

namespace internal {

// C++ numbers and text that NestedValues holds: also long long, and text that is not a std::string.
template <typename T>
inline constexpr bool kIsPlainValue =
    std::is_constructible_v<NestedValues, const T&> && !std::is_same_v<T, long double> &&
    !std::is_same_v<T, NestedValues> && !std::is_convertible_v<const T&, NestedValues::List>;

// What Fill calls: with the element at `value`, of the dtype of *to; with `value` converted to that dtype; and the
// error for elements of another dtype that are not converted.
absl::Status FillElement(const void* value, TensorView* to, const CopyOptions& options);
absl::Status FillConverted(const NestedValues& value, TensorView* to, const CopyOptions& options);
absl::Status FillOfAnotherDType(DType dtype, const TensorView& to);

}  // namespace internal

// Assigns `value` to each element of *to. A value of the element type is assigned bit by bit. Other numbers are
// converted by the rules of TensorFromValues (nested_values.h); a value that does not fit is an error:
//
//   Fill(0, &floats), Fill(0.1, &floats)   rounded to nearest; but not to infinity: float32 refuses 1e300
//   Fill(2.0, &ints), Fill(300LL, &ints)   integers in the range of the dtype; 2.5 and, to uint8, 300 are refused
//   Fill(1, &bools), Fill(true, &floats)   bools are 0 and 1
//   Fill("text", &strings)                 text is for strings, and only text
//
// T is an element type, an integer or floating type of C++ but for char (text is "a") and long double, or text:
// std::string, absl::string_view, const char* (not null). Small floats, quantised and sub-byte integers are not
// converted.
// Errors: those of all; InvalidArgument, naming *to, the value and the range of the dtype, if it does not fit.
template <typename T>
absl::Status Fill(const T& value, TensorView* to, const CopyOptions& options = {}) {
  static_assert(internal::kIsElement<T> || internal::kIsPlainValue<T>, "no tensor has elements of such values");
  if constexpr (internal::kIsElement<T>) {
    if (to->dtype() == kDTypeOf<T>) return internal::FillElement(&value, to, options);
  }
  if constexpr (internal::kIsPlainValue<T>) {
    return internal::FillConverted(NestedValues(value), to, options);
  } else {
    return internal::FillOfAnotherDType(kDTypeOf<T>, *to);
  }
}
template <typename T>
absl::Status Fill(const T& value, Tensor* to, const CopyOptions& options = {}) {
  TensorView view = *to;
  return Fill(value, &view, options);
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_COPY_H_
