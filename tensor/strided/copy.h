// Copying and filling strided views, near the speed of memcpy for any pair of layouts.
//
//   absl::Status status = Copy(*images.Permute({0, 2, 3, 1}), &nhwc);   // each element of equal index
//   status = Copy(*row.Expand({1000, 64}), &matrix, {/*num_threads=*/4});
//   status = Fill(0.5, &view);                                          // of any dtype that holds 0.5
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

#include <type_traits>

#include "absl/status/status.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/nested_values.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct CopyOptions {
  int num_threads = 1;  // at most, and for fixed-size elements; the calling one included
};

// Assigns each element of *to from that of equal index of `from`. Objects are assigned as such.
absl::Status Copy(const TensorView& from, TensorView* to, const CopyOptions& options = {});

namespace internal {

template <typename T, typename = void>
inline constexpr bool kIsElement = false;
template <typename T>
inline constexpr bool kIsElement<T, std::void_t<decltype(DTypeOf<T>::value)>> = true;

// Numbers and text of C++ that NestedValues holds: also long long, and text that is no std::string.
template <typename T>
inline constexpr bool kIsPlainValue =
    std::is_constructible_v<NestedValues, const T&> && !std::is_same_v<T, long double> &&
    !std::is_same_v<T, NestedValues> && !std::is_convertible_v<const T&, NestedValues::List>;

// The ways of Fill: with the element at `value`, of the dtype of *to; with what `value` becomes in that dtype; and the
// error for elements of another dtype that are not converted.
absl::Status FillElement(const void* value, TensorView* to, const CopyOptions& options);
absl::Status FillConverted(const NestedValues& value, TensorView* to, const CopyOptions& options);
absl::Status FillOfAnotherDType(DType dtype, const TensorView& to);

}  // namespace internal

// Assigns `value` to each element of *to. A value of the element type is assigned bit by bit. Other numbers are
// converted by the rule of TensorFromValues (nested_values.h), and so never silently become something else:
//
//   Fill(0, &floats), Fill(0.1, &floats)   rounded to nearest; but not to infinity: 1e300 is no float32
//   Fill(2.0, &ints), Fill(300LL, &ints)   integers in the range of the dtype; 2.5 and, to uint8, 300 are refused
//   Fill(1, &bools), Fill(true, &floats)   bools are 0 and 1
//   Fill("text", &strings)                 text is for strings, and only text
//
// T is an element type, an integer or floating type of C++ but for char (text is "a") and long double, or text:
// std::string, absl::string_view, const char* (not null). Small floats, quantised and sub-byte integers are not
// converted. Errors: as above; InvalidArgument, naming *to, the value, and what the dtype holds, if it is not that.
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

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_COPY_H_
