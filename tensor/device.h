// The device of a tensor: where its memory is, or was when it was stored.
//
//   Device::Parse("cuda:1")      // {kCuda, 1}
//   Device().ToString()          // "cpu"
//
// Types and their numbers are DLPack's (DLDeviceType, dlpack.h 1.1). Only tensors that were made with the allocator of
// a device (tensor/memory) have their elements there. For all others, the device is metadata.

#ifndef TENSORCASK_TENSOR_DEVICE_H_
#define TENSORCASK_TENSOR_DEVICE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

enum class DeviceType : uint8_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,
  kOpenCl = 4,
  kVulkan = 7,
  kMetal = 8,
  kVpi = 9,
  kRocm = 10,
  kRocmHost = 11,
  kExtension = 12,
  kCudaManaged = 13,
  kOneApi = 14,
  kWebGpu = 15,
  kHexagon = 16,
  kMaia = 17,
};

// "cpu", "cuda", "cuda_host", "opencl", "vulkan", "metal", "vpi", "rocm", "rocm_host", "ext_dev", "cuda_managed",
// "oneapi", "webgpu", "hexagon", "maia".
// "unknown" for a number that is not in this list.
absl::string_view DeviceTypeName(DeviceType type);

struct Device {
  DeviceType type = DeviceType::kCpu;
  int32_t index = 0;  // 0 <= index

  // Accepts exactly what ToString writes: each device has one text, and "cpu:0", "cuda", "cuda:01" are refused.
  // Errors: InvalidArgument, quoting the text.
  static absl::StatusOr<Device> Parse(absl::string_view text);

  // "cpu" for {kCpu, 0}, else "TYPE:INDEX": "cuda:0", "cpu:1".
  std::string ToString() const;

  friend bool operator==(const Device& a, const Device& b) { return a.type == b.type && a.index == b.index; }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DEVICE_H_
