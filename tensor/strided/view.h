// A strided view of a tensor's elements: it keeps the memory alive and costs no copy.
//
//   Tensor t = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});   // float32 [2,3]
//   TensorView view = t;                                             // the same memory
//   absl::StatusOr<TensorView> columns = view.Transpose(0, 1);       // [3,2], strides [1,3]
//   absl::StatusOr<Tensor> dense = columns->ToTensor();              // row-major again: here a copy
//   absl::StatusOr<TensorView> mapped = TensorView::Create(buffer, dtype, *Layout::Create(dims, strides, offset));
//
// At most 128 bytes, no allocation up to rank 5: a buffer, a Layout (layout.h, which documents each view operation), a
// dtype and whether it is frozen. Offset and strides count elements from buffer()->data(). Strings take part in all
// that only moves elements; casts of them are refused.
//
// Always holds, so nobody checks it again: the elements lie inside the buffer, and each at an address that its type
// allows. A default view is float32 of dims [0] without a buffer; one moved from has no elements.
//
// Access is as in tensor.h: data<T>() is const and read only, mutable_data<T>() wants a non-const view and writable
// memory. Writing through a view whose elements overlap is for those who know the order: CheckWritable() refuses it.
//
// Const methods are safe together; a TensorView object is not shared between threads without a lock, copies of it are.

#ifndef TENSORCASK_TENSOR_STRIDED_VIEW_H_
#define TENSORCASK_TENSOR_STRIDED_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/maybe_owned.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

class TensorView {
 private:
  struct Unchecked {  // names the constructor for what was checked before
    explicit Unchecked() = default;
  };

 public:
  // ---- Making -------------------------------------------------------------------------------------------------------

  TensorView() = default;
  TensorView(const Tensor& tensor)  // NOLINT(google-explicit-constructor): a tensor is a view of itself
      : buffer_(tensor.buffer()), layout_(Layout::RowMajor(tensor.shape())), dtype_(tensor.dtype()) {}

  // Any geometry from outside over `buffer`, which may be null if there are no elements.
  // Errors: InvalidArgument if `dtype` is kInvalid, or if with elements the buffer is null, too small, of another kind
  // (objects want a kElements buffer of their class, and only they do) or not aligned to one of them. Bools must be 0
  // and 1: whoever brings the memory has checked them.
  static absl::StatusOr<TensorView> Create(RefPtr<TensorBuffer> buffer, DType dtype, Layout layout);

  TensorView(Unchecked, RefPtr<TensorBuffer> buffer, const Layout& layout, DType dtype)
      : buffer_(std::move(buffer)), layout_(layout), dtype_(dtype) {}
  TensorView(Unchecked, RefPtr<TensorBuffer> buffer, Layout&& layout, DType dtype)
      : buffer_(std::move(buffer)), layout_(std::move(layout)), dtype_(dtype) {}

  // ---- What it is ---------------------------------------------------------------------------------------------------

  DType dtype() const { return dtype_; }
  const Layout& layout() const { return layout_; }
  int rank() const { return layout_.rank(); }
  absl::Span<const int64_t> dims() const { return layout_.dims(); }
  absl::Span<const int64_t> strides() const { return layout_.strides(); }
  int64_t dim(int axis) const { return layout_.dim(axis); }        // Requires: 0 <= axis < rank()
  int64_t stride(int axis) const { return layout_.stride(axis); }  // Requires: 0 <= axis < rank()
  int64_t offset() const { return layout_.offset(); }
  int64_t num_elements() const { return layout_.num_elements(); }
  TensorShape shape() const { return layout_.shape(); }
  size_t element_size() const { return ElementSize(dtype_); }  // bytes; 0 for objects
  bool IsContiguous(MemoryFormat format = MemoryFormat::kContiguous) const { return layout_.IsContiguous(format); }

  // May be null if there are no elements.
  const RefPtr<TensorBuffer>& buffer() const { return buffer_; }
  bool SharesBufferWith(const TensorView& other) const {  // the same root
    return buffer_ && other.buffer_ && buffer_->root() == other.buffer_->root();
  }
  // Bytes [begin, end) of the buffer hold all elements. Without elements both are 0. (Of objects: what they are
  // themselves.)
  struct ByteRange {
    size_t begin;
    size_t end;
  };
  ByteRange bounds() const;

