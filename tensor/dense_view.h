// A typed, row-major window on the elements of a tensor. Its rank is known at compile time.
//
//   DenseView<const float, 2> m = tensor.matrix<float>();   // [2,3]
//   m(1, 2)                                                  // last element: data()[1 * 3 + 2]
//   for (float x : tensor.flat<float>()) sum += x;
//   tensor.mutable_flat<float>()(0) = 1;                     // to write: mutable_flat, mutable_matrix, ...
//
// The views of `flat`, `matrix` and the other const accessors of Tensor are read only (T is const): assigning to an
// element of one does not compile ("read-only location", "const-qualified type").
//
// A view borrows: it holds no reference to the buffer, so it must not outlive the tensor. Indices are checked unless
// NDEBUG is defined (Bazel: in all modes but `-c opt`); a failed check prints the index and the size of the axis.

#ifndef TENSORCASK_TENSOR_DENSE_VIEW_H_
#define TENSORCASK_TENSOR_DENSE_VIEW_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/check.h"

namespace tensorcask {

template <typename T, int N>
class DenseView {
 public:
  static_assert(N >= 0);
  static constexpr int kRank = N;
  using Dims = std::array<int64_t, N>;

  DenseView(T* data, const Dims& dims) : data_(data), dims_(dims) {}

  const Dims& dims() const { return dims_; }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t num_elements() const {
    int64_t product = 1;
    for (const int64_t dim : dims_) product *= dim;
    return product;
  }

  T* data() const { return data_; }
  T* begin() const { return data_; }  // all elements, row-major
  T* end() const { return data_ + num_elements(); }

  // The element at one index per axis.
  template <typename... Index>
  T& operator()(Index... index) const {  // const T: write through mutable_flat(), mutable_matrix(), ... of the tensor
    static_assert(sizeof...(Index) == N, "operator() takes one index per axis");
    int64_t position = 0;
    size_t axis = 0;
    ((CASK_DCHECK_INDEX(static_cast<int64_t>(index), axis, dims_[axis]),
      position = position * dims_[axis++] + static_cast<int64_t>(index)),
     ...);
    return data_[position];
  }
  T& operator[](int64_t i) const {  // const T: write through mutable_flat() or mutable_vec() of the tensor
    static_assert(N == 1, "operator[] is for flat views and vectors");
    return (*this)(i);
  }

 private:
  T* data_;
  Dims dims_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DENSE_VIEW_H_
