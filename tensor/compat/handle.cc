#include "tensorcask/tensor/compat/handle.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/compat/axis_index.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

// kContiguous stands for every order without a name, so it always fits.
bool FormatFits(MemoryFormat format, const Layout& layout) {
  return format == MemoryFormat::kContiguous || layout.IsContiguous(format);
}

absl::Status CheckMetadata(const TensorView& view, const TensorMetadata& metadata) {
  CASK_RETURN_IF_ERROR(metadata.Validate(view.dtype()));
  if (FormatFits(metadata.memory_format, view.layout())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("metadata of tensor ", Quoted(metadata.name), ": ", view.ToString(),
                                                 " is not ", MemoryFormatName(metadata.memory_format)));
}

// True if only the handles on the object that has `view` would see a write to it.
bool IsAlone(const TensorView& view) {
  return !view.buffer() || (view.buffer()->IsExclusive() && !view.layout().HasInternalOverlap());
}

}  // namespace

void TensorObject::ReleaseResources() {
  view_ = TensorView();
  metadata_ = TensorMetadata();
}

// ---- What it is -----------------------------------------------------------------------------------------------------

absl::Status TensorHandle::CheckDefined(absl::string_view operation) const {
  if (defined()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(operation, ": the tensor handle is undefined"));
}

absl::Status TensorHandle::CheckChangeable(absl::string_view operation) const {
  CASK_RETURN_IF_ERROR(CheckDefined(operation));
  if (!object_->frozen_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(operation, ": the tensor ", Quoted(object_->metadata_.name), ", ",
                                                    object_->view_.ToString(),
                                                    ", is frozen: its geometry, buffer and metadata cannot change"));
}

absl::StatusOr<TensorView> TensorHandle::view() const {
  CASK_RETURN_IF_ERROR(CheckDefined("view"));
  return object_->view_;
}

absl::StatusOr<TensorMetadata> TensorHandle::metadata() const {
  CASK_RETURN_IF_ERROR(CheckDefined("metadata"));
  return object_->metadata_;
}

absl::StatusOr<DType> TensorHandle::dtype() const {
  CASK_RETURN_IF_ERROR(CheckDefined("dtype"));
  return object_->view_.dtype();
}

absl::StatusOr<TensorShape> TensorHandle::shape() const {
  CASK_RETURN_IF_ERROR(CheckDefined("shape"));
  return object_->view_.shape();
}

absl::StatusOr<bool> TensorHandle::is_frozen() const {
  CASK_RETURN_IF_ERROR(CheckDefined("is_frozen"));
  return object_->frozen_;
}

bool TensorHandle::SharesBufferWith(const TensorHandle& other) const {
  return defined() && other.defined() && object_->view_.SharesBufferWith(other.object_->view_);
}

std::string TensorHandle::ToString() const {
  if (!defined()) return "undefined";
  return absl::StrCat(object_->view_.ToString(), object_->frozen_ ? " frozen; " : "; ", object_->metadata_.ToString());
}

std::ostream& operator<<(std::ostream& out, const TensorHandle& handle) { return out << handle.ToString(); }

// ---- New objects ----------------------------------------------------------------------------------------------------

absl::StatusOr<TensorHandle> TensorHandle::Create(const TensorView& view, TensorMetadata metadata) {
  CASK_RETURN_IF_ERROR(CheckMetadata(view, metadata));
  return TensorHandle(MakeRef<TensorObject>(view.Alias(), std::move(metadata)));
}

TensorHandle TensorHandle::Derived(const TensorView& view) const {
  const TensorMetadata& original = object_->metadata_;
  TensorMetadata metadata;
  metadata.device = original.device;
  metadata.requires_grad = original.requires_grad && (IsFloating(view.dtype()) || IsComplex(view.dtype()));
  if (FormatFits(original.memory_format, view.layout())) metadata.memory_format = original.memory_format;
  return TensorHandle(MakeRef<TensorObject>(view.Alias(), std::move(metadata)));
}

