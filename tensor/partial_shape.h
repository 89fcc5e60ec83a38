// A shape of which some dims, or the rank, may be unknown.
//
//   PartialTensorShape batch({PartialTensorShape::kUnknownDim, 3});      // "[?,3]": rank 2, num_elements -1
//   PartialTensorShape anything;                                         // "<unknown>": not even the rank is known
//   batch.IsCompatibleWith(TensorShape({8, 3}))                          // true
//   batch.MergeWith(PartialTensorShape({8, -1}))                         // "[8,3]": all that is known of either
//   batch.MostSpecificCompatible(PartialTensorShape({8, 3}))             // "[?,3]": the dims that are equal in both
//   batch.ToTensorShape()                                                // InvalidArgument: dim 0 is unknown
//
// Always holds, so no other code checks it again: a known rank is at most TensorShape::kMaxRank; every dim is >= 0 or
// kUnknownDim; the product of the known nonzero dims fits int64_t. So a compatible TensorShape always exists, and a
// fully defined partial shape is a TensorShape. A value: thread-compatible; operator== is IsIdenticalTo and not
// IsCompatibleWith.
//
// Source: PartialTensorShape of tensorflow/core/framework/tensor_shape.h, with Status instead of aborts. There, any
// negative number in a literal is an unknown dim, here only -1; and there, huge dims are accepted next to an unknown
// dim. MostSpecificCompatible is most_specific_compatible_shape of TensorFlow's Python class.

#ifndef TENSORCASK_TENSOR_PARTIAL_SHAPE_H_
#define TENSORCASK_TENSOR_PARTIAL_SHAPE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

class PartialTensorShape {
 public:
  static constexpr int64_t kUnknownDim = -1;
  static constexpr int kUnknownRank = -1;

  PartialTensorShape() = default;                                    // unknown rank
  explicit PartialTensorShape(std::initializer_list<int64_t> dims);  // for literals in code; CHECKs
  PartialTensorShape(const TensorShape& shape)  // NOLINT(google-explicit-constructor): a full shape is a partial one
      : dims_(shape.dims()) {}

  // For sizes that come from anywhere but the source text; -1 is an unknown dim.
  // Errors: InvalidArgument, naming the axis and the shape, if a promise above would not hold.
  static absl::StatusOr<PartialTensorShape> Create(absl::Span<const int64_t> dims);

  int rank() const { return dims_ ? static_cast<int>(dims_->size()) : kUnknownRank; }
  bool has_rank() const { return dims_.has_value(); }
  // Axes count from 0, or from the back when negative. Requires: has_rank(), and -rank() <= axis < rank().
  int64_t dim(int axis) const {
    CASK_CHECK(has_rank(), "PartialTensorShape::dim: the rank is unknown");
    const int from_front = axis < 0 ? axis + rank() : axis;
    if (from_front < 0 || from_front >= rank()) NoSuchAxis(axis);
    return (*dims_)[static_cast<size_t>(from_front)];
  }
  // The dims, unknown ones as kUnknownDim. Empty if the rank is unknown, and for a scalar: has_rank() tells them apart.
  absl::Span<const int64_t> dims() const { return dims_ ? absl::MakeConstSpan(*dims_) : absl::Span<const int64_t>(); }
  // The product of the dims; -1 unless IsFullyDefined(), even where a dim is 0.
  int64_t num_elements() const;
  bool IsFullyDefined() const;  // the rank and all dims are known

  // True if one TensorShape can match both shapes: the ranks, and the dims of each axis, are equal or one is unknown.
  bool IsCompatibleWith(const PartialTensorShape& other) const;
  // True if the same is known of both: "[?,3]" is not identical to "[8,3]".
  bool IsIdenticalTo(const PartialTensorShape& other) const { return dims_ == other.dims_; }

  // All that is known of a shape that matches both.
  // Errors: InvalidArgument, naming both shapes and the axis, if no shape matches both, or if the product of the known
  // nonzero dims would exceed int64_t.
  absl::StatusOr<PartialTensorShape> MergeWith(const PartialTensorShape& other) const;

  // This shape with the axes of `other`, or one axis of `dim` (which may be kUnknownDim), appended. The rank is unknown
  // if either rank is.
  // Errors: InvalidArgument if a promise above would not hold.
  absl::StatusOr<PartialTensorShape> Concatenate(const PartialTensorShape& other) const;
  absl::StatusOr<PartialTensorShape> Concatenate(int64_t dim) const;

  // Changes of the shape, in which a dim may be kUnknownDim. If a promise above would not hold, or an axis is outside,
  // each gives InvalidArgument and leaves the shape as it was. Negative axes are refused. A shape of unknown rank has
  // no axes: AddDim and AppendShape leave it as it is.
  absl::Status AddDim(int64_t dim);                            // after the last axis
  absl::Status InsertDim(int axis, int64_t dim);               // before `axis`; 0 <= axis <= rank()
  absl::Status SetDim(int axis, int64_t dim);                  // 0 <= axis < rank()
  absl::Status RemoveDim(int axis);                            // 0 <= axis < rank()
  absl::Status AppendShape(const PartialTensorShape& suffix);  // Concatenate, in place

  // The most that is true of both: dims that are known and equal are kept, others become unknown; unknown rank if
  // either has none or they differ. Both are compatible with it.
  PartialTensorShape MostSpecificCompatible(const PartialTensorShape& other) const;

  // Errors: InvalidArgument, naming what is unknown, unless IsFullyDefined().
  absl::StatusOr<TensorShape> ToTensorShape() const;

  std::string ToString() const;  // "[?,3]"; "[]" for a scalar; "<unknown>" for an unknown rank

  friend bool operator==(const PartialTensorShape& a, const PartialTensorShape& b) { return a.IsIdenticalTo(b); }
  friend bool operator!=(const PartialTensorShape& a, const PartialTensorShape& b) { return !a.IsIdenticalTo(b); }
  friend std::ostream& operator<<(std::ostream& out, const PartialTensorShape& shape);

 private:
  [[noreturn]] void NoSuchAxis(int axis) const;
  absl::Status CheckAxis(const char* operation, int axis, int end) const;  // errors: InvalidArgument outside [0, end)

  std::optional<DimVector> dims_;  // empty: the rank is unknown
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_PARTIAL_SHAPE_H_
