// A tensor whose dims, dtype and memory are set one after the other, and may change: for readers that learn the dims
// first, for reusing memory, for rows that arrive one by one.
//
//   ResizableTensor t;                                    // shape [0], no dtype, no memory
//   absl::Status status = t.Resize({2, 3});               // still no memory
//   absl::StatusOr<float*> data = t.MutableData<float>(); // float32, and now 24 bytes
//   status = t.Extend(1, /*growth_percent=*/100);         // [3,3]; room for 4 rows, so the next row allocates nothing
//   absl::StatusOr<Tensor> dense = t.ToTensor();          // on the same memory
//
// This is Caffe2's lazy tensor, always row-major, with a Status where Caffe2 throws, and options where it has global
// flags. The dtype and the memory may each be missing:
//
//   dtype_initialized()     true after MutableData, ShareData, ShareExternal, CopyFrom, and from then on
//   storage_initialized()   true if there is memory, or there are no elements
//
// A tensor has data to read only if both are true. If not, Data, View and ToTensor refuse it, and so do functions that
// would share or copy it.
//
// ShareData shares memory between two of these tensors; View, ToTensor and FromTensor share it with views and tensors.
// All of them show what is written to the elements. If the number of elements changes, shared memory is released
// (Resize) or the elements move to new memory (Extend), so that the other tensors and pointers into their memory stay
// valid. Shrink keeps sharing. Memory given by ShareExternal is written in place and never replaced: until FreeMemory,
// operations that need more memory fail with FailedPrecondition.
//
// A failed call leaves the tensor as it was. Move-only: see Clone and ShareData. A moved-from tensor is like a new one.
// Threads share one only with a lock.
//
// Source: caffe2/core/tensor.h and c10/core/TensorImpl.h of PyTorch 1.13 (Resize, Extend, ReserveSpace and so on).
// Different here: shared memory is never resized or reinterpreted; ReserveSpace reserves even if the memory is large
// enough; FreeMemory cancels a reservation.

#ifndef TENSORCASK_TENSOR_COMPAT_RESIZABLE_H_
#define TENSORCASK_TENSOR_COMPAT_RESIZABLE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

struct ResizableOptions {
  // Whether a Resize to fewer elements keeps the memory: it does if this is true and at most max_idle_bytes would be
  // unused. Memory reserved by Extend or ReserveSpace is always kept.
  bool keep_on_shrink = true;
  int64_t max_idle_bytes = INT64_MAX;
  RefPtr<Allocator> allocator;  // null: CpuAllocator::Default()
};

class ResizableTensor {
 public:
  ResizableTensor() = default;
  explicit ResizableTensor(ResizableOptions options) : options_(std::move(options)) {}
  ResizableTensor(ResizableTensor&& other) noexcept { *this = std::move(other); }
  ResizableTensor& operator=(ResizableTensor&& other) noexcept;
  ~ResizableTensor() = default;

  // Shares the memory of `tensor`.
  static ResizableTensor FromTensor(const Tensor& tensor, ResizableOptions options = {});

  // ---- What it is ---------------------------------------------------------------------------------------------------

