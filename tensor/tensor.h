// A dense, row-major, multi-dimensional array that shares its memory when copied.
//
//   Tensor t = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});   // float32 [2,3]
//   t.matrix<float>()(1, 2)                                          // 6
//   Tensor alias = t;                                                // same memory
//   Tensor copy = *t.Clone();                                        // its own
//   Tensor later = *t.LazyClone();                                   // its own, once either of the two is written
//   t.mutable_flat<float>()[0] = 7;                                  // alias sees it, copy and later do not
//
// 32 bytes: shape and dtype (24), buffer (8). A default tensor is float32 of shape [0]; so is one moved from. Memory is
// aligned to 64 bytes unless the tensor is a slice or wraps external memory; a tensor without elements has no buffer,
// and every other has one. Elements are plain bytes or objects: strings are std::string (any bytes), TensorFlow's
// resources and variants are ResourceHandle (resource_handle.h) and Variant (variant.h).
//
// Access: `data flat matrix scalar ...` are const and read only; `mutable_data mutable_flat ...` want a non-const
// tensor and first make its memory writable (TensorBuffer::EnsureMutable), which CHECKs on failure; EnsureMutable() is
// the form that can fail. All require T to be the element type of dtype(): compare dtype() first when it came from
// outside.
//
// Const methods are safe together; a Tensor object is not shared between threads without a lock, copies of it are.
//
// Source: tensorflow/core/framework/tensor.h, with Status where TensorFlow aborts.

#ifndef TENSORCASK_TENSOR_TENSOR_H_
#define TENSORCASK_TENSOR_TENSOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dense_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

class Tensor {
 public:
  // ---- Making -------------------------------------------------------------------------------------------------------

  Tensor() : shape_(internal::TensorShapeRep::EmptyVector(DType::kFloat32)) {}  // float32, shape [0]
  Tensor(const Tensor&) = default;
  Tensor(Tensor&& other) noexcept : shape_(std::move(other.shape_)), buffer_(std::move(other.buffer_)) {
    other.BecomeEmptyVector();
  }
  Tensor& operator=(const Tensor&) = default;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;

  // Uninitialised elements (objects: empty). Errors: InvalidArgument if `dtype` is kInvalid or the bytes overflow
  // int64_t; ResourceExhausted, naming the bytes, if the memory cannot be had.
  static absl::StatusOr<Tensor> Create(DType dtype, const TensorShape& shape,
                                       const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  // The same, all bytes zero (objects: empty).
  static absl::StatusOr<Tensor> Zeros(DType dtype, const TensorShape& shape,
                                      const RefPtr<Allocator>& allocator = CpuAllocator::Default());

  // One element, shape []. T may be the class of an object.
  template <typename T>
  static Tensor Scalar(T value);

  // Literals in code: vector, matrix, rank 3. CHECKs that rows are equally long and that memory can be had. What
  // may have several ranks ({}, {{}}) and what has more than three does not compile. Strings: write one literal either
  // all in rows or all without, as {"a", {"b", "c"}} would make the second element from two pointers.
  template <typename T>
  static Tensor FromValues(std::initializer_list<T> values);
  template <typename T>
  static Tensor FromValues(std::initializer_list<std::initializer_list<T>> rows);
  template <typename T>
  static Tensor FromValues(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes);
  template <typename T>
  static Tensor FromValues(
      std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>) = delete;

  // A copy of `values`, row-major. Errors: InvalidArgument if their number is not shape.num_elements(); as Create.
  template <typename T>
  static absl::StatusOr<Tensor> FromSpan(const TensorShape& shape, absl::Span<const T> values);

  // A tensor on memory that is already there, shared and not copied.
  // Errors: InvalidArgument if `buffer` is null or smaller than the elements, not aligned to one of them, or of another
  // kind (objects want a kElements buffer of their class, and only they do); as Create but for memory. A buffer for no
  // elements is dropped. The bytes of a bool tensor must be 0 and 1: whoever brings the memory has checked them.
  static absl::StatusOr<Tensor> FromBuffer(DType dtype, const TensorShape& shape, RefPtr<TensorBuffer> buffer);

  // The caller's memory, writable: `release` is called when no tensor uses it any more, at once if there are no
  // elements or on error. It may be empty. (Read-only memory: FromBuffer and TensorBuffer::WrapExternal.)
  // Errors: as FromBuffer; InvalidArgument for null data with elements.
  static absl::StatusOr<Tensor> FromExternal(DType dtype, const TensorShape& shape, void* data, size_t size_bytes,
                                             std::function<void()> release);

  // ---- What it is ---------------------------------------------------------------------------------------------------

  DType dtype() const { return shape_.rep_.dtype(); }
  const TensorShape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_.dim(axis); }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t element_size() const { return ElementSize(dtype()); }  // bytes; 0 for objects

