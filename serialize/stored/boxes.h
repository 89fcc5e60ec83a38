// A tensor that is stored in boxes: each has the elements of a part, and all together have each element once.
//
//   const TensorShape shape({4, 6});
//   const std::vector<Box> boxes = {{{0, 0}, {4, 2}}, {{0, 2}, {4, 4}}};         // columns 0 and 1, and the rest
//   stored::TilingBudget budget(index_bytes);
//   CASK_RETURN_IF_ERROR(stored::CheckTiling(shape, boxes, &budget));
//   stored::ReadSliceFromBoxes(boxes, slice, [&](size_t box, const TensorSlice& part, TensorView* to) {
//     return ReadSliceOfElementsInto(*file[box], tensor[box], part, options, to);  // elements.h
//   }, &out);
//
// Where the elements of a box are is the caller's business: in a file, an archive in a file, another tensor.

#ifndef TENSORCASK_SERIALIZE_STORED_BOXES_H_
#define TENSORCASK_SERIALIZE_STORED_BOXES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::stored {

// The elements from `offsets` on, as many as `sizes` says, along each axis.
struct Box {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
};

// The work that the checks of all tensors of a checkpoint may take together. It grows with the size of the index, in
// which many tensors may share one list of boxes.
class TilingBudget {
 public:
  explicit TilingBudget(uint64_t index_bytes) : corners_(kFreeCorners + index_bytes) {}

  // False, and nothing is taken, if fewer corners of boxes are left.
  bool Take(uint64_t corners);

 private:
  static constexpr uint64_t kFreeCorners = uint64_t{1} << 22;

  uint64_t corners_;
};

// Proves that each element of `shape` is in exactly one box. The boxes come from a file: nothing is known of them. Time
// and memory are linear in the number of boxes, and double with each axis that is divided, of which there may be 8.
//
// Errors, which name the box or the element: DataLoss if a box has another rank than the shape, a negative number or an
// end outside of the shape, or if an element is in no box or in several; ResourceExhausted if the boxes divide more
// axes than can be checked, or past the budget.
absl::Status CheckTiling(const TensorShape& shape, absl::Span<const Box> boxes, TilingBudget* budget);

// Reads `part`, a slice that is counted from the start of the box, into *to, which has its shape.
using ReadBox = absl::FunctionRef<absl::Status(size_t box, const TensorSlice& part, TensorView* to)>;

// Reads the elements in `slice` from the boxes that it meets, in their order, straight into *out, which may have any
// strides. Other boxes are not read. Requires: CheckTiling is OK for the shape; `slice` lies in that; *out has the
// shape of the slice. Errors: those of `read`.
absl::Status ReadSliceFromBoxes(absl::Span<const Box> boxes, const TensorSlice& slice, ReadBox read, TensorView* out);

// True if each box has whole rows: all elements of every axis but the first. Then the tensor is its boxes one after the
// other, in the order of their first offsets. Requires: CheckTiling is OK.
bool AreRows(const TensorShape& shape, absl::Span<const Box> boxes);

// True if the box has no element.
bool IsEmpty(const Box& box);

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_BOXES_H_
