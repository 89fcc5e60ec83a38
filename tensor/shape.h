// The sizes of a tensor along its axes, outermost first.
//
//   TensorShape image({224, 224, 3});  // rank 3, num_elements 150528
//   TensorShape scalar;                // rank 0, num_elements 1
//   TensorShape empty({0, 5});         // rank 2, num_elements 0: no data, still a shape
//   absl::StatusOr<TensorShape> stored = TensorShape::Create(dims_from_a_file);
//   image.dim(0)                      // 224; image[0] is the same
//   image.dim(-1)                     // 3: negative axes count from the back
//   for (int64_t dim : image) ...     // 224, 224, 3
//
// Always holds, so no other code checks it again: rank <= kMaxRank; every dim >= 0; the product of the nonzero dims
// fits int64_t, so dense strides fit too ([0, 2^62, 8] is refused in any order of its dims). A shape is a value: it is
// compared by its dims, and thread-compatible. A moved-from shape is the scalar shape.
//
// Source: tensorflow/core/framework/tensor_shape.h, with Status instead of aborts.

#ifndef TENSORCASK_TENSOR_SHAPE_H_
#define TENSORCASK_TENSOR_SHAPE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/internal/shape_rep.h"

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
  // The size of an axis. Axes count from 0, or from the back when negative: -1 is the last.
  // Requires: -rank() <= axis < rank(). CHECKed in every build; the message has the axis and the shape.
  int64_t dim(int axis) const {
    const int from_front = axis < 0 ? axis + rank() : axis;
    if (__builtin_expect(from_front < 0 || from_front >= rank(), 0)) NoSuchAxis(axis);
    return rep_.dim(from_front);
  }
  int64_t operator[](int axis) const { return dim(axis); }
  DimVector dims() const;
  int64_t num_elements() const { return rep_.num_elements(); }

  bool IsScalar() const { return rank() == 0; }
  bool IsVector() const { return rank() == 1; }
  bool IsMatrix() const { return rank() == 2; }
  bool IsSameSize(const TensorShape& other) const { return *this == other; }  // TensorFlow's name for ==
  // True if the first, or the last, axes of this shape are those of the other.
  bool StartsWith(const TensorShape& prefix) const;
  bool EndsWith(const TensorShape& suffix) const;

  // Reads the dims in order, by value: they are stored packed, so no dim has an address.
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = int64_t;
    using difference_type = ptrdiff_t;
    using pointer = const int64_t*;
    using reference = int64_t;

    int64_t operator*() const { return shape_->rep_.dim(axis_); }
    const_iterator& operator++() {
      ++axis_;
      return *this;
    }
    const_iterator operator++(int) {
      const const_iterator before = *this;
      ++axis_;
      return before;
    }
    friend bool operator==(const_iterator a, const_iterator b) { return a.axis_ == b.axis_; }
    friend bool operator!=(const_iterator a, const_iterator b) { return a.axis_ != b.axis_; }

   private:
    friend class TensorShape;
    const_iterator(const TensorShape* shape, int axis) : shape_(shape), axis_(axis) {}

    const TensorShape* shape_;
    int axis_;
  };
  using value_type = int64_t;
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, rank()}; }

  // Changes of the shape. If a promise above would not hold, or an axis is outside, each gives InvalidArgument and
  // leaves the shape as it was. Here negative axes are refused.
  absl::Status AddDim(int64_t size);                    // after the last axis
  absl::Status InsertDim(int axis, int64_t size);       // before `axis`; 0 <= axis <= rank()
  absl::Status SetDim(int axis, int64_t size);          // 0 <= axis < rank()
  absl::Status RemoveDim(int axis);                     // 0 <= axis < rank()
  absl::Status RemoveDimRange(int begin, int end);      // axes [begin, end); 0 <= begin <= end <= rank()
  absl::Status AppendShape(const TensorShape& suffix);  // all axes of `suffix` after those of this shape

  std::string ToString() const;  // "[2,3]"; "[]" for a scalar

  friend bool operator==(const TensorShape& a, const TensorShape& b);
  friend bool operator!=(const TensorShape& a, const TensorShape& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const TensorShape& shape);

 private:
  friend class Layout;  // makes a shape of its dims, which are checked already
  friend class Tensor;  // stores its dtype in rep_

  explicit TensorShape(internal::TensorShapeRep rep) : rep_(std::move(rep)) {}

  [[noreturn]] void NoSuchAxis(int axis) const;
  // Makes `dims` the dims of this shape, or leaves it as it was.
  absl::Status Assign(absl::Span<const int64_t> dims);

  internal::TensorShapeRep rep_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_SHAPE_H_
