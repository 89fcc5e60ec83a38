// The positions of a strided tensor's elements, as arithmetic: sizes, steps and the position of the first element. A
// layout holds no pointer.
//
//   Layout rows = Layout::RowMajor(TensorShape({3, 4}));    // dims [3,4], strides [4,1], offset 0
//   rows.Transpose(0, 1)                                     // [4,3], [1,4]
//   rows.Select(0, -1)                                       // [4], [1], offset 8: the last row
//   rows.Slice(1, std::nullopt, std::nullopt, -1)            // [3,4], [4,-1], offset 3: each row from its end
//   absl::StatusOr<Layout> found = Layout::Create(dims, strides, offset);   // from a file, a message, another library
//
// Strides and offset count elements and are signed: element (i, j) is at position offset + i * strides[0] +
// j * strides[1] of the buffer, counted in elements. Stride 0 repeats one element (Expand); a negative stride walks
// backwards (Flip).
//
// Always holds, so no other code checks it again: the dims are those of a TensorShape; offset() >= 0; the position of
// each element is at least 0 and below 2^63 - 1. (So a layout without elements may have any strides.) A layout is a
// value, uses no heap up to rank 5, and is thread-compatible. A moved-from layout is Layout().
//
// Views: each operation gives another layout of the same elements, in O(rank). Axes may be negative and then count from
// the back: -1 is the last. Strides come out as PyTorch's, those of axes of size 1 included. All errors name the
// operation, the axis, what was found and what was wanted: InvalidArgument for an axis that does not exist and for
// arguments that contradict the layout or each other, OutOfRange for an index or range outside an axis.
//
// Intended differences from PyTorch: Slice and AsStrided accept negative steps and strides, Flip is a view and not a
// copy, HasInternalOverlap is exact. Source: ATen/native/TensorShape.cpp and c10/core of PyTorch 1.13.

#ifndef TENSORCASK_TENSOR_STRIDED_LAYOUT_H_
#define TENSORCASK_TENSOR_STRIDED_LAYOUT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask {

class TensorSlice;

class Layout {
 public:
  static constexpr int kInlineRank = 5;       // no heap up to this rank
  static constexpr int kMaxPieces = 1 << 20;  // the most that Split, Chunk and TensorSplit return

  // ---- Making -------------------------------------------------------------------------------------------------------

  Layout() { BecomeEmptyVector(); }  // dims [0], strides [1]
  static Layout RowMajor(const TensorShape& shape);

  // Any geometry from outside. Errors: InvalidArgument if a promise above would not hold or the lengths differ.
  static absl::StatusOr<Layout> Create(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                       int64_t offset = 0);

  Layout(const Layout& other) { CopyFrom(other); }
  Layout(Layout&& other) noexcept { MoveFrom(&other); }
  Layout& operator=(const Layout& other);
  Layout& operator=(Layout&& other) noexcept {
    if (this != &other) {
      if (!is_inline()) FreeHeap();
      MoveFrom(&other);
    }
    return *this;
  }
  ~Layout() {
    if (!is_inline()) FreeHeap();
  }

  // ---- What it is ---------------------------------------------------------------------------------------------------

  int rank() const { return rank_; }
  absl::Span<const int64_t> dims() const { return {data(), static_cast<size_t>(rank_)}; }
  absl::Span<const int64_t> strides() const { return {data() + strides_at(), static_cast<size_t>(rank_)}; }
  int64_t offset() const { return offset_; }
  // The size and the stride of one axis; negative axes count from the back. Requires: -rank() <= axis < rank(). CHECKed
  // in every build; the message has the axis and the layout.
  int64_t dim(int axis) const { return data()[AxisFromFront(axis)]; }
  int64_t stride(int axis) const { return data()[strides_at() + AxisFromFront(axis)]; }
  int64_t num_elements() const { return num_elements_; }
  TensorShape shape() const;

  // The positions of all elements lie in [begin, end); the first is begin and the last end - 1. Without elements both
  // are 0.
  struct Range {
    int64_t begin;
    int64_t end;
  };
  Range bounds() const;