  // Always true: no function here makes elements without memory. (TensorFlow's tensors may lack it.)
  bool IsInitialized() const { return buffer_ || num_elements() == 0; }
  bool IsAligned() const;  // data at a multiple of Allocator::kAlignment (objects and empty tensors: always)
  // Of the elements; of objects what they are themselves, and the characters of strings, but not what is in a variant.
  size_t TotalBytes() const;
  size_t AllocatedBytes() const;  // of the root buffer; 0 without one

  // Null for a tensor without elements.
  const RefPtr<TensorBuffer>& buffer() const { return buffer_; }
  bool SharesBufferWith(const Tensor& other) const;                         // the same root
  bool RefCountIsOne() const { return buffer_ && buffer_->IsExclusive(); }  // nobody else sees our memory

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // The bytes of the elements, row-major, little-endian. Requires: IsFixedSize(dtype()). Bools are 0 and 1, and
  // nothing else may be written there.
  absl::string_view bytes() const;
  absl::Span<char> mutable_bytes();

  // Writable memory for this tensor, see buffer.h. Errors: as TensorBuffer::EnsureMutable.
  absl::Status EnsureMutable();

  template <typename T>
  const T* data() const;
  template <typename T>
  T* mutable_data();

  // Requires: num_elements() == 1, whatever the rank.
  template <typename T>
  const T& scalar() const;
  template <typename T>
  T& mutable_scalar();

  template <typename T>
  DenseView<const T, 1> flat() const;  // all elements, any rank
  template <typename T>
  DenseView<T, 1> mutable_flat();
  template <typename T>
  DenseView<const T, 1> vec() const;  // Requires: rank() == 1
  template <typename T>
  DenseView<T, 1> mutable_vec();
  template <typename T>
  DenseView<const T, 2> matrix() const;  // Requires: rank() == 2
  template <typename T>
  DenseView<T, 2> mutable_matrix();
  template <typename T, int N>
  DenseView<const T, N> tensor() const;  // Requires: rank() == N
  template <typename T, int N>
  DenseView<T, N> mutable_tensor();

  // Other dims over the same elements. Requires: their product is num_elements().
  template <typename T, int N>
  DenseView<const T, N> shaped(const std::array<int64_t, N>& dims) const;
  template <typename T, int N>
  DenseView<T, N> mutable_shaped(const std::array<int64_t, N>& dims);

  // The last N - 1 axes kept, those before them folded into one; leading ones are added if rank() < N.
  template <typename T, int N = 2>
  DenseView<const T, N> flat_inner_dims() const;
  template <typename T, int N = 2>
  DenseView<T, N> mutable_flat_inner_dims();
  // The first N - 1 axes kept, those behind them folded into one; trailing ones are added if rank() < N.
  template <typename T, int N = 2>
  DenseView<const T, N> flat_outer_dims() const;
  template <typename T, int N = 2>
  DenseView<T, N> mutable_flat_outer_dims();
  // Axes [begin, begin + N) kept; those before fold into the first, those behind into the last. A negative `begin` adds
  // that many leading ones, begin + N > rank() trailing ones.
  template <typename T, int N>
  DenseView<const T, N> flat_inner_outer_dims(int begin) const;
  template <typename T, int N>
  DenseView<T, N> mutable_flat_inner_outer_dims(int begin);

  // The bytes read as another fixed-size type, not bool. Requires: dims' product * sizeof(T) is the size of bytes(),
  // and the data is aligned for T.
  template <typename T, int N>
  DenseView<const T, N> bit_casted_shaped(const std::array<int64_t, N>& dims) const;
  template <typename T, int N>
  DenseView<T, N> mutable_bit_casted_shaped(const std::array<int64_t, N>& dims);

  // ---- Others on the same memory, or a copy -------------------------------------------------------------------------

