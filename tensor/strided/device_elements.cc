#include "tensorcask/tensor/strided/device_elements.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {
namespace {

// The layout over a buffer that begins with the lowest element.
absl::StatusOr<Layout> LayoutOfRange(const Layout& layout) {
  return Layout::Create(layout.dims(), layout.strides(), layout.offset() - layout.bounds().begin);
}

size_t RangeBytes(const TensorView& view) {
  const TensorView::ByteRange range = view.bounds();
  return range.end - range.begin;
}

// Copies the bytes between the ends of a view on a device to `to`.
absl::Status ReadRange(const TensorView& view, char* to) {
  const char* const from = static_cast<const char*>(view.buffer()->device_data()) + view.bounds().begin;
  return ReadToHost(*view.buffer()->device_memory(), from, absl::MakeSpan(to, RangeBytes(view)));
}

absl::Status WriteRange(absl::string_view bytes, TensorView* to) {
  CASK_ASSIGN_OR_RETURN(void* const data, to->buffer()->MutableDeviceData());
  const char* next = bytes.data();
  const auto fill = [&next](absl::Span<char> piece) {
    std::memcpy(piece.data(), next, piece.size());
    next += piece.size();
    return absl::OkStatus();
  };
  return to->buffer()->device_memory()->Write(static_cast<char*>(data) + to->bounds().begin, bytes.size(), fill);
}

// A copy of a view without gaps on the device of `allocator`.
absl::StatusOr<TensorView> CloneWithin(const TensorView& view, const RefPtr<Allocator>& allocator) {
  DeviceMemory& memory = *allocator->device_memory();
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, TensorBuffer::Allocate(RangeBytes(view), allocator));
  CASK_ASSIGN_OR_RETURN(void* const to, copy->MutableDeviceData());
  const char* const from = static_cast<const char*>(view.buffer()->device_data()) + view.bounds().begin;
  const int64_t stream = view.buffer()->device_memory()->stream();
  CASK_RETURN_IF_ERROR(memory.Order(stream, memory.stream()));
  CASK_RETURN_IF_ERROR(view.buffer()->RecordStream(memory.stream()));
  CASK_RETURN_IF_ERROR(memory.CopyWithin(to, from, RangeBytes(view)));
  CASK_RETURN_IF_ERROR(memory.Order(memory.stream(), stream));  // later work may change the view
  CASK_ASSIGN_OR_RETURN(Layout layout, LayoutOfRange(view.layout()));
  return TensorView::Create(std::move(copy), view.dtype(), std::move(layout));
}

}  // namespace

absl::Status ReadToHost(DeviceMemory& memory, const void* from, absl::Span<char> to) {
  char* next = to.data();
  return memory.Read(from, to.size(), [&next](absl::string_view piece) {
    next = std::copy(piece.begin(), piece.end(), next);
    return absl::OkStatus();
  });
}

absl::StatusOr<TensorView> InHostMemory(const TensorView& view) {
  if (!IsOnDevice(view)) return view;
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, TensorBuffer::Allocate(RangeBytes(view)));
  CASK_RETURN_IF_ERROR(ReadRange(view, static_cast<char*>(copy->mutable_data())));
  CASK_ASSIGN_OR_RETURN(Layout layout, LayoutOfRange(view.layout()));
  return TensorView::Create(std::move(copy), view.dtype(), std::move(layout));
}

absl::StatusOr<HostCopy> BeginHostCopy(const TensorView& view) {
  CASK_ASSIGN_OR_RETURN(Layout layout, LayoutOfRange(view.layout()));
  const char* const from = static_cast<const char*>(view.buffer()->device_data()) + view.bounds().begin;
  HostCopy copy;
  CASK_ASSIGN_OR_RETURN(copy.pending, view.buffer()->device_memory()->BeginRead(from, RangeBytes(view)));
  CASK_ASSIGN_OR_RETURN(copy.view, TensorView::Create(copy.pending->buffer(), view.dtype(), std::move(layout)));
  return copy;
}

absl::Status CopyFromHost(const TensorView& from, TensorView* to) {
  if (!IsOnDevice(*to)) return Copy(from, to);
  if (from.dtype() != to->dtype() || from.dims() != to->dims()) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy of ", from.ToString(), " to ", to->ToString(), ": dtypes and dims must be equal"));
  }
  CASK_RETURN_IF_ERROR(to->CheckWritable());
  if (to->IsContiguous()) {
    CASK_ASSIGN_OR_RETURN(const TensorView row_major, from.Contiguous());
    return WriteRange(row_major.bytes(), to);
  }
  TensorView range;
  if (to->layout().IsNonOverlappingAndDense()) {  // every byte of the range is written
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> memory, TensorBuffer::Allocate(RangeBytes(*to)));
    CASK_ASSIGN_OR_RETURN(Layout layout, LayoutOfRange(to->layout()));
    CASK_ASSIGN_OR_RETURN(range, TensorView::Create(std::move(memory), to->dtype(), std::move(layout)));
  } else {
    CASK_ASSIGN_OR_RETURN(range, InHostMemory(*to));
  }
  CASK_RETURN_IF_ERROR(Copy(from, &range));
  return WriteRange(range.buffer()->bytes(), to);
}

absl::Status FillThroughHost(TensorView* out, absl::FunctionRef<absl::Status(TensorView* target)> fill) {
  if (!IsOnDevice(*out)) return fill(out);
  CASK_ASSIGN_OR_RETURN(const Tensor memory, Tensor::Create(out->dtype(), out->shape()));
  TensorView on_host = memory;
  CASK_RETURN_IF_ERROR(fill(&on_host));
  return CopyFromHost(on_host, out);
}

absl::Status CopyToHost(const TensorView& from, TensorView* to) {
  if (!IsOnDevice(from) || !from.IsContiguous() || !to->IsContiguous() || from.dims() != to->dims() ||
      from.dtype() != to->dtype()) {
    CASK_ASSIGN_OR_RETURN(const TensorView on_host, InHostMemory(from));
    return Copy(on_host, to);
  }
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  return ReadRange(from, static_cast<char*>(to->buffer()->mutable_data()) + to->bounds().begin);
}

absl::StatusOr<TensorView> CloneAcross(const TensorView& view, const RefPtr<Allocator>& allocator) {
  if (view.num_elements() == 0) return view;
  DeviceMemory* const memory = allocator->device_memory();
  CASK_ASSIGN_OR_RETURN(Layout layout, view.layout().Dense(MemoryFormat::kPreserve));
  const bool is_dense = view.strides() == layout.strides();
  if (memory != nullptr && IsOnDevice(view) && view.buffer()->device_memory()->backend() == memory->backend() &&
      is_dense) {
    return CloneWithin(view, allocator);
  }
  CASK_ASSIGN_OR_RETURN(const TensorView on_host, InHostMemory(view));
  if (memory == nullptr) {
    const bool is_done = IsOnDevice(view) && is_dense && allocator == CpuAllocator::Default();
    return is_done ? on_host : on_host.Clone(MemoryFormat::kPreserve, allocator);
  }
  CASK_ASSIGN_OR_RETURN(const Tensor elements, Tensor::Create(view.dtype(), view.shape(), allocator));
  CASK_ASSIGN_OR_RETURN(TensorView copy, TensorView::Create(elements.buffer(), view.dtype(), std::move(layout)));
  CASK_RETURN_IF_ERROR(CopyFromHost(on_host, &copy));
  return copy;
}

}  // namespace tensorcask::internal
