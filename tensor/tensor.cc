#include "tensorcask/tensor/tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/object_elements.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

std::string Describe(DType dtype, const TensorShape& shape) {
  return absl::StrCat(DTypeName(dtype), " ", shape.ToString());
}

// The size of a tensor's elements in bytes. An error for dtypes that a tensor cannot have, and if the size exceeds
// int64_t.
absl::StatusOr<size_t> CheckedNumBytes(DType dtype, const TensorShape& shape) {
  const size_t object_bytes = ObjectBytes(dtype);
  if (object_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor cannot have dtype ", DTypeName(dtype), " (number ", DTypeNumber(dtype), ")"));
  }
  const std::optional<int64_t> bytes = CheckedMul(shape.num_elements(), static_cast<int64_t>(object_bytes));
  if (!bytes) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(dtype, shape), ": the size in bytes exceeds 2^63-1"));
  }
  return static_cast<size_t>(*bytes);
}

}  // namespace

// ---- Making ---------------------------------------------------------------------------------------------------------

Tensor::Tensor(DType dtype, const TensorShape& shape, RefPtr<TensorBuffer> buffer)
    : shape_(shape), buffer_(std::move(buffer)) {
  shape_.rep_.set_dtype(dtype);
}

absl::StatusOr<Tensor> Tensor::Create(DType dtype, const TensorShape& shape, const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(const size_t num_bytes, CheckedNumBytes(dtype, shape));
  if (num_bytes == 0) return Tensor(dtype, shape, nullptr);
  CASK_ASSIGN_OR_ANNOTATE(RefPtr<TensorBuffer> buffer,
                          IsObject(dtype)
                              ? internal::AllocateObjects(dtype, static_cast<size_t>(shape.num_elements()), allocator)
                              : TensorBuffer::Allocate(num_bytes, allocator),
                          absl::StrCat("tensor ", Describe(dtype, shape)));
  return Tensor(dtype, shape, std::move(buffer));
}

absl::StatusOr<Tensor> Tensor::Zeros(DType dtype, const TensorShape& shape, const RefPtr<Allocator>& allocator) {
  absl::StatusOr<Tensor> tensor = Create(dtype, shape, allocator);
  if (!tensor.ok() || IsObject(dtype) || !tensor->buffer_) return tensor;
  if (DeviceMemory* const memory = tensor->buffer_->device_memory()) {
    CASK_ASSIGN_OR_RETURN(void* const data, tensor->buffer_->MutableDeviceData());
    CASK_RETURN_IF_ERROR(memory->Fill(data, 0, tensor->NumBytes()));
  } else {
    std::memset(tensor->buffer_->mutable_data(), 0, tensor->NumBytes());
  }
  return tensor;
}

absl::StatusOr<Tensor> Tensor::Create(DType dtype, std::initializer_list<int64_t> dims,
                                      const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  return Create(dtype, shape, allocator);
}

absl::StatusOr<Tensor> Tensor::Zeros(DType dtype, std::initializer_list<int64_t> dims,
                                     const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  return Zeros(dtype, shape, allocator);
}

Tensor Tensor::CreateOrDie(DType dtype, const TensorShape& shape, const RefPtr<Allocator>& allocator) {
  absl::StatusOr<Tensor> tensor = Create(dtype, shape, allocator);
  CASK_CHECK(tensor.ok(), std::string(tensor.status().message()).c_str());
  return *std::move(tensor);
}

void Tensor::CheckEqualRows(size_t expected, size_t found) {
  CASK_CHECK(expected == found, "FromValues: the rows have different lengths");
}

absl::Status Tensor::WrongNumValues(size_t num_values, const TensorShape& shape) {
  return absl::InvalidArgumentError(absl::StrCat(num_values, " values for shape ", shape.ToString(), ", which has ",
                                                 shape.num_elements(), " elements"));
}

absl::StatusOr<Tensor> Tensor::FromBuffer(DType dtype, const TensorShape& shape, RefPtr<TensorBuffer> buffer) {
  CASK_ASSIGN_OR_RETURN(const size_t num_bytes, CheckedNumBytes(dtype, shape));
  if (num_bytes == 0) return Tensor(dtype, shape, nullptr);
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("a buffer for ", Describe(dtype, shape), ": ", why));
  };
  if (!buffer) return refused("it is null");
  if (buffer->size_bytes() < num_bytes) {
    return refused(absl::StrCat("it has ", buffer->size_bytes(), " bytes, but ", num_bytes, " are needed"));
  }
  if (const char* const fault = internal::FaultOfElements(dtype, *buffer); fault != nullptr) return refused(fault);
  if (!buffer->IsAlignedTo(ElementAlignment(dtype))) {
    return refused(absl::StrCat("its address is not a multiple of ", ElementAlignment(dtype)));
  }
  return Tensor(dtype, shape, std::move(buffer));
}

