#include "tensorcask/tensor/strided/view.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/object_elements.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/maybe_owned.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

std::string Describe(DType dtype, const Layout& layout) {
  return absl::StrCat(DTypeName(dtype), " ", layout.ToString());
}

// Checks that `buffer` holds the elements of the layout. Every view is checked here, except views that only rearrange
// checked elements.
absl::Status CheckFits(const TensorBuffer* buffer, DType dtype, const Layout& layout) {
  const size_t object_bytes = ObjectBytes(dtype);
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("a view ", Describe(dtype, layout), ": ", why));
  };
  if (object_bytes == 0) return refused("no tensor has this dtype");
  if (layout.num_elements() == 0) return absl::OkStatus();
  if (buffer == nullptr) return refused("its buffer is null");
  if (const char* const fault = internal::FaultOfElements(dtype, *buffer); fault != nullptr) {
    return refused(absl::StrCat("of its buffer: ", fault));
  }
  const Layout::Range range = layout.bounds();
  if (static_cast<uint64_t>(range.end) > buffer->size_bytes() / object_bytes) {
    return refused(absl::StrCat("the last element is number ", range.end - 1, ", of ", object_bytes,
                                " bytes each; the buffer has ", buffer->size_bytes(), " bytes"));
  }
  if (!buffer->IsAlignedTo(ElementAlignment(dtype))) {
    return refused(absl::StrCat("the address of its buffer is not a multiple of ", ElementAlignment(dtype)));
  }
  return absl::OkStatus();
}

// The real dtype of a complex one, and the reverse; kInvalid for other dtypes.
DType RealOf(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat32;
  return dtype == DType::kComplex128 ? DType::kFloat64 : DType::kInvalid;
}
DType ComplexOf(DType dtype) {
  if (dtype == DType::kFloat32) return DType::kComplex64;
  return dtype == DType::kFloat64 ? DType::kComplex128 : DType::kInvalid;
}

}  // namespace

absl::StatusOr<TensorView> TensorView::Create(RefPtr<TensorBuffer> buffer, DType dtype, Layout layout) {
  CASK_RETURN_IF_ERROR(CheckFits(buffer.get(), dtype, layout));
  return TensorView(Unchecked(), std::move(buffer), std::move(layout), dtype);
}

// ---- What it is -----------------------------------------------------------------------------------------------------

TensorView::ByteRange TensorView::bounds() const {
  const Layout::Range range = layout_.bounds();
  const size_t object_bytes = ObjectBytes(dtype_);
  return {static_cast<size_t>(range.begin) * object_bytes, static_cast<size_t>(range.end) * object_bytes};
}

std::string TensorView::ToString() const { return Describe(dtype_, layout_); }

std::string SummarizeValue(const TensorView& view, const SummaryOptions& options) {
  const absl::Status readable = view.buffer() ? view.buffer()->CheckReadable() : absl::OkStatus();
  if (!readable.ok()) return absl::StrCat("<", absl::string_view(readable.message()), ">");
  const void* const base = view.buffer() ? view.buffer()->data() : nullptr;
  return internal::SummarizeElements({view.dtype(), base, view.dims(), view.strides(), view.offset()}, options);
}

std::ostream& operator<<(std::ostream& out, const TensorView& view) {
  return out << view.ToString() << ": " << SummarizeValue(view);
}

// ---- Elements -------------------------------------------------------------------------------------------------------

void TensorView::WrongDType(DType wanted) const {
  const std::string message =
      absl::StrCat("the elements of this view are ", DTypeName(dtype_), ", not ", DTypeName(wanted));
  internal::CheckFailed(__FILE__, __LINE__, "kDTypeOf<T> == dtype()", message.c_str());
}

absl::string_view TensorView::bytes() const {
  CASK_CHECK(IsContiguous() && IsFixedSize(dtype_), "TensorView::bytes: the elements are not one run of bytes");
  if (num_elements() == 0) return {};
  const ByteRange range = bounds();
  return buffer_->bytes().substr(range.begin, range.end - range.begin);
}

