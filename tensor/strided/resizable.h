// A tensor whose dims, dtype and memory come one after the other, and may change: for readers that learn the dims
// first, for memory that is used again and again, for rows that arrive one by one.
//
//   ResizableTensor t;                                    // shape [0], no dtype, no memory
//   absl::Status status = t.Resize({2, 3});               // still no memory
//   absl::StatusOr<float*> data = t.MutableData<float>(); // float32, and now 24 bytes
//   status = t.Extend(1, /*growth_percent=*/100);         // [3,3]; room for 4 rows, so the next row allocates nothing
//   absl::StatusOr<Tensor> dense = t.ToTensor();          // on the same memory
//
// Caffe2's lazy tensor, always row-major, with a Status where that throws, and options where that has globals. dtype
// and memory are each there or not:
//
//   dtype_initialized()     after MutableData, ShareData, ShareExternal, CopyFrom; never lost
//   storage_initialized()   there is memory, or no elements are to be stored in it
//
// Only with both are there data to read: Data, View, ToTensor, and being shared or copied, refuse what lacks one.
//
// Memory is shared by ShareData, and with the views and tensors that View, ToTensor and FromTensor make or take.
// Writing the elements shows everywhere. What changes the number of elements lets go of shared memory (Resize) or moves
// to memory of its own (Extend), so that the others keep theirs, pointers included; Shrink, which only looks at less,
// does not. Memory given by ShareExternal is written where it is and never replaced: what needs more fails with
// FailedPrecondition, until FreeMemory.
//
// A failed call leaves the tensor as it was. Moves, but does not copy: see Clone and ShareData; one moved from is as
// new. Not shared between threads without a lock.
//
// Source: caffe2/core/tensor.h and c10/core/TensorImpl.h of PyTorch 1.13 (Resize, Extend, ReserveSpace and so on).
// Different here: whatever holds for memory that others see too, since Caffe2 resizes and reinterprets it under them;
// ReserveSpace has effect although memory is large enough; FreeMemory forgets a reservation.

