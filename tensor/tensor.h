// A dense, row-major, multi-dimensional array that shares its memory when copied.
//
//   Tensor t = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});   // float32 [2,3]
//   t.matrix<float>()(1, 2)                                          // 6
//   Tensor alias = t;                                                // same buffer
//   Tensor copy = *t.Clone();                                        // a buffer of its own
//   Tensor later = *t.LazyClone();                                   // copied when `t` or `later` is first written
//   t.mutable_flat<float>()[0] = 7;                                  // `alias` shows it; `copy` and `later` do not
//
// 32 bytes: shape and dtype (24), buffer (8). A default tensor is float32 of shape [0]; so is a moved-from one. Memory
// is aligned to 64 bytes unless the tensor is a slice or wraps external memory. A tensor without elements has no
// buffer; every other tensor has one. Elements are plain bytes or objects: strings are std::string (any bytes),
// TensorFlow's resources and variants are ResourceHandle (resource_handle.h) and Variant (variant.h).
//
// Access: `data flat matrix scalar ...` are const and read only. `mutable_data mutable_flat ...` need a non-const
// tensor and first make its memory writable (TensorBuffer::EnsureMutable). A failure of that is CHECKed; to handle it,
// call EnsureMutable() first. All require T to be the element type of dtype(): if a dtype came from outside, compare
// dtype() first. (`flat<long long>()` gives the int64_t elements; see ElementOf in dtype.h.)
//
// Slice and Reshape give tensors, which are always dense and row-major. All other views (Transpose, Permute, slices of
// any axis and step, Expand, Flip, ...) are strided, and are made from a TensorView (strided/view.h):
//
//   TensorView(t).Transpose(0, 1)          // absl::StatusOr<TensorView> [3,2], on the same buffer
//   TensorView(t).Slice(1, 0, 3, 2)        // columns 0 and 2
//
// To compare tensors, see Equal and AllClose in strided/compare.h.
//
// Several threads may call const methods of one Tensor at once. Every other use of one Tensor object needs a lock;
// copies of it are independent.
//
// Source: tensorflow/core/framework/tensor.h, with Status where TensorFlow aborts.

