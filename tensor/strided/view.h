// A strided view of a tensor's elements. It shares the buffer and keeps it alive; making one copies no element.
//
//   Tensor t = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});   // float32 [2,3]
//   TensorView view = t;                                             // the same memory
//   absl::StatusOr<TensorView> columns = view.Transpose(0, 1);       // [3,2], strides [1,3]
//   columns = TensorView(t).Transpose(0, 1);                         // the same: each Tensor is a view of itself
//   absl::StatusOr<Tensor> dense = columns->ToTensor();              // row-major again: here a copy
//   absl::StatusOr<TensorView> mapped = TensorView::Create(buffer, dtype, *Layout::Create(dims, strides, offset));
//
// At most 128 bytes, no allocation up to rank 5: a buffer, a Layout (layout.h, which documents each view operation), a
// dtype and a freeze flag. Offset and strides count elements from buffer()->data(). All operations that only move
// elements also work on strings; casts of strings are refused.
//
// Always holds, so no other code checks it again: the elements lie inside the buffer, each at an address that is
// aligned for its type. A default view is float32 of dims [0] without a buffer; a moved-from view has no elements.
//
// Access is as in tensor.h: data<T>() is const and read only; mutable_data<T>() needs a non-const view and makes its
// memory writable. If elements of a view overlap, the result of writing them depends on the order: CheckWritable()
// refuses such a view.
//
// Several threads may call const methods of one view at once. Every other use of one TensorView object needs a lock;
// copies of it are independent.

#ifndef TENSORCASK_TENSOR_STRIDED_VIEW_H_
#define TENSORCASK_TENSOR_STRIDED_VIEW_H_