  // "float32 [3,2] strides [1,3] offset 0". Streams get the values as well, shortened as a Tensor's are:
  // "float32 [3,2] strides [1,3] offset 0: [[1 4] [2 5] [3 6]]".
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const TensorView& view);

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // The bytes of the elements, row-major, little-endian. Requires: IsContiguous(), and a dtype of fixed size.
  absl::string_view bytes() const;
  // The first element: that of index 0 on every axis; the one of index (i, j) is at i * stride(0) + j * stride(1). Null
  // without elements. Requires: T is the element type of dtype().
  template <typename T>
  const T* data() const;
  // The same, after making the memory writable (TensorBuffer::EnsureMutable, which CHECKs that it can be had).
  template <typename T>
  T* mutable_data();

  // The failing form of what mutable_data does first. Errors: as TensorBuffer::EnsureMutable.
  absl::Status EnsureMutable() { return buffer_ ? buffer_->EnsureMutable() : absl::OkStatus(); }
  // Errors: InvalidArgument if two indices name one element, so that what is written depends on the order.
  absl::Status CheckWritable() const;

  // ---- Views: layout.h says what each does and refuses --------------------------------------------------------------

  absl::StatusOr<TensorView> Slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> end,
                                   int64_t step = 1) const {
    return Edited([&](Layout& layout) { return layout.EditSlice(axis, start, end, step); });
  }
  // The box that `slice` cuts out of dims(). Errors: as TensorSlice::Apply.
  absl::StatusOr<TensorView> Slice(const TensorSlice& slice) const {
    return Edited([&](Layout& layout) { return layout.EditSlice(slice); });
  }
  absl::StatusOr<TensorView> Narrow(int64_t axis, int64_t start, int64_t length) const {
    return Edited([&](Layout& layout) { return layout.EditNarrow(axis, start, length); });
  }
  absl::StatusOr<TensorView> Select(int64_t axis, int64_t index) const {
    return Edited([&](Layout& layout) { return layout.EditSelect(axis, index); });
  }
  absl::StatusOr<TensorView> Diagonal(int64_t diagonal = 0, int64_t axis1 = 0, int64_t axis2 = 1) const {
    return Edited([&](Layout& layout) { return layout.EditDiagonal(diagonal, axis1, axis2); });
  }
  absl::StatusOr<TensorView> Unfold(int64_t axis, int64_t size, int64_t step) const {
    return Edited([&](Layout& layout) { return layout.EditUnfold(axis, size, step); });
  }
  absl::StatusOr<std::vector<TensorView>> Split(int64_t axis, int64_t size) const {
    return Over(layout_.Split(axis, size));
  }
  absl::StatusOr<std::vector<TensorView>> SplitSizes(int64_t axis, absl::Span<const int64_t> sizes) const {
    return Over(layout_.SplitSizes(axis, sizes));
  }
  absl::StatusOr<std::vector<TensorView>> Chunk(int64_t axis, int64_t count) const {
    return Over(layout_.Chunk(axis, count));
  }
  absl::StatusOr<std::vector<TensorView>> TensorSplit(int64_t axis, int64_t count) const {
    return Over(layout_.TensorSplit(axis, count));
  }
  absl::StatusOr<std::vector<TensorView>> TensorSplitAt(int64_t axis, absl::Span<const int64_t> indices) const {
    return Over(layout_.TensorSplitAt(axis, indices));
  }

  absl::StatusOr<TensorView> Transpose(int64_t axis1, int64_t axis2) const {
    return Edited([&](Layout& layout) { return layout.EditTranspose(axis1, axis2); });
  }
  absl::StatusOr<TensorView> Permute(absl::Span<const int64_t> axes) const {
    return Edited([&](Layout& layout) { return layout.EditPermute(axes); });
  }
  absl::StatusOr<TensorView> MoveAxis(int64_t from, int64_t to) const {
    return Edited([&](Layout& layout) { return layout.EditMoveAxis(from, to); });
  }
  absl::StatusOr<TensorView> Flip(absl::Span<const int64_t> axes) const {
    return Edited([&](Layout& layout) { return layout.EditFlip(axes); });
  }

  absl::StatusOr<TensorView> Reshape(absl::Span<const int64_t> dims) const {
    return Edited([&](Layout& layout) { return layout.EditReshape(dims); });
  }
  absl::StatusOr<TensorView> Flatten(int64_t first = 0, int64_t last = -1) const {
    return Edited([&](Layout& layout) { return layout.EditFlatten(first, last); });
  }
  absl::StatusOr<TensorView> Squeeze(int64_t axis) const {
    return Edited([&](Layout& layout) { return layout.EditSqueeze(axis); });
  }
  TensorView Squeeze() const {
    TensorView result = Alias();
    result.layout_.EditSqueeze();
    return result;
  }
  absl::StatusOr<TensorView> Unsqueeze(int64_t axis) const {
    return Edited([&](Layout& layout) { return layout.EditUnsqueeze(axis); });
  }
  absl::StatusOr<TensorView> Expand(absl::Span<const int64_t> dims) const {
    return Edited([&](Layout& layout) { return layout.EditExpand(dims); });
  }
  absl::StatusOr<TensorView> BroadcastTo(const TensorShape& shape) const { return Expand(shape.dims()); }

  // Any geometry over the whole buffer. Errors: as Layout::AsStrided; InvalidArgument if it leaves the buffer.
  absl::StatusOr<TensorView> AsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                       std::optional<int64_t> offset = std::nullopt) const;
  // The bytes as other elements. Errors: as Layout::Bitcast; InvalidArgument if either dtype has no fixed size, if
  // `dtype` is bool and ours is not (a bool is 0 or 1), or if the memory is not aligned for the new elements.
  absl::StatusOr<TensorView> Bitcast(DType dtype) const;
  // complex64 as float32, complex128 as float64, and back. Errors: as Layout's; InvalidArgument for other dtypes.
  absl::StatusOr<TensorView> ViewAsReal() const;
  absl::StatusOr<TensorView> ViewAsComplex() const;

  // ---- Copies where they must be ------------------------------------------------------------------------------------
  //
  // A view may repeat elements (stride 0) and so ask for a copy far larger than its buffer: bound num_elements() first
  // where the geometry came from outside. Errors of all: ResourceExhausted if the memory cannot be had;
  // FailedPrecondition for a buffer without data.

  // Reshape and Flatten that copy (row-major) where no view would do.
  absl::StatusOr<TensorView> ReshapeOrCopy(absl::Span<const int64_t> dims) const;
  absl::StatusOr<TensorView> FlattenOrCopy(int64_t first = 0, int64_t last = -1) const;
  // *this if IsContiguous(format), else a copy that is. Errors: InvalidArgument for a channels-last format of another
  // rank.
  absl::StatusOr<TensorView> Contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;
  // *this borrowed if contiguous, else a contiguous copy: for code that only reads. Not of temporaries.
  absl::StatusOr<MaybeOwned<TensorView>> ExpectContiguous() const&;
  absl::StatusOr<MaybeOwned<TensorView>> ExpectContiguous() const&& = delete;
  // The dense tensor of these elements: on the same memory if they are contiguous, else a copy.
  absl::StatusOr<Tensor> ToTensor() const;
  // A copy in memory of its own, in the order of Layout::Dense(format).
  absl::StatusOr<TensorView> Clone(MemoryFormat format = MemoryFormat::kPreserve,
                                   const RefPtr<Allocator>& allocator = CpuAllocator::Default()) const;
  // The same elements, strides kept, on memory that is copied when either of the two is first written (buffer.h).
  absl::StatusOr<TensorView> LazyClone() const;

  // ---- This handle's own geometry -----------------------------------------------------------------------------------

  // From now on the three changes below are refused for this handle and for copies of it; the elements stay writable.
  // Views and aliases made from it are not frozen.
  void Freeze() { frozen_ = true; }
  bool is_frozen() const { return frozen_; }
  // The same geometry over the same buffer, as a handle of its own.
  TensorView Alias() const { return TensorView(Unchecked(), buffer_, layout_, dtype_); }

  // Errors, and nothing has changed: FailedPrecondition if frozen; as Layout's function of the same name;
  // InvalidArgument if elements would leave the buffer.
  absl::Status SetDimsAndStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides);
  absl::Status SetOffset(int64_t offset);
  absl::Status ResizeDim(int rank);

 private:
  // A view of the same memory after `edit` of its layout; see Layout::Edited.
  template <typename Edit>
  absl::StatusOr<TensorView> Edited(Edit&& edit) const {
    absl::StatusOr<TensorView> result(absl::in_place, Unchecked(), buffer_, layout_, dtype_);
    if (absl::Status status = edit(result->layout_); !status.ok()) result = std::move(status);
    return result;
  }
  absl::StatusOr<std::vector<TensorView>> Over(absl::StatusOr<std::vector<Layout>> layouts) const;
  absl::Status Assign(absl::StatusOr<Layout> layout);
  absl::StatusOr<TensorView> ViewAs(DType dtype, absl::StatusOr<Layout> layout) const;

  void CheckDType(DType wanted) const {
    if (__builtin_expect(wanted != dtype_, 0)) WrongDType(wanted);
  }
  [[noreturn]] void WrongDType(DType wanted) const;

  RefPtr<TensorBuffer> buffer_;
  Layout layout_;
  DType dtype_ = DType::kFloat32;
  bool frozen_ = false;
};

static_assert(sizeof(TensorView) <= 128, "a view is two cache lines");

// The values, as summary.h has them of a Tensor.
std::string SummarizeValue(const TensorView& view, const SummaryOptions& options = {});

template <typename T>
const T* TensorView::data() const {
  CheckDType(kDTypeOf<T>);
  if (num_elements() == 0) return nullptr;
  return static_cast<const T*>(buffer_->data()) + layout_.offset();
}

template <typename T>
T* TensorView::mutable_data() {
  CheckDType(kDTypeOf<T>);
  if (num_elements() == 0) return nullptr;
  return static_cast<T*>(buffer_->mutable_data()) + layout_.offset();
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_VIEW_H_