absl::StatusOr<Tensor> Tensor::FromExternal(DType dtype, const TensorShape& shape, void* data, size_t size_bytes,
                                            std::function<void()> release) {
  TensorBuffer::External memory;
  memory.data = data;
  memory.size_bytes = data == nullptr ? 0 : size_bytes;
  memory.release = std::move(release);
  return FromBuffer(dtype, shape, TensorBuffer::WrapExternal(std::move(memory)));
}

// ---- What it is -----------------------------------------------------------------------------------------------------

size_t Tensor::NumBytes() const { return static_cast<size_t>(num_elements()) * ObjectBytes(dtype()); }

bool Tensor::IsAligned() const { return !buffer_ || IsObject(dtype()) || buffer_->IsAlignedTo(Allocator::kAlignment); }

size_t Tensor::TotalBytes() const {
  size_t total = NumBytes();
  if (dtype() == DType::kString) {
    for (const std::string& text : flat<std::string>()) total += text.size();
  }
  return total;
}

size_t Tensor::AllocatedBytes() const { return buffer_ ? buffer_->root()->size_bytes() : 0; }

bool Tensor::SharesBufferWith(const Tensor& other) const {
  return buffer_ && other.buffer_ && buffer_->root() == other.buffer_->root();
}

// ---- Elements -------------------------------------------------------------------------------------------------------

absl::string_view Tensor::bytes() const {
  CASK_CHECK(IsFixedSize(dtype()), "bytes: objects have no plain bytes");
  return buffer_ ? buffer_->bytes().substr(0, NumBytes()) : absl::string_view();
}

absl::Span<char> Tensor::mutable_bytes() {
  CASK_CHECK(IsFixedSize(dtype()), "mutable_bytes: objects have no plain bytes");
  if (!buffer_) return {};
  return {static_cast<char*>(buffer_->mutable_data()), NumBytes()};
}

absl::Status Tensor::EnsureMutable() { return buffer_ ? buffer_->EnsureMutable() : absl::OkStatus(); }

void Tensor::WrongDType(DType wanted) const {
  const std::string message =
      absl::StrCat("the elements of this tensor are ", DTypeName(dtype()), ", not ", DTypeName(wanted));
  internal::CheckFailed(__FILE__, __LINE__, "kDTypeOf<T> == dtype()", message.c_str());
}

void Tensor::CheckRank(int rank) const {
  if (rank == shape_.rank()) return;
  const std::string message = absl::StrCat("a view of rank ", rank, " on shape ", shape_.ToString());
  internal::CheckFailed(__FILE__, __LINE__, "N == rank()", message.c_str());
}

void Tensor::CheckNumElements(absl::Span<const int64_t> dims) const {
  const absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
  CASK_CHECK(shape.ok(), std::string(shape.status().message()).c_str());
  if (shape->num_elements() == num_elements()) return;
  const std::string message = absl::StrCat("a view of shape ", shape->ToString(), " on shape ", shape_.ToString());
  internal::CheckFailed(__FILE__, __LINE__, "the number of elements agrees", message.c_str());
}

void Tensor::CheckBitCast(absl::Span<const int64_t> dims, size_t element_size, size_t alignment) const {
  const absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
  CASK_CHECK(shape.ok(), std::string(shape.status().message()).c_str());
  const std::optional<int64_t> wanted = CheckedMul(shape->num_elements(), static_cast<int64_t>(element_size));
  CASK_CHECK(wanted && static_cast<uint64_t>(*wanted) == bytes().size(), "bit_casted_shaped: the bytes differ");
  CASK_CHECK(!buffer_ || buffer_->IsAlignedTo(alignment), "bit_casted_shaped: the data is not aligned for T");
}

void Tensor::FoldDims(int begin, absl::Span<int64_t> dims) const {
  std::fill(dims.begin(), dims.end(), 1);
  const int64_t last = static_cast<int64_t>(dims.size()) - 1;
  for (int axis = 0; axis < rank(); ++axis) {
    const int64_t folded = std::clamp(int64_t{axis} - begin, int64_t{0}, last);
    dims[static_cast<size_t>(folded)] *= dim(axis);  // cannot overflow: part of a product that fits int64_t
  }
}