  // Rows [start, limit) of axis 0, same rank. Errors: InvalidArgument for a scalar; OutOfRange unless
  // 0 <= start <= limit <= dim(0).
  absl::StatusOr<Tensor> Slice(int64_t start, int64_t limit) const;
  // Row `index` of axis 0, rank one less. Errors: as Slice, 0 <= index < dim(0).
  absl::StatusOr<Tensor> SubSlice(int64_t index) const;
  // Errors: InvalidArgument unless `shape` has as many elements.
  absl::StatusOr<Tensor> Reshape(const TensorShape& shape) const;
  // The same bytes as other elements. Errors: InvalidArgument if either dtype has no fixed size, the number of bytes
  // differs, the data is not aligned for the new element, or `dtype` is bool and ours is not (a bool is 0 or 1).
  absl::StatusOr<Tensor> Bitcast(DType dtype, const TensorShape& shape) const;

  // The elements copied to fresh memory. Errors: ResourceExhausted; FailedPrecondition for a buffer without data.
  absl::StatusOr<Tensor> Clone(const RefPtr<Allocator>& allocator = CpuAllocator::Default()) const;
  // The same, but copied only when one of the two is written: until then both read the same memory (buffer.h says what
  // is copied at once). Errors: as Clone.
  absl::StatusOr<Tensor> LazyClone() const;

  // ---- Text ---------------------------------------------------------------------------------------------------------

  // The values, at most `max_entries` along each end of each axis (summary.h). Strings are quoted and escaped.
  std::string SummarizeValue(int64_t max_entries) const;
  // "float32 [2,3]: [[1 2 3] [4 5 6]]", values shortened.
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

 private:
  Tensor(DType dtype, const TensorShape& shape, RefPtr<TensorBuffer> buffer);

  void BecomeEmptyVector() { shape_.rep_ = internal::TensorShapeRep::EmptyVector(DType::kFloat32); }
  size_t NumBytes() const;  // of the elements, objects without what they hold elsewhere
  RefPtr<TensorBuffer> PartOfBuffer(size_t offset_bytes, size_t size_bytes) const;

  // The data, after CHECKing that elements are of `dtype`. Null for a tensor without elements.
  const void* CheckedData(DType dtype) const {
    CheckDType(dtype);
    return buffer_ ? buffer_->data() : nullptr;
  }
  void* CheckedMutableData(DType dtype) {
    CheckDType(dtype);
    return buffer_ ? buffer_->mutable_data() : nullptr;
  }
  void CheckDType(DType wanted) const {
    if (__builtin_expect(wanted != dtype(), 0)) WrongDType(wanted);
  }
  [[noreturn]] void WrongDType(DType wanted) const;
  // For bit casts: CHECKs that dims' product * element_size is the size of bytes(), and that the data is a multiple of
  // `alignment`.
  void CheckBitCast(absl::Span<const int64_t> dims, size_t element_size, size_t alignment) const;
  void CheckRank(int rank) const;
  void CheckNumElements(absl::Span<const int64_t> dims) const;
  void FoldDims(int begin, absl::Span<int64_t> dims) const;  // the rule of flat_inner_outer_dims
  static Tensor CreateOrDie(DType dtype, const TensorShape& shape);
  static void CheckEqualRows(size_t expected, size_t found);
  static absl::Status WrongNumValues(size_t num_values, const TensorShape& shape);

  template <int N>
  std::array<int64_t, N> FoldedDims(int begin) const {
    static_assert(N > 0, "all axes fold into at least one");
    std::array<int64_t, N> dims;
    FoldDims(begin, absl::MakeSpan(dims));
    return dims;
  }
  template <int N>
  std::array<int64_t, N> RankedDims() const {
    CheckRank(N);
    std::array<int64_t, N> dims{};
    for (int axis = 0; axis < N; ++axis) dims[static_cast<size_t>(axis)] = shape_.dim(axis);
    return dims;
  }

  TensorShape shape_;  // carries the dtype
  RefPtr<TensorBuffer> buffer_;
};

static_assert(sizeof(Tensor) == 32, "a tensor is 32 bytes");

inline Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    shape_ = std::move(other.shape_);
    buffer_ = std::move(other.buffer_);
    other.BecomeEmptyVector();
  }
  return *this;
}

}  // namespace tensorcask

#include "tensorcask/tensor/tensor_inl.h"

#endif  // TENSORCASK_TENSOR_TENSOR_H_