#include "tensorcask/tensor/base/cxx17.h"

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
#include "tensorcask/tensor/base/in_place.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
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
  struct Unchecked {  // selects the constructor whose arguments are already checked
    explicit Unchecked() = default;
  };

 public:
  // ---- Making -------------------------------------------------------------------------------------------------------

  TensorView() = default;
  TensorView(const Tensor& tensor)  // NOLINT(google-explicit-constructor): a tensor is a view of itself
      : buffer_(tensor.buffer()), layout_(Layout::RowMajor(tensor.shape())), dtype_(tensor.dtype()) {}
  // The same, with the tensor's own reference to the buffer. The tensor is then a moved-from one.
  TensorView(Tensor&& tensor)  // NOLINT(google-explicit-constructor)
      : layout_(Layout::RowMajor(tensor.shape())), dtype_(tensor.dtype()) {
    buffer_ = std::move(tensor).TakeBuffer();  // last, because RowMajor may throw
  }

  // Any geometry from outside over `buffer`, which may be null if there are no elements.
  // Errors: InvalidArgument if `dtype` is kInvalid, or if there are elements and the buffer is null, too small, not
  // aligned for them, or of the wrong kind (objects need a kElements buffer of their class; other elements need any
  // other kind). The bytes of bools must be 0 and 1; this is not checked: the caller must check bytes from outside.
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
  int64_t dim(int axis) const { return layout_.dim(axis); }        // negative: from the back; -1 is the last axis
  int64_t stride(int axis) const { return layout_.stride(axis); }  // Both require: -rank() <= axis < rank()
  int64_t offset() const { return layout_.offset(); }
  int64_t num_elements() const { return layout_.num_elements(); }
  TensorShape shape() const { return layout_.shape(); }
  size_t element_size() const { return ElementSize(dtype_); }  // bytes; 0 for objects
  bool IsContiguous(MemoryFormat format = MemoryFormat::kContiguous) const { return layout_.IsContiguous(format); }

  // Where the elements are. A view without elements is on the host.
  Device device() const { return buffer_ && num_elements() > 0 ? buffer_->device() : Device(); }

  // May be null if there are no elements.
  const RefPtr<TensorBuffer>& buffer() const { return buffer_; }
  bool SharesBufferWith(const TensorView& other) const {  // the same root
    return buffer_ && other.buffer_ && buffer_->root() == other.buffer_->root();
  }
  // Bytes [begin, end) of the buffer hold all elements. Without elements both are 0. (For objects, this counts the C++
  // objects and not what they own elsewhere.)
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
  const ElementOf<T>* data() const;
  // The same, after making the memory writable (TensorBuffer::EnsureMutable); a failure of that is CHECKed.
  template <typename T>
  ElementOf<T>* mutable_data();

  // Makes the memory writable as mutable_data does, but returns errors. Errors: those of TensorBuffer::EnsureMutable.
  absl::Status EnsureMutable() { return buffer_ ? buffer_->EnsureMutable() : absl::OkStatus(); }
  // Errors: InvalidArgument if two indices name one element: the result of writing would depend on the order.
  absl::Status CheckWritable() const;

  // ---- Views: layout.h says what each does and refuses --------------------------------------------------------------

  absl::StatusOr<TensorView> Slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> end,
                                   int64_t step = 1) const {
    return Edited([&](Layout& layout) { return layout.EditSlice(axis, start, end, step); });
  }
  // The part that `slice` selects of dims(). Errors: those of TensorSlice::Apply.
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

  // Any geometry over the whole buffer. Errors: those of Layout::AsStrided; InvalidArgument if it leaves the buffer.
  absl::StatusOr<TensorView> AsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                       std::optional<int64_t> offset = std::nullopt) const;
  // The bytes as elements of another dtype.
  // Errors: those of Layout::Bitcast; InvalidArgument if either dtype has no fixed size, if `dtype` is bool and this
  // dtype is not (a bool is 0 or 1), or if the memory is not aligned for the new elements.
  absl::StatusOr<TensorView> Bitcast(DType dtype) const;
  // complex64 as float32, complex128 as float64, and back. Errors: those of Layout's functions; InvalidArgument for
  // other dtypes.
  absl::StatusOr<TensorView> ViewAsReal() const;
  absl::StatusOr<TensorView> ViewAsComplex() const;

  // ---- Operations that may copy -------------------------------------------------------------------------------------
  //
  // A view may repeat elements (stride 0), so that a copy is far larger than its buffer: if the geometry came from
  // outside, bound num_elements() first. The memory of a copy comes from where that of the elements does
  // (TensorBuffer::copy_allocator), except for Clone. Errors of all: ResourceExhausted if the memory cannot be
  // allocated; FailedPrecondition for a buffer without data, and if a copy is needed for memory of a device.

  // Reshape and Flatten that copy (row-major) if no strides give the result.
  absl::StatusOr<TensorView> ReshapeOrCopy(absl::Span<const int64_t> dims) const;
  absl::StatusOr<TensorView> FlattenOrCopy(int64_t first = 0, int64_t last = -1) const;
  // *this if IsContiguous(format), otherwise a copy that is.
  // Errors: InvalidArgument if a channels-last format has another rank.
  absl::StatusOr<TensorView> Contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;
  // *this, borrowed, if it is contiguous, otherwise a contiguous copy: for code that only reads. Temporaries cannot be
  // borrowed.
  absl::StatusOr<MaybeOwned<TensorView>> ExpectContiguous() const&;
  absl::StatusOr<MaybeOwned<TensorView>> ExpectContiguous() const&& = delete;
  // These elements as a dense tensor: it shares the buffer if they are contiguous, otherwise it is a copy.
  absl::StatusOr<Tensor> ToTensor() const;
  // A copy in a new buffer, in the order of Layout::Dense(format).
  absl::StatusOr<TensorView> Clone(MemoryFormat format = MemoryFormat::kPreserve,
                                   const RefPtr<Allocator>& allocator = CpuAllocator::Default()) const;
  // The same elements and strides on a new root buffer; the memory is copied when either is first written (buffer.h).
  absl::StatusOr<TensorView> LazyClone() const;

  // ---- Changing this view's geometry --------------------------------------------------------------------------------

  // From now on this view, and copies of it, refuse the changes below; the elements stay writable. Views and
  // aliases made from it are not frozen.
  void Freeze() { frozen_ = true; }
  bool is_frozen() const { return frozen_; }
  // The same geometry over the same buffer, not frozen.
  TensorView Alias() const { return TensorView(Unchecked(), buffer_, layout_, dtype_); }

  // Errors, and nothing has changed: FailedPrecondition if frozen; those of Layout's function of the same name;
  // InvalidArgument if elements would leave the buffer.
  absl::Status SetDimsAndStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides);
  absl::Status SetDim(int axis, int64_t dim);
  absl::Status SetStride(int axis, int64_t stride);
  absl::Status SetOffset(int64_t offset);
  absl::Status ResizeDim(int rank);

 private:
  const RefPtr<Allocator>& copy_allocator() const {
    return buffer_ ? buffer_->copy_allocator() : CpuAllocator::Default();
  }
  // A view of the same buffer after `edit` of its layout; see Layout::Edited.
  template <typename Edit>
  absl::StatusOr<TensorView> Edited(Edit&& edit) const {
    absl::StatusOr<TensorView> result(internal::kInPlace, Unchecked(), buffer_, layout_, dtype_);
    if (absl::Status status = edit(result->layout_); !status.ok()) result = std::move(status);
    return result;
  }
  absl::StatusOr<Tensor> CloneRowMajor(const RefPtr<Allocator>& allocator) const;
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

// The values as text, as summary.h does for a Tensor.
std::string SummarizeValue(const TensorView& view, const SummaryOptions& options = {});

template <typename T>
const ElementOf<T>* TensorView::data() const {
  CheckDType(kDTypeOf<T>);
  if (num_elements() == 0) return nullptr;
  return static_cast<const ElementOf<T>*>(buffer_->data()) + layout_.offset();
}

template <typename T>
ElementOf<T>* TensorView::mutable_data() {
  CheckDType(kDTypeOf<T>);
  if (num_elements() == 0) return nullptr;
  return static_cast<ElementOf<T>*>(buffer_->mutable_data()) + layout_.offset();
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_VIEW_H_