absl::Status TensorView::CheckWritable() const {
  if (!layout_.HasInternalOverlap()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the view ", ToString(), " has several indices for one element, so it cannot be written"));
}

// ---- Views ----------------------------------------------------------------------------------------------------------

absl::StatusOr<std::vector<TensorView>> TensorView::Over(absl::StatusOr<std::vector<Layout>> layouts) const {
  if (!layouts.ok()) return std::move(layouts).status();
  std::vector<TensorView> views;
  views.reserve(layouts->size());
  for (Layout& layout : *layouts) views.emplace_back(Unchecked(), buffer_, std::move(layout), dtype_);
  return views;
}

absl::StatusOr<TensorView> TensorView::AsStrided(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
                                                 std::optional<int64_t> offset) const {
  return Edited([&](Layout& layout) -> absl::Status {
    CASK_RETURN_IF_ERROR(layout.EditAsStrided(dims, strides, offset.value_or(layout.offset_)));
    return CheckFits(buffer_.get(), dtype_, layout);
  });
}

absl::StatusOr<TensorView> TensorView::ViewAs(DType dtype, absl::StatusOr<Layout> layout) const {
  if (!layout.ok()) return std::move(layout).status();
  return Create(buffer_, dtype, *std::move(layout));
}

absl::StatusOr<TensorView> TensorView::Bitcast(DType dtype) const {
  const size_t from_bytes = element_size();
  const size_t to_bytes = ElementSize(dtype);
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("Bitcast of ", ToString(), " to ", DTypeName(dtype), ": ", why));
  };
  if (from_bytes == 0 || to_bytes == 0) return refused("only dtypes of fixed size have plain bytes");
  if (dtype == DType::kBool && dtype_ != DType::kBool)
    return refused("a bool is 0 or 1, so other bytes cannot become bools");
  if (buffer_ && num_elements() > 0 && !buffer_->IsAlignedTo(to_bytes) &&
      !buffer_->IsAlignedTo(ElementAlignment(dtype))) {
    return refused(absl::StrCat("the address of its buffer is not a multiple of ", ElementAlignment(dtype)));
  }
  absl::StatusOr<TensorView> result = Edited([&](Layout& layout) {  // over the same bytes, so they fit
    return layout.EditBitcast(static_cast<int64_t>(from_bytes), static_cast<int64_t>(to_bytes));
  });
  if (result.ok()) result->dtype_ = dtype;
  return result;
}

absl::StatusOr<TensorView> TensorView::ViewAsReal() const {
  const DType real = RealOf(dtype_);
  if (real != DType::kInvalid) return ViewAs(real, layout_.ViewAsReal());
  return absl::InvalidArgumentError(absl::StrCat("ViewAsReal of ", ToString(), ": the dtype is not complex"));
}

absl::StatusOr<TensorView> TensorView::ViewAsComplex() const {
  const DType complex = ComplexOf(dtype_);
  if (complex != DType::kInvalid) return ViewAs(complex, layout_.ViewAsComplex());
  return absl::InvalidArgumentError(
      absl::StrCat("ViewAsComplex of ", ToString(), ": the dtype is neither float32 nor float64"));
}

// ---- Copies where they must be --------------------------------------------------------------------------------------

absl::StatusOr<TensorView> TensorView::Clone(MemoryFormat format, const RefPtr<Allocator>& allocator) const {
  if (layout_.IsDenseRowMajor(format)) {
    absl::StatusOr<Tensor> copy = CloneRowMajor(allocator);
    if (!copy.ok()) return std::move(copy).status();
    return absl::StatusOr<TensorView>(internal::kInPlace, *std::move(copy));
  }
  if (buffer_) CASK_RETURN_IF_ERROR(buffer_->CheckReadable());
  CASK_ASSIGN_OR_RETURN(Layout layout, layout_.Dense(format));
  // The memory of a dense tensor of these elements has the right size for any memory format.
  CASK_ASSIGN_OR_RETURN(Tensor memory, Tensor::Create(dtype_, shape(), allocator));
  TensorView copy(Unchecked(), std::move(memory).TakeBuffer(), std::move(layout), dtype_);
  if (num_elements() > 0) {
    CASK_RETURN_IF_ERROR(copy.buffer_->EnsureMutable());
    internal::CopyStrided(dtype_, buffer_->data(), layout_, copy.buffer_->mutable_data(), copy.layout_);
  }
  return copy;
}

