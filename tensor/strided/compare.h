// Compares two tensors: bit by bit, or within a tolerance.
//
//   Equal(saved, *reader.Read("w"))                 // dtype, shape and every bit
//   AllClose(computed, expected)                    // NumPy's tolerances: rtol 1e-5, atol 1e-8
//   Equal(*TensorView(t).Transpose(0, 1), columns)  // strides do not matter, elements do
//
// Both functions take tensors and views in any combination and copy nothing. Tensors of different dtypes or shapes are
// neither equal nor close: nothing is converted or broadcast. Objects (strings, resources, variants) are compared by
// their ==: strings byte by byte. A tensor without data (TensorBuffer::MakeWithoutData) equals, and is close to, only
// itself: the same layout on the same buffer.
//
// In tests, the matchers TensorEq and TensorNear of tests/fixture/matchers.h compare by the same rules, and also say
// where two tensors differ and by how much.

#ifndef TENSORCASK_TENSOR_STRIDED_COMPARE_H_
#define TENSORCASK_TENSOR_STRIDED_COMPARE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// True if dtype, shape and the bits of all elements are equal: a NaN equals a NaN of the same bits, and 0 is not -0.
// For sub-byte elements (int4, float6, ...) only the bits of the value count.
bool Equal(const TensorView& a, const TensorView& b);

// Whether two NaNs at the same index, of any bits, are close.
enum class Nans : uint8_t { kDiffer, kEqual };

// True if dtype and shape are equal and each element of `actual` is close to that of `expected` by the rule of
// numpy.allclose, computed in long double:
//
//   |actual - expected| <= atol + rtol * |expected| if `expected` is finite; otherwise actual == expected
//
// So infinities are close to themselves, and a NaN is close to nothing, or with Nans::kEqual to a NaN alone. The rule
// is not symmetric. For complex numbers, the absolute value of the difference counts, and a number is NaN if a part is.
// Integers, quantised integers and bools count as numbers; differences do not overflow. Objects have to be equal.
// Requires: rtol and atol are not negative and not NaN.
bool AllClose(const TensorView& actual, const TensorView& expected, double rtol = 1e-5, double atol = 1e-8,
              Nans nans = Nans::kDiffer);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_COMPARE_H_
