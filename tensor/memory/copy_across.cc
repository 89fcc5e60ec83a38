#include "tensorcask/tensor/memory/copy_across.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

// Null for elements on the host.
DeviceMemory* MemoryOf(const TensorView& view) {
  return internal::IsOnDevice(view) ? view.buffer()->device_memory() : nullptr;
}

DeviceBackend* BackendOf(const DeviceMemory* memory) { return memory == nullptr ? nullptr : memory->backend(); }

// Requires: both views are on one root.
bool RangesOverlap(const TensorView& a, const TensorView& b) {
  const size_t a_begin = a.buffer()->offset_bytes() + a.bounds().begin;
  const size_t a_end = a.buffer()->offset_bytes() + a.bounds().end;
  const size_t b_begin = b.buffer()->offset_bytes() + b.bounds().begin;
  const size_t b_end = b.buffer()->offset_bytes() + b.bounds().end;
  return a_begin < b_end && b_begin < a_end;
}

// Adds a copy between contiguous views to the stream. `from` or *to is on the device of `memory`, or both are.
absl::Status Enqueue(const TensorView& from, TensorView* to, StreamId stream) {
  DeviceMemory* const from_memory = MemoryOf(from);
  DeviceMemory* const to_memory = MemoryOf(*to);
  DeviceMemory& memory = to_memory != nullptr ? *to_memory : *from_memory;
  CopyKind kind = CopyKind::kDeviceToDevice;
  if (from_memory == nullptr) kind = CopyKind::kHostToDevice;
  if (to_memory == nullptr) kind = CopyKind::kDeviceToHost;

  const void* source = nullptr;
  if (from_memory != nullptr) {
    source = from.buffer()->device_data();
    CASK_RETURN_IF_ERROR(from.buffer()->RecordStream(stream));
  } else {
    CASK_RETURN_IF_ERROR(from.buffer()->CheckReadable());
    source = from.buffer()->data();
  }
  void* target = nullptr;
  if (to_memory != nullptr) {
    const void* const before = to->buffer()->device_data();
    CASK_ASSIGN_OR_RETURN(target, to->buffer()->MutableDeviceData());
    CASK_RETURN_IF_ERROR(to->buffer()->RecordStream(stream));
    // A private copy of shared memory is work of the memory's own stream.
    if (target != before) CASK_RETURN_IF_ERROR(to_memory->Order(to_memory->stream(), stream));
  } else {
    CASK_RETURN_IF_ERROR(to->EnsureMutable());
    target = to->buffer()->mutable_data();
  }
  const TensorView::ByteRange source_range = from.bounds();
  CASK_RETURN_IF_ERROR(memory.backend()->Copy(kind, static_cast<char*>(target) + to->bounds().begin,
                                              static_cast<const char*>(source) + source_range.begin,
                                              source_range.end - source_range.begin, stream));
  if (from_memory == nullptr) CASK_RETURN_IF_ERROR(memory.KeepUntilDone(from.buffer()->HoldMemory(), stream));
  if (to_memory == nullptr) CASK_RETURN_IF_ERROR(memory.KeepUntilDone(to->buffer()->HoldMemory(), stream));
  return absl::OkStatus();
}

// Through memory of the host, after the work of the views' own streams.
absl::Status CopyThroughHost(const TensorView& from, TensorView* to) {
  CASK_ASSIGN_OR_RETURN(const TensorView on_host, internal::InHostMemory(from));
  return internal::IsOnDevice(*to) ? internal::CopyFromHost(on_host, to) : Copy(on_host, to);
}

}  // namespace

absl::Status CopyAcross(const TensorView& from, TensorView* to, StreamId stream) {
  DeviceMemory* const from_memory = MemoryOf(from);
  DeviceMemory* const to_memory = MemoryOf(*to);
  if (from_memory == nullptr && to_memory == nullptr) return Copy(from, to);
  if (from.dtype() != to->dtype() || from.dims() != to->dims()) {
    return absl::InvalidArgumentError(
        absl::StrCat("CopyAcross of ", from.ToString(), " to ", to->ToString(), ": dtypes and dims must be equal"));
  }
  CASK_RETURN_IF_ERROR(to->CheckWritable());
  if (from_memory != nullptr && to_memory != nullptr && from.SharesBufferWith(*to) && RangesOverlap(from, *to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("CopyAcross of ", from.ToString(), " to ", to->ToString(), ": they overlap in memory"));
  }
  const bool two_devices =
      from_memory != nullptr && to_memory != nullptr && BackendOf(from_memory) != BackendOf(to_memory);
  if (from.IsContiguous() && to->IsContiguous() && !two_devices) return Enqueue(from, to, stream);
  // `stream` belongs to the device that elements are copied to, or if that is the host, from.
  if (to_memory != nullptr) CASK_RETURN_IF_ERROR(to_memory->Order(stream, to_memory->stream()));
  if (from_memory != nullptr && !two_devices) CASK_RETURN_IF_ERROR(from_memory->Order(stream, from_memory->stream()));
  return CopyThroughHost(from, to);
}

absl::StatusOr<TensorView> To(const TensorView& view, const RefPtr<Allocator>& allocator) {
  if (view.num_elements() == 0 || BackendOf(MemoryOf(view)) == BackendOf(allocator->device_memory())) return view;
  return internal::CloneAcross(view, allocator);
}

}  // namespace tensorcask