// ---- Others on the same memory, or a copy ---------------------------------------------------------------------------

RefPtr<TensorBuffer> Tensor::PartOfBuffer(size_t offset_bytes, size_t size_bytes) const {
  if (size_bytes == 0) return nullptr;
  if (size_bytes == buffer_->size_bytes()) return buffer_;
  return TensorBuffer::MakeSubBuffer(buffer_, offset_bytes, size_bytes);
}

absl::StatusOr<Tensor> Tensor::Slice(int64_t start, int64_t limit) const {
  if (rank() == 0) return absl::InvalidArgumentError("Slice: a scalar has no axis 0");
  const int64_t rows = dim(0);
  if (start < 0 || start > limit || limit > rows) {
    return absl::OutOfRangeError(
        absl::StrCat("Slice: rows [", start, ", ", limit, ") are outside shape ", shape_.ToString()));
  }
  if (limit - start == rows) return *this;
  TensorShape shape = shape_;
  CASK_RETURN_IF_ERROR(shape.SetDim(0, limit - start));
  const size_t row_bytes = NumBytes() / static_cast<size_t>(rows);  // rows > limit - start >= 0
  return Tensor(dtype(), shape,
                PartOfBuffer(static_cast<size_t>(start) * row_bytes, static_cast<size_t>(limit - start) * row_bytes));
}

absl::StatusOr<Tensor> Tensor::SubSlice(int64_t index) const {
  if (rank() == 0) return absl::InvalidArgumentError("SubSlice: a scalar has no axis 0");
  if (index < 0 || index >= dim(0)) {
    return absl::OutOfRangeError(absl::StrCat("SubSlice: row ", index, " is outside shape ", shape_.ToString()));
  }
  const size_t row_bytes = NumBytes() / static_cast<size_t>(dim(0));
  TensorShape shape = shape_;
  CASK_RETURN_IF_ERROR(shape.RemoveDim(0));
  return Tensor(dtype(), shape, PartOfBuffer(static_cast<size_t>(index) * row_bytes, row_bytes));
}

absl::StatusOr<Tensor> Tensor::Reshape(const TensorShape& shape) const {
  if (shape.num_elements() != num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Reshape: ", shape_.ToString(), " has ", num_elements(),
                                                   " elements, ", shape.ToString(), " has ", shape.num_elements()));
  }
  return Tensor(dtype(), shape, buffer_);
}

absl::StatusOr<Tensor> Tensor::Reshape(std::initializer_list<int64_t> dims) const {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  return Reshape(shape);
}

absl::StatusOr<Tensor> Tensor::Bitcast(DType dtype, const TensorShape& shape) const {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("Bitcast: ", Describe(this->dtype(), shape_), " as ", Describe(dtype, shape), ": ", why));
  };
  if (!IsFixedSize(this->dtype()) || !IsFixedSize(dtype)) return refused("only dtypes of fixed size have plain bytes");
  if (dtype == DType::kBool && this->dtype() != DType::kBool) {
    return refused("a bool is 0 or 1, so other bytes cannot become bools");
  }
  const std::optional<int64_t> wanted = CheckedMul(shape.num_elements(), static_cast<int64_t>(ElementSize(dtype)));
  if (!wanted || static_cast<size_t>(*wanted) != NumBytes()) return refused("the sizes in bytes differ");
  if (buffer_ && !buffer_->IsAlignedTo(ElementAlignment(dtype))) {
    return refused(absl::StrCat("the address is not a multiple of ", ElementAlignment(dtype)));
  }
  return Tensor(dtype, shape, buffer_);
}

absl::StatusOr<Tensor> Tensor::Clone(const RefPtr<Allocator>& allocator) const {
  if (buffer_) CASK_RETURN_IF_ERROR(buffer_->CheckReadable());
  absl::StatusOr<Tensor> copy = Create(dtype(), shape_, allocator);
  if (!copy.ok() || !buffer_) return copy;
  CASK_RETURN_IF_ERROR(copy->EnsureMutable());
  if (IsObject(dtype())) {
    VisitObjectDType(dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::copy_n(data<T>(), num_elements(), copy->mutable_data<T>());
    });
  } else {
    std::memcpy(copy->buffer_->mutable_data(), buffer_->data(), NumBytes());
  }
  return copy;
}

absl::StatusOr<Tensor> Tensor::LazyClone() const {
  if (!buffer_) return *this;
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> clone, buffer_->LazyClone());
  return Tensor(dtype(), shape_, std::move(clone));
}

}  // namespace tensorcask
