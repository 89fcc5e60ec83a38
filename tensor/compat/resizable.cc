#include "tensorcask/tensor/compat/resizable.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

std::string Describe(DType dtype, const TensorShape& shape) {
  return absl::StrCat(DTypeName(dtype), " ", shape.ToString());
}

absl::StatusOr<size_t> CheckedNumBytes(DType dtype, const TensorShape& shape) {
  const std::optional<int64_t> bytes = CheckedMul(shape.num_elements(), static_cast<int64_t>(ObjectBytes(dtype)));
  if (bytes) return static_cast<size_t>(*bytes);
  return absl::InvalidArgumentError(absl::StrCat(Describe(dtype, shape), ": the size in bytes exceeds 2^63-1"));
}

}  // namespace

// ---- The parts ------------------------------------------------------------------------------------------------------

ResizableTensor& ResizableTensor::operator=(ResizableTensor&& other) noexcept {
  if (this == &other) return *this;
  options_ = other.options_;
  shape_ = std::exchange(other.shape_, TensorShape({0}));
  dtype_ = std::exchange(other.dtype_, DType::kInvalid);
  buffer_ = std::exchange(other.buffer_, nullptr);
  external_ = std::exchange(other.external_, false);
  reserved_ = std::exchange(other.reserved_, false);
  ++dims_sequence_;
  ++other.dims_sequence_;
  return *this;
}

ResizableTensor ResizableTensor::FromTensor(const Tensor& tensor, ResizableOptions options) {
  ResizableTensor result(std::move(options));
  result.SetElements(tensor, tensor.shape());
  return result;
}

void ResizableTensor::SetShape(TensorShape shape) {
  if (shape == shape_) return;
  shape_ = std::move(shape);
  ++dims_sequence_;
}

void ResizableTensor::SetElements(const Tensor& elements, TensorShape shape) {
  FreeMemory();
  dtype_ = elements.dtype();
  buffer_ = elements.buffer();
  SetShape(std::move(shape));
}

void ResizableTensor::FreeMemory() {
  buffer_ = nullptr;
  external_ = false;
  reserved_ = false;
}

bool ResizableTensor::IsMemoryUnshared() const {
  return external_ ? buffer_->IsUnique() && buffer_->root()->IsUnique() : buffer_->IsExclusive();
}

absl::Status ResizableTensor::CheckFullyInitialized() const {
  const char* missing = nullptr;
  if (!dtype_initialized() && !storage_initialized()) missing = "neither dtype nor memory";
  if (!dtype_initialized() && storage_initialized()) missing = "no dtype";
  if (dtype_initialized() && !storage_initialized()) missing = "no memory";
  if (missing != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("a resizable tensor of shape ", shape_.ToString(), " has ", missing, " yet (MutableData)"));
  }
  return buffer_ ? buffer_->CheckReadable() : absl::OkStatus();
}

absl::Status ResizableTensor::CheckData(DType wanted) const {
  if (dtype_initialized() && dtype_ != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("the elements of this tensor are ", DTypeName(dtype_), ", not ", DTypeName(wanted)));
  }
  return CheckFullyInitialized();
}

absl::Status ResizableTensor::ExternalMemoryTooSmall(DType dtype, const TensorShape& shape) const {
  return absl::FailedPreconditionError(absl::StrCat("external memory of ", capacity_bytes(),
                                                    " bytes is too small or misaligned for ", Describe(dtype, shape),
                                                    "; to use other memory, call FreeMemory"));
}

// ---- Elements -------------------------------------------------------------------------------------------------------