absl::StatusOr<TensorHandle> TensorHandle::Alias(bool frozen) const {
  CASK_RETURN_IF_ERROR(CheckDefined("Alias"));
  TensorHandle alias(MakeRef<TensorObject>(object_->view_.Alias(), object_->metadata_));
  alias.object_->frozen_ = frozen;
  return alias;
}

// ---- Changes of the object ------------------------------------------------------------------------------------------

void TensorHandle::Become(TensorView view) {
  object_->view_ = std::move(view);
  if (!FormatFits(object_->metadata_.memory_format, object_->view_.layout())) {
    object_->metadata_.memory_format = MemoryFormat::kContiguous;
  }
}

template <typename Edit>
absl::Status TensorHandle::ChangeGeometry(absl::string_view operation, Edit&& edit) {
  CASK_RETURN_IF_ERROR(CheckChangeable(operation));
  TensorView view = object_->view_;
  CASK_RETURN_IF_ERROR(edit(view));
  Become(std::move(view));
  return absl::OkStatus();
}

absl::Status TensorHandle::Freeze() {
  CASK_RETURN_IF_ERROR(CheckDefined("Freeze"));
  object_->frozen_ = true;
  return absl::OkStatus();
}

absl::Status TensorHandle::SetMetadata(TensorMetadata metadata) {
  CASK_RETURN_IF_ERROR(CheckChangeable("SetMetadata"));
  CASK_RETURN_IF_ERROR(CheckMetadata(object_->view_, metadata));
  object_->metadata_ = std::move(metadata);
  return absl::OkStatus();
}

absl::Status TensorHandle::SetDimsAndStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides) {
  return ChangeGeometry("SetDimsAndStrides", [&](TensorView& view) { return view.SetDimsAndStrides(dims, strides); });
}

absl::Status TensorHandle::SetOffset(int64_t offset) {
  return ChangeGeometry("SetOffset", [&](TensorView& view) { return view.SetOffset(offset); });
}

absl::Status TensorHandle::ResizeDim(int rank) {
  return ChangeGeometry("ResizeDim", [&](TensorView& view) { return view.ResizeDim(rank); });
}

absl::Status TensorHandle::Replace(const TensorView& view) {
  CASK_RETURN_IF_ERROR(CheckChangeable("Replace"));
  CASK_RETURN_IF_ERROR(object_->metadata_.Validate(view.dtype()));
  Become(view.Alias());
  return absl::OkStatus();
}

absl::Status TensorHandle::AdoptMetadataFrom(const TensorHandle& source) {
  CASK_RETURN_IF_ERROR(CheckChangeable("AdoptMetadataFrom"));
  CASK_RETURN_IF_ERROR(source.CheckDefined("AdoptMetadataFrom, source"));
  object_->view_ = source.object_->view_;
  object_->metadata_ = source.object_->metadata_;
  return absl::OkStatus();
}

// ---- Elements -------------------------------------------------------------------------------------------------------

absl::Status TensorHandle::Assign(absl::Span<const AxisIndex> index, const TensorView& value, AssignMode mode) {
  CASK_RETURN_IF_ERROR(CheckDefined("Assign"));
  // Asked before a part of the view is another reference to the buffer.
  const bool in_place = mode == AssignMode::kWriteThrough || IsAlone(object_->view_);
  CASK_ASSIGN_OR_RETURN(TensorView part, IndexView(object_->view_, index));
  CASK_ASSIGN_OR_RETURN(const TensorView values, value.BroadcastTo(part.shape()));
  if (in_place) return Copy(values, &part);

  CASK_RETURN_IF_ERROR(CheckChangeable("Assign, to a new buffer"));
  CASK_ASSIGN_OR_RETURN(TensorView fresh, object_->view_.Clone());
  CASK_ASSIGN_OR_RETURN(part, IndexView(fresh, index));
  CASK_RETURN_IF_ERROR(Copy(values, &part));
  Become(std::move(fresh));
  return absl::OkStatus();
}

}  // namespace tensorcask