  // True if a dense tensor of this format has these strides; strides of axes of size 1 do not matter. kContiguous: true
  // without elements. kChannelsLast*: false for other ranks than 4 or 5. kPreserve: IsNonOverlappingAndDense().
  bool IsContiguous(MemoryFormat format = MemoryFormat::kContiguous) const;

  // The format that a result computed from this layout should have, as PyTorch guesses it: channels-last if the strides
  // decrease in that order, strides of axes of size 1 included; kContiguous otherwise, and where both are possible
  // ([4,1,1,1], [1,1,1,1]).
  MemoryFormat SuggestMemoryFormat() const;

  // True if the elements fill bounds(), each position once: any permutation or flip of a dense tensor. True without
  // elements.
  bool IsNonOverlappingAndDense() const;

  // True if two indices name the same element. Exact, except that the search gives up after about a million steps and
  // returns true: this takes many axes of unrelated strides and over a million elements.
  bool HasInternalOverlap() const;

  // The layout of a fresh copy in `format`: same dims, offset 0, as many positions as elements. kPreserve keeps the
  // strides if IsNonOverlappingAndDense() (with flips undone), otherwise the order of the axes.
  // Errors: InvalidArgument if a channels-last format has another rank.
  absl::StatusOr<Layout> Dense(MemoryFormat format) const;

