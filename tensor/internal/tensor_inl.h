// Bodies of the templates in tensor.h, which includes this file. Users need not read it.

#ifndef TENSORCASK_TENSOR_INTERNAL_TENSOR_INL_H_
#define TENSORCASK_TENSOR_INTERNAL_TENSOR_INL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

template <typename T>
Tensor Tensor::Scalar(T value) {
  if constexpr (IsObject(kDTypeOf<T>)) {
    return Scalar(std::move(value), CpuAllocator::Default());
  } else {
    return Tensor(kDTypeOf<T>, TensorShape(), TensorBuffer::MakeScalar<ElementOf<T>>(value));
  }
}

template <typename T>
Tensor Tensor::Scalar(T value, const RefPtr<Allocator>& allocator) {
  Tensor tensor = CreateOrDie(kDTypeOf<T>, TensorShape(), allocator);
  tensor.mutable_scalar<T>() = std::move(value);
  return tensor;
}

template <typename T>
Tensor Tensor::FromValues(std::initializer_list<T> values, const RefPtr<Allocator>& allocator) {
  Tensor tensor = CreateOrDie(kDTypeOf<T>, TensorShape({static_cast<int64_t>(values.size())}), allocator);
  std::copy(values.begin(), values.end(), tensor.mutable_data<T>());
  return tensor;
}

template <typename T>
Tensor Tensor::FromValues(std::initializer_list<std::initializer_list<T>> rows, const RefPtr<Allocator>& allocator) {
  const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  Tensor tensor = CreateOrDie(
      kDTypeOf<T>, TensorShape({static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)}), allocator);
  ElementOf<T>* out = tensor.mutable_data<T>();
  for (const auto& row : rows) {
    CheckEqualRows(columns, row.size());
    out = std::copy(row.begin(), row.end(), out);
  }
  return tensor;
}

template <typename T>
Tensor Tensor::FromValues(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
                          const RefPtr<Allocator>& allocator) {
  const size_t rows = planes.size() == 0 ? 0 : planes.begin()->size();
  const size_t columns = rows == 0 ? 0 : planes.begin()->begin()->size();
  Tensor tensor = CreateOrDie(
      kDTypeOf<T>,
      TensorShape({static_cast<int64_t>(planes.size()), static_cast<int64_t>(rows), static_cast<int64_t>(columns)}),
      allocator);
  ElementOf<T>* out = tensor.mutable_data<T>();
  for (const auto& plane : planes) {
    CheckEqualRows(rows, plane.size());
    for (const auto& row : plane) {
      CheckEqualRows(columns, row.size());
      out = std::copy(row.begin(), row.end(), out);
    }
  }
  return tensor;
}

template <typename T>
absl::StatusOr<Tensor> Tensor::FromSpan(const TensorShape& shape, absl::Span<const T> values,
                                        const RefPtr<Allocator>& allocator) {
  if (static_cast<int64_t>(values.size()) != shape.num_elements()) return WrongNumValues(values.size(), shape);
  absl::StatusOr<Tensor> tensor = Create(kDTypeOf<T>, shape, allocator);
  if (tensor.ok()) std::copy(values.begin(), values.end(), tensor->template mutable_data<T>());
  return tensor;
}

template <typename T, typename A>
absl::StatusOr<Tensor> Tensor::FromSpan(const TensorShape& shape, const std::vector<T, A>& values,
                                        const RefPtr<Allocator>& allocator) {
  if (static_cast<int64_t>(values.size()) != shape.num_elements()) return WrongNumValues(values.size(), shape);
  absl::StatusOr<Tensor> tensor = Create(kDTypeOf<T>, shape, allocator);
  if (tensor.ok()) std::copy(values.begin(), values.end(), tensor->template mutable_data<T>());
  return tensor;
}

