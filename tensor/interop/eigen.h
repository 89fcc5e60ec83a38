// Makes Eigen maps of tensors and views, without a copy.
//
//   CASK_ASSIGN_OR_RETURN(const auto a, EigenMatrix<const float>(weights));     // a Tensor: dense rows
//   CASK_ASSIGN_OR_RETURN(const auto b, EigenMatrix<const float>(transposed));  // a TensorView: any strides
//   CASK_ASSIGN_OR_RETURN(auto c, EigenMatrix<float>(result));                  // for writing
//   c.noalias() = a * b;
//   CASK_ASSIGN_OR_RETURN(const auto x, (EigenTensor<const float, 4>(images))); // unsupported/Eigen/CXX11/Tensor
//
// Maps of a Tensor are dense and row-major, and Eigen computes with them at full speed. Maps of a TensorView have
// strides at run time, negative and 0 included, which Eigen follows element by element or packs first. T is an element
// type that Eigen supports: bool, an integer, float, double or std::complex of these; not the small floats.
//
// T is const for reading. If it is not, the tensor or view must not be const either, and its memory is made writable
// (tensor.h). A map does not keep the memory alive: use it while the tensor or view, or another one on the same buffer,
// exists. Maps of temporaries do not compile: EigenMatrix<const float>(*view.ToTensor()) would dangle.
//
// Errors of all: InvalidArgument if the dtype is not T's or the rank differs, and for writing if two indices name one
// element; ResourceExhausted if read-only memory could not be replaced by a writable copy; FailedPrecondition for a
// buffer without data.

#ifndef TENSORCASK_TENSOR_INTEROP_EIGEN_H_
#define TENSORCASK_TENSOR_INTEROP_EIGEN_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <complex>
#include <cstddef>
#include <type_traits>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorcask {

// Eigen's row-major matrices.
template <typename T>
using EigenRowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace internal {

template <typename T>
struct IsEigenScalar : std::is_arithmetic<T> {};
template <typename T>
struct IsEigenScalar<std::complex<T>> : std::is_floating_point<T> {};

// `Plain`, const if T is.
template <typename T, typename Plain>
using ConstLike = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;

// `From`, a tensor or a view, const if T is.
template <typename T, typename From>
using EigenSource = ConstLike<T, From>;

// The first element, in writable memory if T is not const.
template <typename T, int N, typename From>
absl::StatusOr<T*> EigenData(From& from) {
  using Scalar = std::remove_const_t<T>;
  static_assert(IsEigenScalar<Scalar>::value, "Eigen does not compute with this element type");
  static_assert(std::is_same_v<ElementOf<Scalar>, Scalar>,
                "the elements are int64_t or uint64_t: write these types instead of long long");
  const TensorView& view = from;
  if (view.dtype() != kDTypeOf<Scalar> || view.rank() != N) {
    return absl::InvalidArgumentError(absl::StrCat("an Eigen map of ", DTypeName(kDTypeOf<Scalar>), " and rank ", N,
                                                   " over the view ", view.ToString()));
  }
  if (view.buffer()) CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  if constexpr (std::is_const_v<T>) {
    return view.data<Scalar>();
  } else {
    CASK_RETURN_IF_ERROR(view.CheckWritable());
    CASK_RETURN_IF_ERROR(from.EnsureMutable());
    return from.template mutable_data<Scalar>();
  }
}

}  // namespace internal

// ---- Rank 1 ---------------------------------------------------------------------------------------------------------

template <typename T>
using EigenVectorMap = Eigen::Map<internal::ConstLike<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>>>;
template <typename T>
using EigenStridedVectorMap =
    Eigen::Map<internal::ConstLike<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>>, Eigen::Unaligned,
               Eigen::InnerStride<>>;

template <typename T>
absl::StatusOr<EigenVectorMap<T>> EigenVector(internal::EigenSource<T, Tensor>& tensor) {
  CASK_ASSIGN_OR_RETURN(T* const data, (internal::EigenData<T, 1>(tensor)));
  return EigenVectorMap<T>(data, tensor.dim(0));
}

template <typename T>
absl::StatusOr<EigenStridedVectorMap<T>> EigenVector(internal::EigenSource<T, TensorView>& view) {
  CASK_ASSIGN_OR_RETURN(T* const data, (internal::EigenData<T, 1>(view)));
  return EigenStridedVectorMap<T>(data, view.dim(0), Eigen::InnerStride<>(view.stride(0)));
}

template <typename T>
void EigenVector(const Tensor&&) = delete;
template <typename T>
void EigenVector(const TensorView&&) = delete;

// ---- Rank 2 ---------------------------------------------------------------------------------------------------------

template <typename T>
using EigenMatrixMap = Eigen::Map<internal::ConstLike<T, EigenRowMajorMatrix<std::remove_const_t<T>>>>;
template <typename T>
using EigenStridedMatrixMap = Eigen::Map<internal::ConstLike<T, EigenRowMajorMatrix<std::remove_const_t<T>>>,
                                         Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

template <typename T>
absl::StatusOr<EigenMatrixMap<T>> EigenMatrix(internal::EigenSource<T, Tensor>& tensor) {
  CASK_ASSIGN_OR_RETURN(T* const data, (internal::EigenData<T, 2>(tensor)));
  return EigenMatrixMap<T>(data, tensor.dim(0), tensor.dim(1));
}

template <typename T>
absl::StatusOr<EigenStridedMatrixMap<T>> EigenMatrix(internal::EigenSource<T, TensorView>& view) {
  CASK_ASSIGN_OR_RETURN(T* const data, (internal::EigenData<T, 2>(view)));
  return EigenStridedMatrixMap<T>(data, view.dim(0), view.dim(1), {view.stride(0), view.stride(1)});
}

template <typename T>
void EigenMatrix(const Tensor&&) = delete;
template <typename T>
void EigenMatrix(const TensorView&&) = delete;

// ---- Any rank -------------------------------------------------------------------------------------------------------

template <typename T, int N>
using EigenTensorMap = Eigen::TensorMap<Eigen::Tensor<T, N, Eigen::RowMajor, Eigen::Index>>;

// For a Tensor only: Eigen's tensors have no strides.
template <typename T, int N>
absl::StatusOr<EigenTensorMap<T, N>> EigenTensor(internal::EigenSource<T, Tensor>& tensor) {
  CASK_ASSIGN_OR_RETURN(T* const data, (internal::EigenData<T, N>(tensor)));
  std::array<Eigen::Index, N> dims = {};
  for (int axis = 0; axis < N; ++axis) dims[static_cast<size_t>(axis)] = tensor.dim(axis);
  return EigenTensorMap<T, N>(data, dims);
}

template <typename T, int N>
void EigenTensor(const Tensor&&) = delete;
template <typename T, int N>
void EigenTensor(const TensorView&&) = delete;

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INTEROP_EIGEN_H_
