// The set of parts in which one tensor is stored, and a search for the parts that cover a slice.
//
//   TensorSliceSet parts(DType::kFloat32, TensorShape({4, 10}));
//   CASK_RETURN_IF_ERROR(parts.Register(*TensorSlice::Parse("0,2:-"), "shard 0"));
//   CASK_RETURN_IF_ERROR(parts.Register(*TensorSlice::Parse("2,2:-"), "shard 1"));
//   CASK_ASSIGN_OR_RETURN(auto found, parts.Query(*TensorSlice::Parse("1,2:0,5")));   // both
//
// Always holds: each part is inside the shape, and no two parts have an element in common. (For a tensor without
// elements: no two parts have a common index on every axis, where an axis of size 0 counts as size 1.)
//
// Cost, with n parts of rank r: for parts in a grid or a stack, Register takes O(r log^2 n) amortised, in any order,
// and Query O(r log^2 n) plus the parts found: 100,000 parts take half a second. Parts that no plane separates (long
// parts that cross) may each need a comparison with all others. 4000 parts of any kind are always accepted; after
// kMaxSteps comparisons in total, which take seconds, Register returns ResourceExhausted. Memory: about 1.3 times that
// of the slices.
//
// Several threads may call const methods at once. Source: tensorflow/core/util/tensor_slice_set.h; there Register takes
// O(n).

#ifndef TENSORCASK_TENSOR_SLICE_SET_H_
#define TENSORCASK_TENSOR_SLICE_SET_H_

#include "tensorcask/tensor/base/cxx17.h"

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
    std::string tag;  // any text of the caller, such as where the part is stored
  };

  // No parts yet, of a tensor whose full shape is `shape`.
  TensorSliceSet(DType dtype, const TensorShape& shape, size_t max_parts = kDefaultMaxParts);

  DType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  const std::vector<Part>& parts() const { return parts_; }  // in the order of Register
  // True if the parts cover the whole tensor.
  bool IsComplete() const { return num_elements_ == shape_.num_elements(); }

  // Adds a part.
  // Errors, and nothing has changed: InvalidArgument if the rank differs; OutOfRange, naming the axis, if it extends
  // past the shape; InvalidArgument, naming both, if it overlaps a part; ResourceExhausted for more than max_parts
  // parts, and past kMaxSteps.
  absl::Status Register(const TensorSlice& slice, std::string tag);

  // Checks that `dtype` and the full shape `shape` are those of this tensor. Errors: InvalidArgument, naming both.
  absl::Status CheckTensor(DType dtype, const TensorShape& shape) const;
  // Checks that a tensor to be stored for `slice` has the dtype of this tensor and the shape of the slice.
  // Errors: those of CheckTensor and of TensorSlice::Apply.
  absl::Status CheckPart(const TensorSlice& slice, DType dtype, const TensorShape& part_shape) const;

  // The parts that have elements of `slice`, in the order of Register; together they have all its elements.
  // Errors: InvalidArgument if the rank differs; OutOfRange if it extends past the shape; NotFound, naming the number
  // of elements found, if some are in no part.
  absl::StatusOr<std::vector<Part>> Query(const TensorSlice& slice) const;

 private:
  // [begin, end) on an axis, both within the shape.
  struct Range {
    int64_t begin;
    int64_t end;
  };
  // Parts in a binary tree, each node with the smallest box around the parts below it. A tree has kLeafParts * 2^k
  // parts, so it is perfect and needs no pointers: the children of node i are 2i + 1 and 2i + 2, and leaf j of 2^k has
  // parts [j * kLeafParts, (j + 1) * kLeafParts).
  struct Tree {
    std::vector<uint32_t> parts;  // numbers in parts_
    std::vector<Range> boxes;     // one per node and axis: those of node i start at i * rank
  };
  static constexpr size_t kLeafParts = 8;

  Range RangeOf(const TensorSlice& slice, int axis) const;
  bool Overlap(const TensorSlice& a, const TensorSlice& b) const;
  bool OverlapsBox(const TensorSlice& slice, const Range* box) const;
  int64_t CommonElements(const TensorSlice& a, const TensorSlice& b) const;

  // Calls visit(number) for each part that overlaps `slice`, until it returns false. Returns the number of boxes and
  // parts compared, which is at most about max_steps.
  int64_t ForEachOverlap(const TensorSlice& slice, int64_t max_steps, absl::FunctionRef<bool(uint32_t)> visit) const;
  void Grow(Tree* tree, size_t node, absl::Span<uint32_t> parts) const;  // sorts `parts`, makes the boxes from `node`
  int CutAxis(absl::Span<const uint32_t> parts, const Range* box) const;
  void Reorganise();

  DType dtype_;
  TensorShape shape_;
  size_t max_parts_;
  std::vector<Part> parts_;
  int64_t num_elements_ = 0;
  int64_t steps_ = 0;  // total over all calls of Register
  // The last parts_.size() % kLeafParts parts are in no tree. trees_[k] has kLeafParts * 2^k of the others, or none,
  // like the bits of a counter: each part moves to a larger tree at most log2(n) times (Bentley and Saxe 1980).
  std::vector<Tree> trees_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_SLICE_SET_H_
