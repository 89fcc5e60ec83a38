// Copies elements between memory of a device and the host, for code that stores and loads tensors.
//
//   CASK_ASSIGN_OR_RETURN(const TensorView on_host, InHostMemory(view));    // the same dims and strides
//   CASK_RETURN_IF_ERROR(CopyFromHost(on_host, &view));
//
// Devices copy ranges of bytes. Of a view that is not contiguous, the whole range between its lowest and highest
// element is copied.

#ifndef TENSORCASK_TENSOR_STRIDED_DEVICE_ELEMENTS_H_
#define TENSORCASK_TENSOR_STRIDED_DEVICE_ELEMENTS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// True if the elements are in memory of a device. False for a view without elements.
inline bool IsOnDevice(const TensorView& view) {
  return view.num_elements() > 0 && view.buffer()->kind() == TensorBuffer::Kind::kDevice;
}

// Copies to.size() bytes from the address `from` on the device.
absl::Status ReadToHost(DeviceMemory& memory, const void* from, absl::Span<char> to);

// `view` itself, or if it is on a device a copy in memory of the host, which CpuAllocator::Default() gives. The copy
// has the same strides, and a buffer that holds the elements and what is between them.
// Errors: ResourceExhausted; errors of the device.
absl::StatusOr<TensorView> InHostMemory(const TensorView& view);

// A copy to the host that is under way, in memory that the device can copy to while the host works.
struct HostCopy {
  TensorView view;  // as InHostMemory gives it; its elements are read after pending->Wait()
  RefPtr<PendingRead> pending;
};
// Requires: IsOnDevice(view). Work that is added to the stream of the view's memory afterwards may change the view.
absl::StatusOr<HostCopy> BeginHostCopy(const TensorView& view);

// Assigns the elements of `from`, which is on the host, to the elements of *to with equal index, on a device or the
// host. If there are bytes between elements of *to on a device, these are read and written back.
// Errors: those of Copy (strided/copy.h); ResourceExhausted; errors of the device.
absl::Status CopyFromHost(const TensorView& from, TensorView* to);

// Calls fill(&target) for *out itself, or if *out is on a device for memory of the host with its dtype and dims,
// row-major, whose elements are then copied to *out.
// Errors: the error of fill; those of CopyFromHost.
absl::Status FillThroughHost(TensorView* out, absl::FunctionRef<absl::Status(TensorView* target)> fill);

// Assigns the elements of `from`, on a device or the host, to the elements of *to, on the host, with equal index.
// Errors: those of Copy (strided/copy.h); ResourceExhausted; errors of the device.
absl::Status CopyToHost(const TensorView& from, TensorView* to);

// A copy in memory of `allocator`, dense, in the order of MemoryFormat::kPreserve. Both may be on the host or on
// devices. If both are on one device and `view` is in this order, the copy is work of the stream of the allocator's
// memory, and later work of the view's stream waits for it; other copies have finished. A view without elements is
// returned itself.
// Errors: InvalidArgument for objects on a device; ResourceExhausted; errors of the devices.
absl::StatusOr<TensorView> CloneAcross(const TensorView& view, const RefPtr<Allocator>& allocator);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_DEVICE_ELEMENTS_H_