absl::StatusOr<void*> ResizableTensor::MutableRawData(DType dtype) {
  const bool same = dtype_initialized() && dtype == dtype_;
  if (!same) CASK_RETURN_IF_ERROR(Tensor::Create(dtype, TensorShape({0})).status());  // there are such elements
  if (!same || !storage_initialized()) {
    bool usable = false;
    if (buffer_ && !same && IsFixedSize(dtype) && IsFixedSize(dtype_) && IsMemoryUnshared()) {
      CASK_ASSIGN_OR_RETURN(const size_t needed, CheckedNumBytes(dtype, shape_));
      usable = needed <= buffer_->size_bytes() && buffer_->IsAlignedTo(ElementSize(dtype));
    }
    if (!usable) {
      if (external_) return ExternalMemoryTooSmall(dtype, shape_);
      CASK_ASSIGN_OR_RETURN(const Tensor fresh, Tensor::Create(dtype, shape_, allocator()));
      SetElements(fresh, shape_);
    }
  }
  if (buffer_) CASK_RETURN_IF_ERROR(buffer_->EnsureMutable());
  dtype_ = dtype;
  return buffer_ ? buffer_->mutable_data() : nullptr;
}

absl::StatusOr<Tensor> ResizableTensor::ToTensor() const {
  CASK_RETURN_IF_ERROR(CheckFullyInitialized());
  if (num_elements() == 0) return Tensor::Create(dtype_, shape_);
  CASK_ASSIGN_OR_RETURN(const size_t num_bytes, CheckedNumBytes(dtype_, shape_));
  if (num_bytes == buffer_->size_bytes()) return Tensor::FromBuffer(dtype_, shape_, buffer_);
  return Tensor::FromBuffer(dtype_, shape_, TensorBuffer::MakeSubBuffer(buffer_, 0, num_bytes));
}

absl::StatusOr<TensorView> ResizableTensor::View() const {
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, ToTensor());
  return TensorView(tensor);
}

// ---- Dims -----------------------------------------------------------------------------------------------------------

absl::StatusOr<bool> ResizableTensor::KeepsMemory(const TensorShape& shape) const {
  if (!dtype_initialized()) return false;  // nor is there any
  CASK_ASSIGN_OR_RETURN(const size_t needed, CheckedNumBytes(dtype_, shape));
  if (!buffer_) return false;
  if (shape.num_elements() == num_elements()) return true;
  const bool large_enough = needed <= capacity_bytes();
  if (external_) return large_enough ? absl::StatusOr<bool>(true) : ExternalMemoryTooSmall(dtype_, shape);
  if (!large_enough || !IsMemoryUnshared()) return false;
  if (reserved_) return true;
  return options_.keep_on_shrink && static_cast<int64_t>(capacity_bytes() - needed) <= options_.max_idle_bytes;
}

absl::Status ResizableTensor::Resize(absl::Span<const int64_t> dims) {
  CASK_ASSIGN_OR_RETURN(TensorShape shape, TensorShape::Create(dims));
  CASK_ASSIGN_OR_RETURN(const bool keeps_memory, KeepsMemory(shape));
  if (!keeps_memory) FreeMemory();
  SetShape(std::move(shape));
  return absl::OkStatus();
}

absl::Status ResizableTensor::ResizeLike(const TensorView& other) {
  if (!other.IsContiguous()) {
    return absl::InvalidArgumentError(absl::StrCat("ResizeLike ", other.ToString(), ": it is not contiguous"));
  }
  return Resize(other.dims());
}