  // "[3,4] strides [4,1] offset 0".
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Layout& layout);
  friend bool operator==(const Layout& a, const Layout& b);
  friend bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }

  // ---- Parts --------------------------------------------------------------------------------------------------------

  // Elements start, start + step, ... before end of an axis, as in Python: negative start and end count from the back,
  // then both are clamped; nullopt means the first or the last element in the direction of `step`. Error: step 0.
  absl::StatusOr<Layout> Slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> end,
                               int64_t step = 1) const {
    return Edited(*this, [&](Layout& result) { return result.EditSlice(axis, start, end, step); });
  }
  // The part that `slice` selects of dims(). Errors: those of TensorSlice::Apply.
  absl::StatusOr<Layout> Slice(const TensorSlice& slice) const {
    return Edited(*this, [&](Layout& result) { return result.EditSlice(slice); });
  }
  // `length` elements from `start`. `start` may be negative, from the back. Neither is clamped.
  absl::StatusOr<Layout> Narrow(int64_t axis, int64_t start, int64_t length) const {
    return Edited(*this, [&](Layout& result) { return result.EditNarrow(axis, start, length); });
  }
  // One element of an axis (negative: from the back). The axis is removed: the rank is one less.
  absl::StatusOr<Layout> Select(int64_t axis, int64_t index) const {
    return Edited(*this, [&](Layout& result) { return result.EditSelect(axis, index); });
  }
  // Elements (i, i + diagonal) of two axes. These are removed, and a new last axis is added. A negative `diagonal` is
  // below the main one.
  absl::StatusOr<Layout> Diagonal(int64_t diagonal = 0, int64_t axis1 = 0, int64_t axis2 = 1) const {
    return Edited(*this, [&](Layout& result) { return result.EditDiagonal(diagonal, axis1, axis2); });
  }
  // Windows of `size` elements, `step` apart, along an axis. The axis then counts windows, and a new last axis counts
  // the elements of a window.
  absl::StatusOr<Layout> Unfold(int64_t axis, int64_t size, int64_t step) const {
    return Edited(*this, [&](Layout& result) { return result.EditUnfold(axis, size, step); });
  }

  // Pieces of `size` elements, the last one shorter: 7 by 3 gives 3, 3, 1. At least one piece.
  absl::StatusOr<std::vector<Layout>> Split(int64_t axis, int64_t size) const;
  // Pieces of these sizes, which must add up.
  absl::StatusOr<std::vector<Layout>> SplitSizes(int64_t axis, absl::Span<const int64_t> sizes) const;
  // At most `count` pieces of ceil(n / count) elements, the last one shorter: 5 in 4 gives 2, 2, 1. An empty axis gives
  // `count` pieces.
  absl::StatusOr<std::vector<Layout>> Chunk(int64_t axis, int64_t count) const;
  // Exactly `count` pieces, the first n mod count one longer than the others: 7 in 3 gives 3, 2, 2.
  absl::StatusOr<std::vector<Layout>> TensorSplit(int64_t axis, int64_t count) const;
  // The slices before, between and after `indices`, each clamped as in Slice.
  absl::StatusOr<std::vector<Layout>> TensorSplitAt(int64_t axis, absl::Span<const int64_t> indices) const;
  // Errors of all five: ResourceExhausted for more than kMaxPieces pieces.

  // ---- Order --------------------------------------------------------------------------------------------------------

  absl::StatusOr<Layout> Transpose(int64_t axis1, int64_t axis2) const {
    return Edited(*this, [&](Layout& result) { return result.EditTranspose(axis1, axis2); });
  }
  // Axis i of the result is axes[i] of this.
  absl::StatusOr<Layout> Permute(absl::Span<const int64_t> axes) const {
    return Edited(*this, [&](Layout& result) { return result.EditPermute(axes); });
  }
  absl::StatusOr<Layout> MoveAxis(int64_t from, int64_t to) const {  // the others keep their order
    return Edited(*this, [&](Layout& result) { return result.EditMoveAxis(from, to); });
  }
  absl::StatusOr<Layout> Flip(absl::Span<const int64_t> axes) const {  // each at most once; negates strides
    return Edited(*this, [&](Layout& result) { return result.EditFlip(axes); });
  }

  // ---- Shape --------------------------------------------------------------------------------------------------------

  // The shape that `dims` asks for. One of them may be -1: it is computed so that the number of elements is right.
  // Errors: InvalidArgument if the number of elements differs, or if -1 could be anything (another dim is 0).
  absl::StatusOr<TensorShape> InferShape(absl::Span<const int64_t> dims) const;
  // The elements in the same row-major order under other dims.
  // Errors: those of InferShape; InvalidArgument if no strides give that order, so that only a copy could
  // (TensorView::ReshapeOrCopy).
  absl::StatusOr<Layout> Reshape(absl::Span<const int64_t> dims) const {
    return Edited(*this, [&](Layout& result) { return result.EditReshape(dims); });
  }
  // Axes first to last, both included, as one. Rank 0 becomes [1]. Errors: those of Reshape.
  absl::StatusOr<Layout> Flatten(int64_t first = 0, int64_t last = -1) const {
    return Edited(*this, [&](Layout& result) { return result.EditFlatten(first, last); });
  }
  absl::StatusOr<Layout> Squeeze(int64_t axis) const {  // drops the axis if its size is 1
    return Edited(*this, [&](Layout& result) { return result.EditSqueeze(axis); });
  }
  Layout Squeeze() const {  // drops all axes of size 1
    Layout result = *this;
    result.EditSqueeze();
    return result;
  }
  absl::StatusOr<Layout> Unsqueeze(int64_t axis) const {  // inserts an axis of size 1; -1: after the last
    return Edited(*this, [&](Layout& result) { return result.EditUnsqueeze(axis); });
  }
  // Axes of size 1 repeated, by stride 0, to `dims`. Dims are aligned at the last axis, -1 keeps a size, and new axes
  // are added in front.
  absl::StatusOr<Layout> Expand(absl::Span<const int64_t> dims) const {
    return Edited(*this, [&](Layout& result) { return result.EditExpand(dims); });
  }
  absl::StatusOr<Layout> BroadcastTo(const TensorShape& shape) const { return Expand(shape.dims()); }

  // ---- Geometry of other elements, or any ---------------------------------------------------------------------------

  // These elements, of `from_bytes` bytes, as elements of `to_bytes`. If those are smaller, the last axis, which must
  // have stride 1, becomes longer. If they are larger, it becomes shorter, and sizes, strides and offset must be
  // divisible. Equal sizes give *this.
  absl::StatusOr<Layout> Bitcast(int64_t from_bytes, int64_t to_bytes) const {
    return Edited(*this, [&](Layout& result) { return result.EditBitcast(from_bytes, to_bytes); });
  }
  absl::StatusOr<Layout> ViewAsReal() const;     // complex elements as pairs: a new last axis of size 2
  absl::StatusOr<Layout> ViewAsComplex() const;  // the inverse: needs a last axis of size 2 and stride 1, others even
  // Any geometry over the same memory; the offset stays unless given. Errors: those of Create.
  absl::StatusOr<Layout> AsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                   std::optional<int64_t> offset = std::nullopt) const {
    return Create(dims, strides, offset.value_or(offset_));
  }
  // The same with the strides that FillStrides gives. Errors: those of Create and of FillStrides.
  absl::StatusOr<Layout> SetDimsAndStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides) const;
  // Another size, or another stride, for one axis; negative axes count from the back.
  // Errors: those of Create; InvalidArgument for an axis outside.
  absl::StatusOr<Layout> SetDim(int axis, int64_t dim) const;
  absl::StatusOr<Layout> SetStride(int axis, int64_t stride) const;
  // `rank` axes: the last ones are dropped, or new ones of size 0 and stride 0 are appended.
  // Errors: InvalidArgument for a rank outside 0 to TensorShape::kMaxRank, and if dropping an axis of size 0 would
  // break what always holds.
  absl::StatusOr<Layout> ResizeDim(int rank) const;

  // `strides` with each negative one replaced by the dense stride over the next axis (a negative stride is a mark here,
  // not a step): dims [2,3,4], strides [-1,8,-1] give [24,8,1].
  // Errors: InvalidArgument if the lengths differ or a stride overflows.
  static absl::StatusOr<DimVector> FillStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides);

 private:
  friend class TensorView;  // edits the layout of a new view in place

  // A copy of `source`, a layout or a view, after `edit`. The copy is made inside the result, because moving words that
  // were just stored costs more than the arithmetic.
  template <typename T, typename Edit>
  static absl::StatusOr<T> Edited(const T& source, Edit&& edit) {
    absl::StatusOr<T> result(source);
    if (absl::Status status = edit(*result); !status.ok()) result = std::move(status);
    return result;
  }
  // The operations of these names, done in place. After an error the layout is valid but unspecified.
  absl::Status EditSlice(int64_t axis, const std::optional<int64_t>& start, const std::optional<int64_t>& end,
                         int64_t step);
  absl::Status EditSlice(const TensorSlice& slice);
  absl::Status EditNarrow(int64_t axis, int64_t start, int64_t length);
  absl::Status EditSelect(int64_t axis, int64_t index);
  absl::Status EditTranspose(int64_t axis1, int64_t axis2);
  absl::Status EditPermute(absl::Span<const int64_t> axes);
  absl::Status EditMoveAxis(int64_t from, int64_t to);
  absl::Status EditFlip(absl::Span<const int64_t> axes);
  absl::Status EditSqueeze(int64_t axis);
  absl::Status EditUnsqueeze(int64_t axis);
  absl::Status EditDiagonal(int64_t diagonal, int64_t axis1, int64_t axis2);
  absl::Status EditUnfold(int64_t axis, int64_t size, int64_t step);
  absl::Status EditReshape(absl::Span<const int64_t> dims);
  bool ReshapeOneChunk(const int64_t* dims, int rank);  // false: nothing has changed
  absl::Status EditFlatten(int64_t first, int64_t last);
  bool FlattenDense(int begin, int end);  // false: nothing has changed
  void EditSqueeze();
  absl::Status EditExpand(absl::Span<const int64_t> dims);
  absl::Status EditBitcast(int64_t from_bytes, int64_t to_bytes);
  absl::Status EditAsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset);

  // All dims and strides zero, no elements; the caller fills it in and calls CountElements.
  explicit Layout(int rank);

  int AxisFromFront(int axis) const {
    const int from_front = axis < 0 ? axis + rank_ : axis;
    if (__builtin_expect(from_front < 0 || from_front >= rank_, 0)) NoSuchAxis(axis);
    return from_front;
  }
  [[noreturn]] void NoSuchAxis(int axis) const;
  bool is_inline() const { return rank_ <= kInlineRank; }
  int strides_at() const { return is_inline() ? kInlineRank : rank_; }
  const int64_t* data() const { return is_inline() ? inline_ : heap_; }
  int64_t* mutable_dims() { return is_inline() ? inline_ : heap_; }
  int64_t* mutable_strides() { return mutable_dims() + strides_at(); }

  void BecomeEmptyVector() {
    for (int64_t& word : inline_) word = 0;
    inline_[kInlineRank] = 1;
    num_elements_ = offset_ = 0;
    rank_ = 1;
  }
  void CopyFrom(const Layout& other) {  // over uninitialised words
    num_elements_ = other.num_elements_;
    offset_ = other.offset_;
    rank_ = other.rank_;
    std::memcpy(inline_, other.inline_, sizeof(inline_));
    if (!is_inline()) CloneHeap();
  }
  void MoveFrom(Layout* other) {  // over uninitialised words
    num_elements_ = other->num_elements_;
    offset_ = other->offset_;
    rank_ = other->rank_;
    std::memcpy(inline_, other->inline_, sizeof(inline_));
    other->BecomeEmptyVector();
  }
  void CloneHeap();  // replaces the pointer, which belongs to another layout, by a pointer to a copy
  void FreeHeap();

  void CountElements() {
    int64_t product = 1;  // fits: the dims are those of a shape
    for (const int64_t dim : dims()) product *= dim;
    num_elements_ = product;
  }
  // Moves the offset by `count` steps. A layout without elements keeps its offset if the new one would be negative or
  // overflow.
  void MoveOffset(int64_t count, int64_t stride);
  Layout DenseInSameOrder() const;  // Dense(kPreserve) of a layout that is not dense
  // True only if Dense(format) equals RowMajor(shape()). May be false although the two are equal.
  bool IsDenseRowMajor(MemoryFormat format) const;
  // Removes or inserts an axis, without updating the number of elements.
  void SetGeometry(int rank, const int64_t* dims, const int64_t* strides);  // which are not this layout's own
  void RemoveAxis(int axis);
  void InsertAxis(int axis, int64_t size, int64_t stride);
  // InferShape, into the first dims.size() of `result`; false if that is an error. Requires: no more dims than a shape
  // has.
  bool InferDims(absl::Span<const int64_t> dims, int64_t* result) const;
  absl::Status CannotInfer(absl::Span<const int64_t> dims) const;  // the error of dims that InferDims refuses
  static absl::Status CheckGeometry(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset);
  // The error of a geometry that CheckGeometry refuses.
  static absl::Status BadGeometry(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, int64_t offset);
  absl::Status BadAxis(absl::string_view operation, int64_t axis) const;
  absl::Status Refused(absl::string_view operation, absl::string_view why) const;
  absl::Status OutOfRange(absl::string_view operation, int axis, absl::string_view why) const;
  absl::StatusOr<std::vector<Layout>> Pieces(int axis, absl::Span<const int64_t> starts,
                                             absl::Span<const int64_t> ends) const;

  union {
    int64_t inline_[2 * kInlineRank];  // up to rank 5: dims, then strides from [5]
    int64_t* heap_;                    // above: new[] of 2 * rank words, dims, then strides
  };
  int64_t num_elements_;
  int64_t offset_;
  int rank_;
};

static_assert(sizeof(Layout) == 104, "ten words inline, elements, offset, rank");

// The shape to which both can be broadcast: axes are aligned at the last one, and a size of 1 becomes the other's size.
// Errors: InvalidArgument, naming the axis, if two sizes differ and neither is 1, or if the result is not a
// TensorShape.
absl::StatusOr<TensorShape> BroadcastShapes(const TensorShape& a, const TensorShape& b);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_LAYOUT_H_
