// Small handles, and what the tests of handles look at.

#ifndef TENSORCASK_TESTS_TENSOR_COMPAT_HANDLE_SAMPLES_H_
#define TENSORCASK_TESTS_TENSOR_COMPAT_HANDLE_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/handle.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

using Floats = std::vector<float>;

// The elements that a handle shows, row-major. Takes no reference that outlives it.
inline Floats Shown(const TensorHandle& handle) {
  const Tensor dense = *handle.object()->view().ToTensor();
  return Floats(dense.data<float>(), dense.data<float>() + dense.num_elements());
}
inline Floats Shown(const TensorView& view) { return Shown(TensorHandle(view)); }

inline const TensorBuffer* BufferOf(const TensorHandle& handle) { return handle.object()->view().buffer().get(); }
inline int64_t BufferCount(const TensorHandle& handle) { return BufferOf(handle)->use_count(); }

inline TensorHandle Vector() { return TensorHandle(Tensor::FromValues<float>({1, 2})); }
inline TensorHandle Matrix() { return TensorHandle(Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})); }
inline Tensor One() { return Tensor::Scalar<float>(1); }

// a + 1 in memory of its own, which is all the arithmetic that the table needs.
inline TensorView PlusOne(const TensorHandle& a) {
  TensorView sum = *a.object()->view().Clone();
  for (int64_t i = 0; i < sum.num_elements(); ++i) sum.mutable_data<float>()[i] += 1;
  return sum;
}

// 4 KiB: memory that lazy clones do share.
inline TensorHandle Block() {
  Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({1024}));
  return TensorHandle(tensor);
}
inline TensorHandle LazyCloneOf(const TensorHandle& a) {
  return *a.View([](const TensorView& view) { return view.LazyClone(); });
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_TENSOR_COMPAT_HANDLE_SAMPLES_H_
