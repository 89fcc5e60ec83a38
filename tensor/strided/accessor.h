// Elements of a view by index, with rank and type known at compile time: as fast as a pointer and strides by hand.
//
//   CASK_ASSIGN_OR_RETURN(const auto in, (Accessor<const float, 2>::Create(view)));
//   CASK_ASSIGN_OR_RETURN(const auto out, (Accessor<float, 2>::Create(result)));    // result: a non-const TensorView
//   out(i, j) = in(j, i);
//   in[i][j]         // in(i, j)
//   in[i].dim(0)     // the size of the second axis
//
// Accessor borrows dims and strides from the view: three pointers, valid while that TensorView object stays unchanged.
// PackedAccessor holds them by value, so it may outlive the view object, but not the buffer, and a Tensor will do, too;
// Index int32_t makes it smaller, and is refused if a step does not fit. Neither keeps the buffer alive. T is const for
// reading; if it is not, the view must not be const either, and its memory is made writable. Indices are checked unless
// NDEBUG is defined (Bazel: in all modes but `-c opt`); a failed check prints the index and the size of the axis.

#ifndef TENSORCASK_TENSOR_STRIDED_ACCESSOR_H_
#define TENSORCASK_TENSOR_STRIDED_ACCESSOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace internal {

// The view that an accessor to T is made from.
template <typename T>
using AccessedView = std::conditional_t<std::is_const_v<T>, const TensorView, TensorView>;

// The first element of `view`, in writable memory if T is not const.
// Errors: InvalidArgument if the dtype or the rank differ; FailedPrecondition; ResourceExhausted.
template <typename T, int N>
absl::StatusOr<T*> AccessedData(AccessedView<T>& view) {
  static_assert(std::is_same_v<ElementOf<std::remove_cv_t<T>>, std::remove_cv_t<T>>,
                "the elements are int64_t or uint64_t: write these types instead of long long");
  if (view.dtype() != kDTypeOf<T> || view.rank() != N) {
    return absl::InvalidArgumentError(
        absl::StrCat("an accessor of ", DTypeName(kDTypeOf<T>), " and rank ", N, " to the view ", view.ToString()));
  }
  if (view.buffer()) CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  if constexpr (std::is_const_v<T>) {
    return view.template data<std::remove_const_t<T>>();
  } else {
    CASK_RETURN_IF_ERROR(view.EnsureMutable());
    return view.template mutable_data<T>();
  }
}

}  // namespace internal

template <typename T, int N>
class Accessor {
  static_assert(N >= 1, "a scalar is *view.data<T>()");

 public:
  // Errors: InvalidArgument if the dtype is not T's or the rank is not N; FailedPrecondition for a buffer without data;
  // ResourceExhausted if read-only memory could not be replaced by a writable copy.
  static absl::StatusOr<Accessor> Create(internal::AccessedView<T>& view) {
    CASK_ASSIGN_OR_RETURN(T* const data, (internal::AccessedData<T, N>(view)));
    return Accessor(data, view.dims().data(), view.strides().data());
  }
  static absl::StatusOr<Accessor> Create(const TensorView&&) = delete;  // would borrow from a temporary
  static absl::StatusOr<Accessor> Create(const Tensor&) = delete;       // has no strides to borrow: PackedAccessor

  // For geometry stored elsewhere: N sizes and N strides, in elements.
  Accessor(T* data, const int64_t* dims, const int64_t* strides) : data_(data), dims_(dims), strides_(strides) {}

  int64_t dim(int axis) const { return dims_[axis]; }
  int64_t stride(int axis) const { return strides_[axis]; }
  T* data() const { return data_; }

  // The sub-array at index i of axis 0, an element if N is 1.
  decltype(auto) operator[](int64_t i) const {
    CASK_DCHECK_INDEX(i, 0, dims_[0]);
    if constexpr (N == 1) {
      return (data_[i * strides_[0]]);
    } else {
      // Without elements the data is null, from which no step may be taken.
      return Accessor<T, N - 1>(data_ == nullptr ? data_ : data_ + i * strides_[0], dims_ + 1, strides_ + 1);
    }
  }
  template <typename... Indices>
  T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == N, "operator() takes one index per axis");
    int64_t position = 0;
    int axis = 0;
    ((CASK_DCHECK_INDEX(static_cast<int64_t>(indices), axis, dims_[axis]),
      position += static_cast<int64_t>(indices) * strides_[axis++]),
     ...);
    return data_[position];
  }

 private:
  T* data_;
  const int64_t* dims_;
  const int64_t* strides_;
};

template <typename T, int N, typename Index = int64_t>
class PackedAccessor {
  static_assert(N >= 1, "a scalar is *view.data<T>()");
  static_assert(std::is_same_v<Index, int64_t> || std::is_same_v<Index, int32_t>);

 public:
  // Errors: those of Accessor::Create; InvalidArgument if a size, a stride or the distance between two elements does
  // not fit Index.
  static absl::StatusOr<PackedAccessor> Create(internal::AccessedView<T>& view) {
    CASK_ASSIGN_OR_RETURN(T* const data, (internal::AccessedData<T, N>(view)));
    PackedAccessor packed;
    packed.data_ = data;
    const Layout::Range range = view.layout().bounds();
    bool fits = CheckedCast<Index>(range.end - range.begin).has_value();
    for (int axis = 0; axis < N; ++axis) {
      fits = fits && CheckedCast<Index>(view.dim(axis)) && CheckedCast<Index>(view.stride(axis));
      packed.dims_[axis] = static_cast<Index>(view.dim(axis));
      packed.strides_[axis] = static_cast<Index>(view.stride(axis));
    }
    if (fits) return packed;
    return absl::InvalidArgumentError(
        absl::StrCat("an accessor with ", sizeof(Index) * 8, "-bit indices to the view ", view.ToString()));
  }
  static absl::StatusOr<PackedAccessor> Create(Tensor& tensor) {
    TensorView view = tensor;
    return Create(view);
  }

  Index dim(int axis) const { return dims_[axis]; }
  Index stride(int axis) const { return strides_[axis]; }
  T* data() const { return data_; }

  template <typename... Indices>
  T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == N, "operator() takes one index per axis");
    Index position = 0;
    int axis = 0;
    ((CASK_DCHECK_INDEX(static_cast<int64_t>(indices), axis, dims_[axis]),
      position = static_cast<Index>(position + static_cast<Index>(indices) * strides_[axis]), ++axis),
     ...);
    return data_[position];
  }

  // Two axes exchanged. Errors: InvalidArgument for an axis outside [0, N).
  absl::StatusOr<PackedAccessor> Transpose(int axis1, int axis2) const {
    if (axis1 < 0 || axis1 >= N || axis2 < 0 || axis2 >= N) {
      return absl::InvalidArgumentError(
          absl::StrCat("PackedAccessor::Transpose: axes ", axis1, " and ", axis2, " of rank ", N));
    }
    PackedAccessor result = *this;
    std::swap(result.dims_[axis1], result.dims_[axis2]);
    std::swap(result.strides_[axis1], result.strides_[axis2]);
    return result;
  }

 private:
  PackedAccessor() = default;

  T* data_ = nullptr;
  Index dims_[N] = {};
  Index strides_[N] = {};
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_ACCESSOR_H_
