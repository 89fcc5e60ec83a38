// A slice of a tensor: along each axis either all elements, or `length` elements from `start`.
//
//   TensorSlice::Parse("-:0,10:14,1")     // all of axis 0; elements 0 to 9 of axis 1; element 14 of axis 2
//   slice.Apply(TensorShape({4, 10, 20})) // [4,10,1]
//
// Always holds: rank <= TensorShape::kMaxRank; on an axis that is not full, start >= 0, length > 0 and start + length
// fits int64_t. Text form: axes joined by ':', each '-' or START,LENGTH; the empty text is the slice of a scalar.
// '-' is not equal to 0,LENGTH, even if both select the same elements of a shape: slices compare as written.
//
// Source: tensorflow/core/framework/tensor_slice.h. TensorFlow's checkpoints and tools use the same text.

#ifndef TENSORCASK_TENSOR_SLICE_H_
#define TENSORCASK_TENSOR_SLICE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

class TensorSlice {
 public:
  static constexpr int64_t kFullLength = -1;

  struct Extent {
    int64_t start = 0;
    int64_t length = kFullLength;
    bool full() const { return length == kFullLength; }
    friend bool operator==(const Extent& a, const Extent& b) { return a.start == b.start && a.length == b.length; }
    friend bool operator!=(const Extent& a, const Extent& b) { return !(a == b); }
  };

  TensorSlice() = default;            // the slice of a scalar: rank 0
  static TensorSlice Full(int rank);  // Requires: 0 <= rank <= kMaxRank

  // Errors: InvalidArgument, naming the axis, if a promise above would not hold ({0, kFullLength} is full; any other
  // negative number is refused).
  static absl::StatusOr<TensorSlice> Create(absl::Span<const Extent> extents);

  // Errors: InvalidArgument with the position in the text, for anything but the exact text form: no spaces, signs,
  // empty parts, leading zeros. ResourceExhausted for more than kMaxRank axes, or if the text is longer than any slice.
  static absl::StatusOr<TensorSlice> Parse(absl::string_view text);
  std::string ToString() const;

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extent& extent(int axis) const;  // Requires: 0 <= axis < rank()
  bool IsFull() const;                   // on every axis
  bool IsFullAt(int axis) const { return extent(axis).full(); }

  // The elements that are in both; empty if there are none, or if the ranks differ.
  std::optional<TensorSlice> Intersect(const TensorSlice& other) const;
  bool Overlaps(const TensorSlice& other) const { return Intersect(other).has_value(); }

  // The shape of this slice of a tensor of shape `shape`.
  // Errors: InvalidArgument if the ranks differ; OutOfRange, naming the axis, if the slice extends past the shape.
  absl::StatusOr<TensorShape> Apply(const TensorShape& shape) const;

  // This slice with starts counted from the start of `base`, which must contain it: its position in a tensor that has
  // the elements of `base` alone.
  // Errors: InvalidArgument if the ranks differ or `base` does not contain it.
  absl::StatusOr<TensorSlice> ComputeRelative(const TensorSlice& base) const;

  // Grows this slice to the smallest slice that covers both. Requires: equal ranks.
  void UpdateToCover(const TensorSlice& other);

  friend bool operator==(const TensorSlice& a, const TensorSlice& b) { return a.extents_ == b.extents_; }
  friend bool operator!=(const TensorSlice& a, const TensorSlice& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const TensorSlice& slice);

 private:
  absl::InlinedVector<Extent, 4> extents_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_SLICE_H_