#ifndef TENSORCASK_TENSOR_STRIDED_RESIZABLE_H_
#define TENSORCASK_TENSOR_STRIDED_RESIZABLE_H_

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
  // What a Resize to fewer elements does with memory that is then too large: kept, unless more than max_idle_bytes of
  // it would lie idle, or given back. Memory reserved by Extend or ReserveSpace is kept in any case.
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

  // On the memory of `tensor`.
  static ResizableTensor FromTensor(const Tensor& tensor, ResizableOptions options = {});

  // ---- What it is ---------------------------------------------------------------------------------------------------

  const TensorShape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_.dim(axis); }  // Requires: 0 <= axis < rank()
  int64_t num_elements() const { return shape_.num_elements(); }
  DType dtype() const { return dtype_; }  // kInvalid: not initialised
  // Counts the changes of the dims, for whoever keeps something that was made for them.
  uint64_t dims_sequence() const { return dims_sequence_; }

  bool dtype_initialized() const { return dtype_ != DType::kInvalid; }
  bool storage_initialized() const { return buffer_ || num_elements() == 0; }
  // Errors: FailedPrecondition, saying what is missing, unless both are initialised; or if the memory has no data.
  absl::Status CheckFullyInitialized() const;

  size_t capacity_bytes() const { return buffer_ ? buffer_->size_bytes() : 0; }  // objects: of themselves
  bool SharesMemoryWith(const ResizableTensor& other) const {
    return buffer_ && other.buffer_ && buffer_->root() == other.buffer_->root();
  }

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // The elements. Null only if there are none. T may be the class of an object.
  // Errors: InvalidArgument, naming both, if T is not the element type of dtype(); as CheckFullyInitialized.
  template <typename T>
  absl::StatusOr<const T*> Data() const {
    CASK_RETURN_IF_ERROR(CheckData(kDTypeOf<T>));
    return buffer_ ? static_cast<const T*>(buffer_->data()) : nullptr;
  }

  // Memory for all elements, of type T from now on, to be written. What is there already is kept if dtype() is T's. If
  // not, the elements are undefined (objects: empty), in the same memory if that is large enough, nobody else sees it
  // and both types have a fixed size; else in memory of their own. May be null if there are no elements.
  // Errors: ResourceExhausted; InvalidArgument if the size in bytes exceeds int64_t; FailedPrecondition if external
  // memory does not do, or there is no data to write over.
  template <typename T>
  absl::StatusOr<T*> MutableData() {
    CASK_ASSIGN_OR_RETURN(void* const data, MutableRawData(kDTypeOf<T>));
    return static_cast<T*>(data);
  }
  // The same for a dtype known when the program runs. Errors: as Tensor::Create, first of all, for one that no tensor
  // has.
  absl::StatusOr<void*> MutableRawData(DType dtype);

  // On the same memory; of as many elements as there are. Errors: as CheckFullyInitialized.
  absl::StatusOr<TensorView> View() const;
  absl::StatusOr<Tensor> ToTensor() const;

  // ---- Dims ---------------------------------------------------------------------------------------------------------

  // Makes these the dims. With as many elements as before, nothing else changes. With another number the elements are
  // undefined, and the memory is kept if it is large enough, the options allow it and nobody else sees it; else let go.
  // Errors: InvalidArgument if `dims` are no TensorShape, or (once the dtype is known) their size in bytes exceeds
  // int64_t; FailedPrecondition if external memory is too small.
  absl::Status Resize(absl::Span<const int64_t> dims);
  // Resize to the dims of `other`. Errors: also InvalidArgument unless `other` is contiguous.
  absl::Status ResizeLike(const TensorView& other);
  absl::Status ResizeLike(const ResizableTensor& other) { return Resize(other.shape().dims()); }

  // Other dims for the same elements. Errors: InvalidArgument unless there are as many; -1 is not inferred.
  absl::Status Reshape(absl::Span<const int64_t> dims);

  // `num` more rows along axis 0, behind those that are there, which are kept. If they fit in memory that nobody else
  // sees, only the dims change. Else everything moves to memory for at least dim(0) * (1 + growth_percent / 100) rows,
  // rounded up, which is then reserved. Without memory this is Resize.
  // Errors: InvalidArgument for a scalar, if `num` or growth_percent is negative or growth_percent not finite, or if
  // the size in bytes exceeds int64_t; ResourceExhausted; FailedPrecondition as above.
  absl::Status Extend(int64_t num, double growth_percent);

  // The first `outer` rows of axis 0. The memory stays, and its other rows are room for Extend.
  // Errors: InvalidArgument for a scalar; OutOfRange unless 0 <= outer <= dim(0).
  absl::Status Shrink(int64_t outer);

  // Memory for `outer` rows of axis 0; the dims stay. DISCARDS the elements, unless memory is large enough as it is.
  // Errors: InvalidArgument for a scalar, a negative number or too many bytes; FailedPrecondition if the dtype is not
  // initialised, somebody else sees the memory, or external memory is too small; ResourceExhausted.
  absl::Status ReserveSpace(int64_t outer);

  // ---- Memory -------------------------------------------------------------------------------------------------------

  // Lets go of the memory and of reservations. dtype and dims stay.
  void FreeMemory();

  // From now on dtype and memory are those of `source`; the dims stay. Itself: nothing happens.
  // Errors: FailedPrecondition if the source's dtype is not initialised, and another one if it lacks memory;
  // InvalidArgument if the numbers of elements differ.
  absl::Status ShareData(const ResizableTensor& source);

  // From now on the elements are those at `data`, whose size is `size_bytes`; 0: just as large as needed. `release` is
  // called when nothing uses the memory any more, and at once on error or if there are no elements; it may be empty.
  // Errors: InvalidArgument if `dtype` is not one of fixed size; if `data` is null, too small or not aligned.
  absl::Status ShareExternal(DType dtype, void* data, size_t size_bytes = 0, std::function<void()> release = nullptr);

  // Takes the dims and dtype of `source`, as Resize would, and copies its elements, of any strides, to memory kept or
  // new. Another dtype takes new memory. A source that overlaps our memory is copied as if it had been copied aside
  // (copy.h). A source whose dtype is not initialised makes this such a tensor.
  // Errors: FailedPrecondition if the source has a dtype but no memory or data, or if external memory does not do; as
  // Resize; ResourceExhausted.
  absl::Status CopyFrom(const TensorView& source);
  absl::Status CopyFrom(const ResizableTensor& source);

  // A copy in memory of its own, with the same options. Errors: as CopyFrom.
  absl::StatusOr<ResizableTensor> Clone() const;

 private:
  const RefPtr<Allocator>& allocator() const {
    return options_.allocator ? options_.allocator : CpuAllocator::Default();
  }
  void SetShape(TensorShape shape);
  // Takes over the elements of a new tensor. Of its dims and `shape`, `shape` counts.
  void SetElements(const Tensor& elements, TensorShape shape);
  bool NobodyElseSeesMemory() const;
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

#endif  // TENSORCASK_TENSOR_STRIDED_RESIZABLE_H_
