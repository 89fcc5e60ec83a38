// The parts of one tensor that are stored apart, and which of them make up another part.
//
//   TensorSliceSet parts(DType::kFloat32, TensorShape({4, 10}));
//   CASK_RETURN_IF_ERROR(parts.Register(*TensorSlice::Parse("0,2:-"), "shard 0"));
//   CASK_RETURN_IF_ERROR(parts.Register(*TensorSlice::Parse("2,2:-"), "shard 1"));
//   CASK_ASSIGN_OR_RETURN(auto found, parts.Query(*TensorSlice::Parse("1,2:0,5")));   // both
//
// Always holds: each part lies in the shape, and no two have an element in common. (Of a tensor without elements: no
// two parts have a common index on every axis, an axis of size 0 taken as one of size 1.)
//
// Cost, with n parts of rank r: in a grid or a pile, Register takes O(r log^2 n) amortised, in any order, and Query
// O(r log^2 n) and what it finds: 100,000 parts take half a second. Parts that no cuts tell apart (long ones, crossing
// ways) may have to be compared each with all. 4000 of any kind are always accepted; Register gives up with
// ResourceExhausted when it has made kMaxSteps comparisons in total, which takes seconds. Memory: about 1.3 times that
// of the slices.
//
// Const methods are safe together. Source: tensorflow/core/util/tensor_slice_set.h; there Register takes O(n).

#ifndef TENSORCASK_TENSOR_SLICE_SET_H_
#define TENSORCASK_TENSOR_SLICE_SET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

class TensorSliceSet {
 public:
  static constexpr size_t kDefaultMaxParts = 1'000'000;
  static constexpr int64_t kMaxSteps = int64_t{1} << 24;

  struct Part {
    TensorSlice slice;
    std::string tag;  // the caller's: where it is stored, say
  };

  // Of a tensor of `shape` as a whole.
  TensorSliceSet(DType dtype, const TensorShape& shape, size_t max_parts = kDefaultMaxParts);

  DType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  const std::vector<Part>& parts() const { return parts_; }  // as registered
  // True if the parts are the whole tensor.
  bool IsComplete() const { return num_elements_ == shape_.num_elements(); }

  // Adds a part. Errors, and nothing has changed: InvalidArgument if the rank differs; OutOfRange, naming the axis, if
  // it reaches past the shape; InvalidArgument, naming both, if it overlaps a part; ResourceExhausted for more than
  // max_parts, and as said above.
  absl::Status Register(const TensorSlice& slice, std::string tag);

  // Whether what somebody says of the same tensor agrees: its dtype, and its shape as a whole.
  // Errors: InvalidArgument, naming both.
  absl::Status CheckTensor(DType dtype, const TensorShape& shape) const;
  // Whether a tensor is what should be stored for `slice`: our dtype, and the shape of the slice. Before it is copied
  // anywhere. Errors: as CheckTensor; as TensorSlice::Apply.
  absl::Status CheckPart(const TensorSlice& slice, DType dtype, const TensorShape& part_shape) const;

  // The parts that have elements of `slice`, in the order of Register; together they have all of them.
  // Errors: InvalidArgument if the rank differs; OutOfRange if it reaches past the shape; NotFound, saying how many
  // elements there are, if some are in no part.
  absl::StatusOr<std::vector<Part>> Query(const TensorSlice& slice) const;

 private:
  // [begin, end) on an axis, both within the shape.
  struct Range {
    int64_t begin;
    int64_t end;
  };
  // Parts in a binary tree, each node with the smallest box around what is below. There are kLeafParts * 2^k of them,
  // so it is perfect, and needs no pointers: node i is above 2i + 1 and 2i + 2, and leaf j of 2^k has parts
  // [j * kLeafParts, (j + 1) * kLeafParts).
  struct Tree {
    std::vector<uint32_t> parts;  // numbers in parts_
    std::vector<Range> boxes;     // of node i from i * rank: one an axis
  };
  static constexpr size_t kLeafParts = 8;

  Range RangeOf(const TensorSlice& slice, int axis) const;
  bool Overlap(const TensorSlice& a, const TensorSlice& b) const;
  bool OverlapsBox(const TensorSlice& slice, const Range* box) const;
  int64_t CommonElements(const TensorSlice& a, const TensorSlice& b) const;

  // Calls visit(number) for each part that overlaps `slice`, until it returns false; the number of boxes and parts
  // looked at, at most max_steps or so.
  int64_t ForEachOverlap(const TensorSlice& slice, int64_t max_steps, absl::FunctionRef<bool(uint32_t)> visit) const;
  void Grow(Tree* tree, size_t node, absl::Span<uint32_t> parts) const;  // sorts `parts`, makes the boxes from `node`
  int CutAxis(absl::Span<const uint32_t> parts, const Range* box) const;
  void Reorganise();

  DType dtype_;
  TensorShape shape_;
  size_t max_parts_;
  std::vector<Part> parts_;
  int64_t num_elements_ = 0;
  int64_t steps_ = 0;  // of all calls of Register
  // The last parts_.size() % kLeafParts parts are in no tree; trees_[k] has kLeafParts * 2^k of the others, or none: as
  // the bits of a counter, so each part moves to a larger tree at most log2(n) times (Bentley and Saxe 1980).
  std::vector<Tree> trees_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_SLICE_SET_H_