  const TensorShape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_.dim(axis); }  // negative: from the back
  int64_t num_elements() const { return shape_.num_elements(); }
  DType dtype() const { return dtype_; }  // kInvalid: not initialised
  // Counts the changes of the dims, so that a caller can tell whether a cached result for them is still valid.
  uint64_t dims_sequence() const { return dims_sequence_; }

  bool dtype_initialized() const { return dtype_ != DType::kInvalid; }
  bool storage_initialized() const { return buffer_ || num_elements() == 0; }
  // Errors: FailedPrecondition, saying what is missing, unless both are initialised; or if the memory has no data.
  absl::Status CheckFullyInitialized() const;

  size_t capacity_bytes() const { return buffer_ ? buffer_->size_bytes() : 0; }  // objects: sizeof alone
  bool SharesMemoryWith(const ResizableTensor& other) const {
    return buffer_ && other.buffer_ && buffer_->root() == other.buffer_->root();
  }

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // The elements. Null only if there are none. T may be the class of an object.
  // Errors: InvalidArgument, naming both, if T is not the element type of dtype(); those of CheckFullyInitialized.
  template <typename T>
  absl::StatusOr<const ElementOf<T>*> Data() const {
    CASK_RETURN_IF_ERROR(CheckData(kDTypeOf<T>));
    return buffer_ ? static_cast<const ElementOf<T>*>(buffer_->data()) : nullptr;
  }

  // Writable memory for all elements, whose type is T from now on. If dtype() is T's, the elements are kept. If not,
  // they are undefined (objects: empty); the memory stays if it is large enough and not shared and both types have a
  // fixed size, otherwise there is new memory. May be null if there are no elements.
  // Errors: ResourceExhausted; InvalidArgument if the size in bytes exceeds int64_t; FailedPrecondition if external
  // memory is too small or misaligned, or for a buffer without data.
  template <typename T>
  absl::StatusOr<ElementOf<T>*> MutableData() {
    CASK_ASSIGN_OR_RETURN(void* const data, MutableRawData(kDTypeOf<T>));
    return static_cast<ElementOf<T>*>(data);
  }
  // The same for a dtype known at run time. Errors: also those of Tensor::Create for a dtype that no tensor has.
  absl::StatusOr<void*> MutableRawData(DType dtype);

  // The elements, sharing the memory. Errors: those of CheckFullyInitialized.
  absl::StatusOr<TensorView> View() const;
  absl::StatusOr<Tensor> ToTensor() const;

  // ---- Dims ---------------------------------------------------------------------------------------------------------

  // Sets the dims. If the number of elements stays, nothing else changes. If not, the elements are undefined, and the
  // memory is kept if it is large enough and not shared and the options allow it, otherwise released.
  // Errors: InvalidArgument if `dims` are not a TensorShape, or (once the dtype is known) their size in bytes exceeds
  // int64_t; FailedPrecondition if external memory is too small.
  absl::Status Resize(absl::Span<const int64_t> dims);
  // Sets the dims, as Resize does, and keeps the elements in row-major order: the first num_elements() of both shapes,
  // as PyTorch's resize_ does. Elements after those that were there are undefined (objects: empty, unless the memory
  // had room for them). If there is not enough memory, or it is shared, the elements move to new memory; the options
  // decide about memory that is too large. Errors: those of Resize; ResourceExhausted; FailedPrecondition for memory
  // without data.
  absl::Status ResizeAndKeep(absl::Span<const int64_t> dims);
  // Resize to the dims of `other`. Errors: also InvalidArgument unless `other` is contiguous.
  absl::Status ResizeLike(const TensorView& other);
  absl::Status ResizeLike(const ResizableTensor& other) { return Resize(other.shape().dims()); }

  // Other dims for the same elements. Errors: InvalidArgument unless there are as many; -1 is not inferred.
  absl::Status Reshape(absl::Span<const int64_t> dims);

  // Appends `num` rows along axis 0; the present rows are kept. If they fit in the memory and it is not shared, only
  // the dims change. Otherwise all elements move to new memory for at least dim(0) * (1 + growth_percent / 100) rows,
  // rounded up, which is then reserved. Without memory this is Resize.
  // Errors: InvalidArgument for a scalar, if `num` or growth_percent is negative or growth_percent not finite, or if
  // the size in bytes exceeds int64_t; ResourceExhausted; FailedPrecondition if external memory is too small.
  absl::Status Extend(int64_t num, double growth_percent);

  // Keeps the first `outer` rows of axis 0. The memory stays, so Extend can use the rest of it.
  // Errors: InvalidArgument for a scalar; OutOfRange unless 0 <= outer <= dim(0).
  absl::Status Shrink(int64_t outer);

  // Memory for `outer` rows of axis 0; the dims stay. DISCARDS the elements, unless the memory is already large enough.
  // Errors: InvalidArgument for a scalar, a negative number or too many bytes; FailedPrecondition if the dtype is not
  // initialised, the memory is shared, or external memory is too small; ResourceExhausted.
  absl::Status ReserveSpace(int64_t outer);

  // ---- Memory -------------------------------------------------------------------------------------------------------

  // Releases the memory and cancels reservations. dtype and dims stay.
  void FreeMemory();

  // Takes the dtype of `source` and shares its memory; the dims stay. Sharing with itself does nothing.
  // Errors: FailedPrecondition if the source's dtype is not initialised, and another one if it lacks memory;
  // InvalidArgument if the numbers of elements differ.
  absl::Status ShareData(const ResizableTensor& source);

  // Uses the elements at `data`, a memory of `size_bytes`; 0: exactly as large as needed. `release` is called when the
  // memory is not used any more, and at once on error or if there are no elements; it may be empty.
  // Errors: InvalidArgument if `dtype` is not one of fixed size; if `data` is null, too small or not aligned.
  absl::Status ShareExternal(DType dtype, void* data, size_t size_bytes = 0, std::function<void()> release = nullptr);

  // Takes the dims, as Resize does, and the dtype of `source`, and copies its elements, of any strides. Another dtype
  // needs new memory. A source that overlaps this memory is copied as if it had been copied aside (copy.h). If the
  // dtype of the source is not initialised, this tensor's becomes so, too.
  // Errors: FailedPrecondition if the source has a dtype but no memory or data, or if external memory is too small or
  // misaligned; those of Resize; ResourceExhausted.
  absl::Status CopyFrom(const TensorView& source);
  absl::Status CopyFrom(const ResizableTensor& source);

  // A copy in new memory, with the same options. Errors: those of CopyFrom.
  absl::StatusOr<ResizableTensor> Clone() const;

 private:
  const RefPtr<Allocator>& allocator() const {
    return options_.allocator ? options_.allocator : CpuAllocator::Default();
  }
  void SetShape(TensorShape shape);
  // Shares the elements of a new tensor, under the dims of `shape`.
  void SetElements(const Tensor& elements, TensorShape shape);
  // Moves the first elements, as many as both have, to new memory for the elements of `room`, and takes the dims of
  // `shape`. Requires: memory that is not external.
  absl::Status MoveElements(const TensorShape& room, TensorShape shape);
  bool IsMemoryUnshared() const;
  absl::Status CheckData(DType wanted) const;
  absl::Status ExternalMemoryTooSmall(DType dtype, const TensorShape& shape) const;
  // Whether Resize to this shape keeps the memory.
  absl::StatusOr<bool> KeepsMemory(const TensorShape& shape) const;
  // The shape with `outer` rows. Errors: InvalidArgument, beginning with `what`, for scalars and numbers below 0.
  absl::StatusOr<TensorShape> WithRows(const char* what, int64_t outer) const;

  ResizableOptions options_;
  TensorShape shape_ = TensorShape({0});
  DType dtype_ = DType::kInvalid;
  RefPtr<TensorBuffer> buffer_;  // null: no memory. With a dtype it has room for all elements of it
  bool external_ = false;        // buffer_ was given by ShareExternal
  bool reserved_ = false;        // buffer_ is kept on Resize
  uint64_t dims_sequence_ = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_COMPAT_RESIZABLE_H_
