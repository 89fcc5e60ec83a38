// Copies tensors between devices and the host.
//
//   RefPtr<CachingAllocator> cache = CachingAllocator::Make(backend);
//   CASK_ASSIGN_OR_RETURN(TensorView weights, To(host_weights, cache));                 // waits: a copy on the device
//   CASK_RETURN_IF_ERROR(CopyAcross(next_batch, &batch, stream));                       // work of `stream`
//   CASK_ASSIGN_OR_RETURN(TensorView back, To(weights, CpuAllocator::Default()));       // a copy on the host
//
// Devices copy ranges of bytes. Views that are not contiguous pass through dense memory of the host; the function
// then waits for the copy.

#ifndef TENSORCASK_TENSOR_MEMORY_COPY_ACROSS_H_
#define TENSORCASK_TENSOR_MEMORY_COPY_ACROSS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Assigns each element of `from` to the element of *to with equal index, after the work that is on `stream` of the
// device. Views of the host alone are copied as by Copy (strided/copy.h).
//
// If both views are contiguous and at most one device is involved, the copy is added to `stream`, and the function may
// return before it has finished. The memory of both views is kept until then; the caller must not write to `from`, nor
// access *to, until the work of `stream` is done. With PinnedAllocator memory on the host side, the device copies
// without the processor. In all other cases the function waits for the copy. If there are bytes between the elements of
// *to on a device, they are read and written back.
//
// Errors: InvalidArgument if dtypes or dims differ, if two indices of *to name one element, if two views on a device
// overlap, or for a stream that does not exist; ResourceExhausted; those of TensorBuffer::EnsureMutable; errors of the
// devices.
absl::Status CopyAcross(const TensorView& from, TensorView* to, StreamId stream = kDefaultStream);

// `view` itself if it is where `allocator` allocates (on the host, or on the same device). Otherwise a finished copy
// in memory of `allocator`, in the order of MemoryFormat::kPreserve.
// Errors: InvalidArgument for strings and other objects; ResourceExhausted, with the numbers of the allocator; errors
// of the devices.
absl::StatusOr<TensorView> To(const TensorView& view, const RefPtr<Allocator>& allocator);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_COPY_ACROSS_H_