absl::Status ResizableTensor::Reshape(absl::Span<const int64_t> dims) {
  CASK_ASSIGN_OR_RETURN(TensorShape shape, TensorShape::Create(dims));
  if (shape.num_elements() != num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Reshape: ", shape_.ToString(), " has ", num_elements(),
                                                   " elements, ", shape.ToString(), " has ", shape.num_elements()));
  }
  SetShape(std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<TensorShape> ResizableTensor::WithRows(const char* what, int64_t outer) const {
  TensorShape shape = shape_;
  absl::Status status;
  if (rank() == 0) {
    status = absl::InvalidArgumentError("a scalar has no rows");
  } else {
    status = shape.SetDim(0, outer);
  }
  if (status.ok()) return shape;
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", status.message()));
}

absl::Status ResizableTensor::Extend(int64_t num, double growth_percent) {
  if (num < 0) return absl::InvalidArgumentError(absl::StrCat("Extend by ", num, " rows: the number is negative"));
  if (!(growth_percent >= 0) || std::isinf(growth_percent)) {
    return absl::InvalidArgumentError(absl::StrCat("Extend: growth by ", growth_percent, " percent"));
  }
  CASK_RETURN_IF_ERROR(WithRows("Extend", 0).status());  // it is not a scalar
  const std::optional<int64_t> rows = CheckedAdd(dim(0), num);
  if (!rows) {
    return absl::InvalidArgumentError(absl::StrCat("Extend ", shape_.ToString(), " by ", num, " rows: too many"));
  }
  CASK_ASSIGN_OR_RETURN(TensorShape shape, WithRows("Extend", *rows));
  if (!buffer_ || num == 0) return Resize(shape.dims());

  CASK_ASSIGN_OR_RETURN(const size_t needed, CheckedNumBytes(dtype_, shape));
  const bool alone = IsMemoryUnshared();
  if (needed <= capacity_bytes() && (alone || external_)) {
    SetShape(std::move(shape));
    return absl::OkStatus();
  }
  if (external_) return ExternalMemoryTooSmall(dtype_, shape);

  const double growth = std::ceil(static_cast<double>(dim(0)) * growth_percent / 100);
  const std::optional<int64_t> grown =
      growth < 0x1p62 ? CheckedAdd(dim(0), static_cast<int64_t>(growth)) : std::nullopt;
  if (!grown) {
    return absl::InvalidArgumentError(
        absl::StrCat("Extend ", shape_.ToString(), ": growth by ", growth_percent, " percent is too much"));
  }
  CASK_ASSIGN_OR_RETURN(const TensorShape room, WithRows("Extend", std::max(*rows, *grown)));
  CASK_RETURN_IF_ERROR(MoveElements(room, std::move(shape)));
  reserved_ = true;
  return absl::OkStatus();
}

absl::Status ResizableTensor::MoveElements(const TensorShape& room, TensorShape shape) {
  CASK_RETURN_IF_ERROR(buffer_->CheckReadable());
  const bool alone = IsMemoryUnshared();
  CASK_ASSIGN_OR_RETURN(const Tensor fresh, Tensor::Create(dtype_, room, allocator()));
  if (fresh.buffer()) CASK_RETURN_IF_ERROR(fresh.buffer()->EnsureMutable());
  const int64_t count = std::min(num_elements(), fresh.num_elements());
  if (IsObject(dtype_) && count > 0) {
    VisitObjectDType(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      auto* const to = static_cast<T*>(fresh.buffer()->mutable_data());
      if (alone) {
        auto* const from = static_cast<T*>(buffer_->mutable_data());
        std::move(from, from + count, to);
      } else {
        std::copy_n(static_cast<const T*>(buffer_->data()), count, to);
      }
    });
  } else if (count > 0) {
    std::memcpy(fresh.buffer()->mutable_data(), buffer_->data(), static_cast<size_t>(count) * ElementSize(dtype_));
  }
  SetElements(fresh, std::move(shape));
  return absl::OkStatus();
}

absl::Status ResizableTensor::ResizeAndKeep(absl::Span<const int64_t> dims) {
  CASK_ASSIGN_OR_RETURN(TensorShape shape, TensorShape::Create(dims));
  if (!buffer_ || num_elements() == shape.num_elements()) return Resize(dims);
  CASK_ASSIGN_OR_RETURN(const bool keeps, KeepsMemory(shape));
  if (!keeps) return MoveElements(shape, shape);
  SetShape(std::move(shape));
  return absl::OkStatus();
}

absl::Status ResizableTensor::Shrink(int64_t outer) {
  CASK_ASSIGN_OR_RETURN(TensorShape shape, WithRows("Shrink", 0));  // it is not a scalar
  if (outer < 0 || outer > dim(0)) {
    return absl::OutOfRangeError(absl::StrCat("Shrink ", shape_.ToString(), " to ", outer, " rows: it has ", dim(0)));
  }
  CASK_RETURN_IF_ERROR(shape.SetDim(0, outer));
  SetShape(std::move(shape));
  return absl::OkStatus();
}

