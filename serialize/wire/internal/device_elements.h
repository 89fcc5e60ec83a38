// Decoding to a device: elements are decoded in memory of the host, and moved when they are complete. Internal.
//
//   std::optional<DecodeOptions> on_host;
//   ... decode with HostOptions(options, &on_host) ...
//   CASK_RETURN_IF_ERROR(MoveToAllocator(options, &decoded.view));

#ifndef TENSORCASK_SERIALIZE_WIRE_INTERNAL_DEVICE_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_WIRE_INTERNAL_DEVICE_ELEMENTS_H_

#include <optional>

#include "absl/status/status.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// `options`, or if their allocator gives memory of a device, *on_host: the same with CpuAllocator::Default().
const DecodeOptions& HostOptions(const DecodeOptions& options, std::optional<DecodeOptions>* on_host);

// Moves the elements to the device of options.allocator, if it is one's. Objects stay on the host.
// Errors: ResourceExhausted; errors of the device.
absl::Status MoveToAllocator(const DecodeOptions& options, TensorView* view);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_INTERNAL_DEVICE_ELEMENTS_H_
