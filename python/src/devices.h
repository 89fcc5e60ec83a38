// Memory of GPUs: tensors that PyTorch, JAX and CuPy share with the library through DLPack.
//
//   if (const std::optional<Device> gpu = GpuOf(array)) {
//     const RefPtr<Allocator> allocator = Take(GpuAllocator(*gpu));
//     capsule = array.attr("__dlpack__")(nb::arg("stream") = StreamNumber(allocator));   // orders its work before ours
//   }
//
// The library copies on one stream of its own for each GPU. All of this is made at first use, and never destroyed.

#ifndef TENSORCASK_PYTHON_SRC_DEVICES_H_
#define TENSORCASK_PYTHON_SRC_DEVICES_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::python {

// The GPU of NVIDIA that has the memory of an array with __dlpack_device__; empty for all other memory.
std::optional<Device> GpuOf(nanobind::handle array);

// Memory of this device, from the library's own cache, whose copies are work of the library's stream.
// Errors: Unimplemented, saying what is missing, without NVIDIA's driver or a device of this number; InvalidArgument
// for a device of another type. The environment variable TENSORCASK_CUDA_LIBRARY names another driver library.
absl::StatusOr<RefPtr<Allocator>> GpuAllocator(Device device);

// The stream of this allocator as __dlpack__(stream=) takes it.
int64_t StreamNumber(const RefPtr<Allocator>& allocator);

// The id of a stream that a consumer gave to __dlpack__(stream=): a number for CUDA, or None for the default stream.
// Empty for -1: no order is wanted. Throws ValueError for 0 and for numbers below -1, TypeError for other objects.
std::optional<int64_t> ConsumerStream(const TensorView& view, nanobind::handle stream);

// "cpu" or "cuda:0".
std::string DeviceName(const TensorView& view);

// The view itself, or if its elements are on a device a finished copy on the host.
TensorView OnHost(const TensorView& view);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_DEVICES_H_