template <typename T>
const ElementOf<T>* Tensor::data() const {
  return static_cast<const ElementOf<T>*>(CheckedData(kDTypeOf<T>));
}
template <typename T>
ElementOf<T>* Tensor::mutable_data() {
  return static_cast<ElementOf<T>*>(CheckedMutableData(kDTypeOf<T>));
}

template <typename T>
const ElementOf<T>& Tensor::scalar() const {
  CheckNumElements({1});
  return *data<T>();
}
template <typename T>
ElementOf<T>& Tensor::mutable_scalar() {
  CheckNumElements({1});
  return *mutable_data<T>();
}

template <typename T>
DenseView<const ElementOf<T>, 1> Tensor::flat() const {
  return {data<T>(), {num_elements()}};
}
template <typename T>
DenseView<ElementOf<T>, 1> Tensor::mutable_flat() {
  return {mutable_data<T>(), {num_elements()}};
}
template <typename T>
DenseView<const ElementOf<T>, 1> Tensor::vec() const {
  return tensor<T, 1>();
}
template <typename T>
DenseView<ElementOf<T>, 1> Tensor::mutable_vec() {
  return mutable_tensor<T, 1>();
}
template <typename T>
DenseView<const ElementOf<T>, 2> Tensor::matrix() const {
  return tensor<T, 2>();
}
template <typename T>
DenseView<ElementOf<T>, 2> Tensor::mutable_matrix() {
  return mutable_tensor<T, 2>();
}
template <typename T, int N>
DenseView<const ElementOf<T>, N> Tensor::tensor() const {
  return {data<T>(), RankedDims<N>()};
}
template <typename T, int N>
DenseView<ElementOf<T>, N> Tensor::mutable_tensor() {
  return {mutable_data<T>(), RankedDims<N>()};
}

template <typename T, int N>
DenseView<const ElementOf<T>, N> Tensor::shaped(const std::array<int64_t, N>& dims) const {
  CheckNumElements(dims);
  return {data<T>(), dims};
}
template <typename T, int N>
DenseView<ElementOf<T>, N> Tensor::mutable_shaped(const std::array<int64_t, N>& dims) {
  CheckNumElements(dims);
  return {mutable_data<T>(), dims};
}

template <typename T, int N>
DenseView<const ElementOf<T>, N> Tensor::flat_inner_dims() const {
  return {data<T>(), FoldedDims<N>(rank() - N)};
}
template <typename T, int N>
DenseView<ElementOf<T>, N> Tensor::mutable_flat_inner_dims() {
  return {mutable_data<T>(), FoldedDims<N>(rank() - N)};
}
template <typename T, int N>
DenseView<const ElementOf<T>, N> Tensor::flat_outer_dims() const {
  return {data<T>(), FoldedDims<N>(0)};
}
template <typename T, int N>
DenseView<ElementOf<T>, N> Tensor::mutable_flat_outer_dims() {
  return {mutable_data<T>(), FoldedDims<N>(0)};
}
template <typename T, int N>
DenseView<const ElementOf<T>, N> Tensor::flat_inner_outer_dims(int begin) const {
  return {data<T>(), FoldedDims<N>(begin)};
}
template <typename T, int N>
DenseView<ElementOf<T>, N> Tensor::mutable_flat_inner_outer_dims(int begin) {
  return {mutable_data<T>(), FoldedDims<N>(begin)};
}

template <typename T, int N>
DenseView<const T, N> Tensor::bit_casted_shaped(const std::array<int64_t, N>& dims) const {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(!std::is_same_v<T, bool>, "a bool is 0 or 1: other bytes cannot be read as bools");
  CheckBitCast(dims, sizeof(T), alignof(T));
  return {reinterpret_cast<const T*>(bytes().data()), dims};
}
template <typename T, int N>
DenseView<T, N> Tensor::mutable_bit_casted_shaped(const std::array<int64_t, N>& dims) {
  bit_casted_shaped<T, N>(dims);  // for its checks
  return {reinterpret_cast<T*>(mutable_bytes().data()), dims};
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INTERNAL_TENSOR_INL_H_
