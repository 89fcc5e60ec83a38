#include "tensorcask/tensor/device.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask {
namespace {

struct TypeName {
  DeviceType type;
  absl::string_view name;
};

constexpr TypeName kTypeNames[] = {
    {DeviceType::kCpu, "cpu"},
    {DeviceType::kCuda, "cuda"},
    {DeviceType::kCudaHost, "cuda_host"},
    {DeviceType::kOpenCl, "opencl"},
    {DeviceType::kVulkan, "vulkan"},
    {DeviceType::kMetal, "metal"},
    {DeviceType::kVpi, "vpi"},
    {DeviceType::kRocm, "rocm"},
    {DeviceType::kRocmHost, "rocm_host"},
    {DeviceType::kExtension, "ext_dev"},
    {DeviceType::kCudaManaged, "cuda_managed"},
    {DeviceType::kOneApi, "oneapi"},
    {DeviceType::kWebGpu, "webgpu"},
    {DeviceType::kHexagon, "hexagon"},
    {DeviceType::kMaia, "maia"},
};

absl::Status BadDevice(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("device ", Quoted(text), ": ", why));
}

}  // namespace

absl::string_view DeviceTypeName(DeviceType type) {
  for (const TypeName& row : kTypeNames) {
    if (row.type == type) return row.name;
  }
  return "unknown";
}

absl::StatusOr<Device> Device::Parse(absl::string_view text) {
  const size_t colon = text.find(':');
  const absl::string_view name = text.substr(0, colon);
  Device device;
  bool known = false;
  for (const TypeName& row : kTypeNames) {
    if (row.name != name) continue;
    device.type = row.type;
    known = true;
  }
  if (!known) return BadDevice(text, "unknown type");
  if (colon != absl::string_view::npos) {
    const absl::string_view digits = text.substr(colon + 1);
    // SimpleAtoi alone would take spaces and signs.
    if (digits.empty() || digits.size() > 10 || digits.find_first_not_of("0123456789") != absl::string_view::npos ||
        !absl::SimpleAtoi(digits, &device.index)) {
      return BadDevice(text, "the index is not a decimal number below 2^31");
    }
  }
  if (device.ToString() != text) return BadDevice(text, absl::StrCat("written as ", Quoted(device.ToString())));
  return device;
}

std::string Device::ToString() const {
  const absl::string_view name = DeviceTypeName(type);
  return *this == Device() ? std::string(name) : absl::StrCat(name, ":", index);
}

}  // namespace tensorcask
