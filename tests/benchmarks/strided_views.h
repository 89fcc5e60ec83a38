// A StridedCase as views of ours.
//
//   CaseViews views(case);
//   Copy(views.from, &views.to);

#ifndef TENSORCASK_TESTS_BENCHMARKS_STRIDED_VIEWS_H_
#define TENSORCASK_TESTS_BENCHMARKS_STRIDED_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/strided_cases.h"

namespace tensorcask::benchmarks {

// A tensor whose bytes are those of the float 1.0: ordinary numbers of most dtypes.
inline Tensor OrdinaryTensor(DType dtype, const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  const float one = 1;
  const auto bytes = tensor.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = reinterpret_cast<const char*>(&one)[i % sizeof(one)];
  return tensor;
}

struct CaseViews {
  // The destination's dtype may be another one.
  explicit CaseViews(const StridedCase& wanted, DType to_dtype = DType::kInvalid) {
    from = *TensorView(OrdinaryTensor(wanted.dtype, *TensorShape::Create(wanted.dims))).Permute(wanted.order);
    if (wanted.step != 1) from = *from.Slice(-1, std::nullopt, std::nullopt, wanted.step);
    if (wanted.repeat > 0) {
      std::vector<int64_t> dims(from.dims().begin(), from.dims().end());
      dims.insert(dims.begin(), wanted.repeat);
      from = *from.Expand(dims);
    }
    to = OrdinaryTensor(to_dtype == DType::kInvalid ? wanted.dtype : to_dtype, from.shape());
  }
  size_t to_bytes() const { return static_cast<size_t>(to.num_elements()) * to.element_size(); }

  TensorView from;
  TensorView to;  // row-major
};

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_STRIDED_VIEWS_H_