absl::Status ResizableTensor::ReserveSpace(int64_t outer) {
  CASK_ASSIGN_OR_RETURN(TensorShape room, WithRows("ReserveSpace", outer));
  if (outer < dim(0)) room = shape_;
  if (!dtype_initialized()) {
    return absl::FailedPreconditionError("ReserveSpace: without a dtype the size of an element is not known");
  }
  CASK_ASSIGN_OR_RETURN(const size_t needed, CheckedNumBytes(dtype_, room));
  if (buffer_ && !IsMemoryUnshared()) {
    return absl::FailedPreconditionError("ReserveSpace would discard elements that other tensors share");
  }
  if (needed > capacity_bytes()) {
    if (external_) return ExternalMemoryTooSmall(dtype_, room);
    CASK_ASSIGN_OR_RETURN(const Tensor fresh, Tensor::Create(dtype_, room, allocator()));
    SetElements(fresh, shape_);
  }
  reserved_ = true;
  return absl::OkStatus();
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

absl::Status ResizableTensor::ShareData(const ResizableTensor& source) {
  if (this == &source) return absl::OkStatus();
  if (!source.dtype_initialized()) {
    return absl::FailedPreconditionError("ShareData: the dtype of the source is not initialised");
  }
  if (!source.storage_initialized()) {
    return absl::FailedPreconditionError(
        absl::StrCat("ShareData: the source, ", Describe(source.dtype_, source.shape_), ", has no memory yet"));
  }
  if (source.num_elements() != num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("ShareData: ", source.shape_.ToString(), " has ",
                                                   source.num_elements(), " elements, ", shape_.ToString(), " has ",
                                                   num_elements()));
  }
  dtype_ = source.dtype_;
  buffer_ = source.buffer_;
  external_ = source.external_;
  reserved_ = false;
  return absl::OkStatus();
}

absl::Status ResizableTensor::ShareExternal(DType dtype, void* data, size_t size_bytes, std::function<void()> release) {
  absl::Status wrong;
  if (!IsFixedSize(dtype)) {
    wrong = absl::InvalidArgumentError(
        absl::StrCat("ShareExternal: dtype ", DTypeName(dtype), " has no elements of fixed size"));
  }
  if (wrong.ok() && size_bytes == 0) {
    absl::StatusOr<size_t> needed = CheckedNumBytes(dtype, shape_);
    size_bytes = needed.ok() ? *needed : 0;
    wrong = std::move(needed).status();
  }
  if (!wrong.ok()) {
    if (release) release();
    return wrong;
  }
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::FromExternal(dtype, shape_, data, size_bytes, std::move(release)));
  SetElements(tensor, shape_);
  external_ = buffer_ != nullptr;
  return absl::OkStatus();
}

absl::Status ResizableTensor::CopyFrom(const TensorView& source) {
  if (source.buffer()) CASK_RETURN_IF_ERROR(source.buffer()->CheckReadable());
  TensorShape shape = source.shape();
  bool keeps_memory = false;
  if (source.dtype() == dtype_) {
    CASK_ASSIGN_OR_RETURN(keeps_memory, KeepsMemory(shape));
  } else if (external_) {
    return ExternalMemoryTooSmall(source.dtype(), shape);
  }
  if (!keeps_memory) {
    CASK_ASSIGN_OR_RETURN(const TensorView clone, source.Clone(MemoryFormat::kContiguous, allocator()));
    CASK_ASSIGN_OR_RETURN(const Tensor fresh, clone.ToTensor());
    SetElements(fresh, std::move(shape));
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(TensorView to, TensorView::Create(buffer_, dtype_, Layout::RowMajor(shape)));
  CASK_RETURN_IF_ERROR(Copy(source, &to));
  SetShape(std::move(shape));
  return absl::OkStatus();
}

absl::Status ResizableTensor::CopyFrom(const ResizableTensor& source) {
  if (this == &source) return absl::OkStatus();
  if (!source.dtype_initialized()) {
    FreeMemory();
    dtype_ = DType::kInvalid;
    SetShape(source.shape_);
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(const TensorView view, source.View());
  return CopyFrom(view);
}

absl::StatusOr<ResizableTensor> ResizableTensor::Clone() const {
  ResizableTensor copy(options_);
  CASK_RETURN_IF_ERROR(copy.CopyFrom(*this));
  return copy;
}

}  // namespace tensorcask