absl::StatusOr<Tensor> TensorView::CloneRowMajor(const RefPtr<Allocator>& allocator) const {
  if (buffer_) CASK_RETURN_IF_ERROR(buffer_->CheckReadable());
  absl::StatusOr<Tensor> copy = Tensor::Create(dtype_, shape(), allocator);
  if (!copy.ok() || num_elements() == 0) return copy;
  CASK_RETURN_IF_ERROR(copy->buffer()->EnsureMutable());
  internal::CopyToRowMajor(dtype_, buffer_->data(), layout_, copy->buffer()->mutable_data());
  return copy;
}

absl::StatusOr<TensorView> TensorView::LazyClone() const {
  if (num_elements() == 0) return Alias();
  const ByteRange range = bounds();
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> clone, buffer_->LazyClone(range.begin, range.end - range.begin));
  TensorView view(Unchecked(), std::move(clone), layout_, dtype_);
  view.layout_.offset_ -= layout_.bounds().begin;
  return view;
}

absl::StatusOr<TensorView> TensorView::Contiguous(MemoryFormat format) const {
  if (layout_.IsContiguous(format)) return Alias();
  return Clone(format, copy_allocator());
}

absl::StatusOr<MaybeOwned<TensorView>> TensorView::ExpectContiguous() const& {
  if (layout_.IsContiguous()) return MaybeOwned<TensorView>::Borrow(*this);
  CASK_ASSIGN_OR_RETURN(TensorView copy, Clone(MemoryFormat::kContiguous, copy_allocator()));
  return MaybeOwned<TensorView>::Own(std::move(copy));
}

absl::StatusOr<TensorView> TensorView::ReshapeOrCopy(absl::Span<const int64_t> dims) const {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, layout_.InferShape(dims));
  absl::StatusOr<TensorView> view = Reshape(shape.dims());
  if (view.ok()) return view;
  CASK_ASSIGN_OR_RETURN(const TensorView copy, Clone(MemoryFormat::kContiguous, copy_allocator()));
  return copy.Reshape(shape.dims());
}

absl::StatusOr<TensorView> TensorView::FlattenOrCopy(int64_t first, int64_t last) const {
  // Any axes of a row-major layout can be flattened, so this error is final.
  CASK_ASSIGN_OR_RETURN(const Layout flat, Layout::RowMajor(shape()).Flatten(first, last));
  return ReshapeOrCopy(flat.dims());
}

absl::StatusOr<Tensor> TensorView::ToTensor() const {
  if (!IsContiguous()) return CloneRowMajor(copy_allocator());
  if (num_elements() == 0) return Tensor::Create(dtype_, shape());
  const size_t object_bytes = ObjectBytes(dtype_);
  const size_t offset_bytes = static_cast<size_t>(offset()) * object_bytes;
  const size_t bytes = static_cast<size_t>(num_elements()) * object_bytes;
  if (offset_bytes == 0 && bytes == buffer_->size_bytes()) return Tensor::FromBuffer(dtype_, shape(), buffer_);
  return Tensor::FromBuffer(dtype_, shape(), TensorBuffer::MakeSubBuffer(buffer_, offset_bytes, bytes));
}

// ---- This handle's own geometry -------------------------------------------------------------------------------------

absl::Status TensorView::Assign(absl::StatusOr<Layout> layout) {
  if (frozen_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the view ", ToString(), " is frozen: its geometry cannot change"));
  }
  if (!layout.ok()) return std::move(layout).status();
  CASK_RETURN_IF_ERROR(CheckFits(buffer_.get(), dtype_, *layout));
  layout_ = *std::move(layout);
  return absl::OkStatus();
}

absl::Status TensorView::SetDimsAndStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides) {
  return Assign(layout_.SetDimsAndStrides(dims, strides));
}

absl::Status TensorView::SetDim(int axis, int64_t dim) { return Assign(layout_.SetDim(axis, dim)); }

absl::Status TensorView::SetStride(int axis, int64_t stride) { return Assign(layout_.SetStride(axis, stride)); }

absl::Status TensorView::SetOffset(int64_t offset) { return Assign(Layout::Create(dims(), strides(), offset)); }

absl::Status TensorView::ResizeDim(int rank) { return Assign(layout_.ResizeDim(rank)); }

}  // namespace tensorcask