#ifndef TENSORCASK_TENSOR_TENSOR_H_
#define TENSORCASK_TENSOR_TENSOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dense_view.h"
#include "tensorcask/tensor/device.h"
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

  // Uninitialised elements (objects: empty). With the allocator of a device (tensor/memory), the elements are in memory
  // of the device: the host cannot access them (buffer.h), and tensor/memory/copy_across.h copies them.
  // Errors: InvalidArgument if `dtype` is kInvalid or the size in bytes overflows int64_t, and for objects on a device;
  // ResourceExhausted, naming the bytes, if the memory cannot be allocated; errors of the device.
  static absl::StatusOr<Tensor> Create(DType dtype, const TensorShape& shape,
                                       const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  // Create(dtype, {2, 3}). Errors: also those of TensorShape::Create.
  static absl::StatusOr<Tensor> Create(DType dtype, std::initializer_list<int64_t> dims,
                                       const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  // The same, all bytes zero (objects: empty).
  static absl::StatusOr<Tensor> Zeros(DType dtype, const TensorShape& shape,
                                      const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  static absl::StatusOr<Tensor> Zeros(DType dtype, std::initializer_list<int64_t> dims,
                                      const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  Tensor(DType dtype, const TensorShape& shape) = delete;  // allocating may fail: use Tensor::Create(dtype, shape)
  Tensor(DType dtype, std::initializer_list<int64_t> dims) = delete;  // use Tensor::Create(dtype, {2, 3})

  // One element, shape []. T may be the class of an object. Without an allocator, a number is stored in the buffer
  // object.
  template <typename T>
  static Tensor Scalar(T value);
  template <typename T>
  static Tensor Scalar(T value, const RefPtr<Allocator>& allocator);

  // Literals in code: vector, matrix, rank 3. CHECKs that rows have the same length, that the allocator gives
  // memory of the host, and that it has enough of it.
  // Literals of more than three levels, and literals whose rank is ambiguous ({}, {{}}), do not compile. Strings: do
  // not mix strings and rows in one list: {"a", {"b", "c"}} would make the second element from two pointers.
  template <typename T>
  static Tensor FromValues(std::initializer_list<T> values,
                           const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  template <typename T>
  static Tensor FromValues(std::initializer_list<std::initializer_list<T>> rows,
                           const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  template <typename T>
  static Tensor FromValues(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
                           const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  template <typename T>
  static Tensor FromValues(
      std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>) = delete;

  // A copy of `values`, row-major: FromSpan(shape, vector), FromSpan<float>(shape, {1, 2, 3}).
  // Errors: InvalidArgument if the number of values is not shape.num_elements(); those of Create.
  template <typename T>
  static absl::StatusOr<Tensor> FromSpan(const TensorShape& shape, absl::Span<const T> values,
                                         const RefPtr<Allocator>& allocator = CpuAllocator::Default());
  template <typename T>
  static absl::StatusOr<Tensor> FromSpan(const TensorShape& shape, absl::Span<T> values,
                                         const RefPtr<Allocator>& allocator = CpuAllocator::Default()) {
    return FromSpan(shape, absl::Span<const T>(values), allocator);
  }
  template <typename T, size_t N>
  static absl::StatusOr<Tensor> FromSpan(const TensorShape& shape, const std::array<T, N>& values,
                                         const RefPtr<Allocator>& allocator = CpuAllocator::Default()) {
    return FromSpan(shape, absl::Span<const T>(values), allocator);
  }
  template <typename T, typename A>  // also std::vector<bool>
  static absl::StatusOr<Tensor> FromSpan(const TensorShape& shape, const std::vector<T, A>& values,
                                         const RefPtr<Allocator>& allocator = CpuAllocator::Default());

  // A tensor on an existing buffer, which is shared and not copied.
  // Errors: InvalidArgument if `buffer` is null, smaller than the elements, not aligned for them, or of the wrong kind
  // (objects need a kElements buffer of their class; other elements need any other kind); those of Create, except for
  // memory. If there are no elements, the buffer is released. The bytes of bools must be 0 and 1; this is not checked:
  // the caller must check bytes from outside.
  static absl::StatusOr<Tensor> FromBuffer(DType dtype, const TensorShape& shape, RefPtr<TensorBuffer> buffer);

  // A tensor on the caller's memory, which must be writable. `release` is called once when no tensor uses the memory
  // any more (at once if there are no elements or on error); it may be empty. For read-only memory, use FromBuffer and
  // TensorBuffer::WrapExternal.
  // Errors: those of FromBuffer; InvalidArgument if `data` is null and there are elements.
  static absl::StatusOr<Tensor> FromExternal(DType dtype, const TensorShape& shape, void* data, size_t size_bytes,
                                             std::function<void()> release);

  // ---- What it is ---------------------------------------------------------------------------------------------------

  DType dtype() const { return shape_.rep_.dtype(); }
  const TensorShape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_.dim(axis); }  // negative: from the back; -1 is the last axis
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t element_size() const { return ElementSize(dtype()); }  // bytes; 0 for objects

  // Always true: no function here makes elements without a buffer. (TensorFlow's tensors may lack one.)
  bool IsInitialized() const { return buffer_ || num_elements() == 0; }
  bool IsAligned() const;  // data at a multiple of Allocator::kAlignment (objects and empty tensors: always)
  // The size of the elements in bytes. For objects: their sizeof, plus the characters of strings; what variants contain
  // is not counted.
  size_t TotalBytes() const;
  size_t AllocatedBytes() const;  // the size of the root buffer; 0 without one

  // Where the elements are. A tensor without elements is on the host.
  Device device() const { return buffer_ ? buffer_->device() : Device(); }

  // Null for a tensor without elements.
  const RefPtr<TensorBuffer>& buffer() const { return buffer_; }
  // The same buffer, moved out. This tensor is then a moved-from one.
  RefPtr<TensorBuffer> TakeBuffer() && {
    RefPtr<TensorBuffer> buffer = std::move(buffer_);
    BecomeEmptyVector();
    return buffer;
  }
  bool SharesBufferWith(const Tensor& other) const;  // the same root
  // True if no other tensor, view or buffer shares this memory, and the memory may be written (IsExclusive).
  bool RefCountIsOne() const { return buffer_ && buffer_->IsExclusive(); }

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // The bytes of the elements, row-major, little-endian. Requires: IsFixedSize(dtype()). Each bool is 0 or 1, and no
  // other byte may be written there.
  absl::string_view bytes() const;
  absl::Span<char> mutable_bytes();

  // Makes the memory of this tensor writable, see buffer.h. Errors: those of TensorBuffer::EnsureMutable.
  absl::Status EnsureMutable();

  template <typename T>
  const ElementOf<T>* data() const;
  template <typename T>
  ElementOf<T>* mutable_data();

  // Requires: num_elements() == 1, whatever the rank.
  template <typename T>
  const ElementOf<T>& scalar() const;
  template <typename T>
  ElementOf<T>& mutable_scalar();

  template <typename T>
  DenseView<const ElementOf<T>, 1> flat() const;  // all elements, any rank
  template <typename T>
  DenseView<ElementOf<T>, 1> mutable_flat();
  template <typename T>
  DenseView<const ElementOf<T>, 1> vec() const;  // Requires: rank() == 1
  template <typename T>
  DenseView<ElementOf<T>, 1> mutable_vec();
  template <typename T>
  DenseView<const ElementOf<T>, 2> matrix() const;  // Requires: rank() == 2
  template <typename T>
  DenseView<ElementOf<T>, 2> mutable_matrix();
  template <typename T, int N>
  DenseView<const ElementOf<T>, N> tensor() const;  // Requires: rank() == N
  template <typename T, int N>
  DenseView<ElementOf<T>, N> mutable_tensor();

  // Other dims over the same elements. Requires: their product is num_elements().
  template <typename T, int N>
  DenseView<const ElementOf<T>, N> shaped(const std::array<int64_t, N>& dims) const;
  template <typename T, int N>
  DenseView<ElementOf<T>, N> mutable_shaped(const std::array<int64_t, N>& dims);

  // Keeps the last N - 1 axes and folds those before them into one. If rank() < N, leading axes of size 1 are added.
  template <typename T, int N = 2>
  DenseView<const ElementOf<T>, N> flat_inner_dims() const;
  template <typename T, int N = 2>
  DenseView<ElementOf<T>, N> mutable_flat_inner_dims();
  // Keeps the first N - 1 axes and folds those after them into one. If rank() < N, trailing axes of size 1 are added.
  template <typename T, int N = 2>
  DenseView<const ElementOf<T>, N> flat_outer_dims() const;
  template <typename T, int N = 2>
  DenseView<ElementOf<T>, N> mutable_flat_outer_dims();
  // Keeps axes [begin, begin + N); those before fold into the first of them, those after into the last. A negative
  // `begin` adds as many leading axes of size 1; begin + N > rank() adds trailing ones.
  template <typename T, int N>
  DenseView<const ElementOf<T>, N> flat_inner_outer_dims(int begin) const;
  template <typename T, int N>
  DenseView<ElementOf<T>, N> mutable_flat_inner_outer_dims(int begin);

  // The bytes read as another type of fixed size, except bool. Requires: the product of `dims` times sizeof(T) is the
  // size of bytes(), and the data is aligned for T.
  template <typename T, int N>
  DenseView<const T, N> bit_casted_shaped(const std::array<int64_t, N>& dims) const;
  template <typename T, int N>
  DenseView<T, N> mutable_bit_casted_shaped(const std::array<int64_t, N>& dims);

  // ---- Other tensors on the same buffer, and copies -----------------------------------------------------------------

  // Rows [start, limit) of axis 0, same rank.
  // Errors: InvalidArgument for a scalar; OutOfRange unless 0 <= start <= limit <= dim(0).
  absl::StatusOr<Tensor> Slice(int64_t start, int64_t limit) const;
  // Row `index` of axis 0, rank one less.
  // Errors: InvalidArgument for a scalar; OutOfRange unless 0 <= index < dim(0).
  absl::StatusOr<Tensor> SubSlice(int64_t index) const;
  // Errors: InvalidArgument unless `shape` has as many elements; for `dims` also those of TensorShape::Create.
  absl::StatusOr<Tensor> Reshape(const TensorShape& shape) const;
  absl::StatusOr<Tensor> Reshape(std::initializer_list<int64_t> dims) const;
  // The same bytes as elements of another dtype.
  // Errors: InvalidArgument if either dtype has no fixed size, the number of bytes differs, the data is not aligned for
  // the new elements, or `dtype` is bool and this dtype is not (a bool is 0 or 1).
  absl::StatusOr<Tensor> Bitcast(DType dtype, const TensorShape& shape) const;

  // A copy in a new buffer. Errors: ResourceExhausted; FailedPrecondition for a buffer without data, and for memory of
  // a device on either side.
  absl::StatusOr<Tensor> Clone(const RefPtr<Allocator>& allocator = CpuAllocator::Default()) const;
  // The same, but the memory is copied only when one of the two tensors is written; until then both read the same
  // memory (buffer.h says what is copied at once). Errors: those of Clone.
  absl::StatusOr<Tensor> LazyClone() const;

  // ---- What other libraries have ------------------------------------------------------------------------------------

  void dims() const = delete;                     // use rank(), shape().dims() or dim(axis)
  void operator[](int64_t index) const = delete;  // a row: SubSlice(index); an element: vec<T>()[index]
  template <typename... Axes>
  void Transpose(const Axes&...) const = delete;  // has strides: TensorView(t).Transpose(0, 1), of strided/view.h
  template <typename Axes>
  void Permute(const Axes&) const = delete;                           // has strides: TensorView(t).Permute({1, 0})
  void Permute(std::initializer_list<int64_t> axes) const = delete;   // has strides: TensorView(t).Permute({1, 0})
  friend bool operator==(const Tensor& a, const Tensor& b) = delete;  // Equal(a, b), of strided/compare.h
  friend bool operator!=(const Tensor& a, const Tensor& b) = delete;  // !Equal(a, b), of strided/compare.h

  // ---- Text ---------------------------------------------------------------------------------------------------------

  // The first `max_entries` values in total, as TensorFlow counts them; "..." replaces the others. Negative: all.
  // Strings are quoted and escaped. (SummarizeValue of summary.h also shows the ends of each axis.)
  std::string SummarizeValue(int64_t max_entries) const;
  // "float32 [2,3]: [[1 2 3] [4 5 6]]". A long axis shows three values at each end.
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

 private:
  Tensor(DType dtype, const TensorShape& shape, RefPtr<TensorBuffer> buffer);

  void BecomeEmptyVector() { shape_.rep_ = internal::TensorShapeRep::EmptyVector(DType::kFloat32); }
  size_t NumBytes() const;  // num_elements() times sizeof of an element
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
  // For bit casts: CHECKs that the product of `dims` times element_size is the size of bytes(), and that the address of
  // the data is a multiple of `alignment`.
  void CheckBitCast(absl::Span<const int64_t> dims, size_t element_size, size_t alignment) const;
  void CheckRank(int rank) const;
  void CheckNumElements(absl::Span<const int64_t> dims) const;
  void FoldDims(int begin, absl::Span<int64_t> dims) const;  // the rule of flat_inner_outer_dims
  static Tensor CreateOrDie(DType dtype, const TensorShape& shape, const RefPtr<Allocator>& allocator);
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

#include "tensorcask/tensor/internal/tensor_inl.h"

#endif  // TENSORCASK_TENSOR_TENSOR_H_
