// The sizes of a tensor along its axes, outermost first.
//
//   TensorShape image({224, 224, 3});  // rank 3, num_elements 150528
//   TensorShape scalar;                // rank 0, num_elements 1
//   TensorShape empty({0, 5});         // rank 2, num_elements 0: no data, still a shape
//   absl::StatusOr<TensorShape> stored = TensorShape::Create(dims_from_a_file);
//
// Always holds, so nobody checks it again: rank <= kMaxRank; every dim >= 0; the product of the nonzero dims fits
// int64_t, so dense strides fit too ([0, 2^62, 8] is refused in any order of its dims). A value: compared by dims,
// thread-compatible. A shape moved from is the scalar shape.
//
// Source: tensorflow/core/framework/tensor_shape.h, with Status instead of aborts.

#ifndef TENSORCASK_TENSOR_SHAPE_H_
#define TENSORCASK_TENSOR_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/shape_rep.h"

namespace tensorcask {

class Tensor;

// Dims by value, without the heap up to rank 8.
using DimVector = absl::InlinedVector<int64_t, 8>;

class TensorShape {
 public:
  static constexpr int kMaxRank = 254;  // 255 marks an unknown rank

  TensorShape() = default;                                    // the scalar shape
  explicit TensorShape(std::initializer_list<int64_t> dims);  // for literals in code; CHECKs

  // For sizes that come from anywhere but the source text.
  // Errors: InvalidArgument, naming the axis and the shape, if a promise above would not hold.
  static absl::StatusOr<TensorShape> Create(absl::Span<const int64_t> dims);

  int rank() const { return rep_.rank(); }
  int64_t dim(int axis) const {  // Requires: 0 <= axis < rank()
    CASK_CHECK(axis >= 0 && axis < rank(), "TensorShape::dim: the axis is outside the shape");
    return rep_.dim(axis);
  }
  DimVector dims() const;
  int64_t num_elements() const { return rep_.num_elements(); }

  bool IsScalar() const { return rank() == 0; }
  bool IsVector() const { return rank() == 1; }
  bool IsMatrix() const { return rank() == 2; }
  bool IsSameSize(const TensorShape& other) const { return *this == other; }  // TensorFlow's name for ==
  bool StartsWith(const TensorShape& prefix) const;
  bool EndsWith(const TensorShape& suffix) const;

  // Changes of the shape. Each gives InvalidArgument, and leaves the shape as it was, if a promise above would not
  // hold or an axis is outside; axes count from 0 and are not wrapped.
  absl::Status AddDim(int64_t size);                    // behind the last axis
  absl::Status InsertDim(int axis, int64_t size);       // before `axis`; 0 <= axis <= rank()
  absl::Status SetDim(int axis, int64_t size);          // 0 <= axis < rank()
  absl::Status RemoveDim(int axis);                     // 0 <= axis < rank()
  absl::Status RemoveDimRange(int begin, int end);      // axes [begin, end); 0 <= begin <= end <= rank()
  absl::Status AppendShape(const TensorShape& suffix);  // all axes of `suffix` behind ours

  std::string ToString() const;  // "[2,3]"; "[]" for a scalar

  friend bool operator==(const TensorShape& a, const TensorShape& b);
  friend bool operator!=(const TensorShape& a, const TensorShape& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const TensorShape& shape);

 private:
  friend class Tensor;  // keeps its dtype in rep_

  explicit TensorShape(internal::TensorShapeRep rep) : rep_(std::move(rep)) {}

  // Makes `dims` the dims of this shape, or leaves it as it was.
  absl::Status Assign(absl::Span<const int64_t> dims);

  internal::TensorShapeRep rep_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_SHAPE_H_
