#include "tensorcask/tensor/device_map.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask {

DeviceMap DeviceMap::AllTo(Device device) {
  DeviceMap map;
  map.others_ = Others::kMapped;
  map.others_device_ = device;
  return map;
}

DeviceMap DeviceMap::RefuseOthers() {
  DeviceMap map;
  map.others_ = Others::kRefused;
  return map;
}

void DeviceMap::Add(absl::string_view recorded, Device device) {
  added_.insert_or_assign(std::string(recorded.data(), recorded.size()), device);
}

absl::StatusOr<Device> DeviceMap::Apply(absl::string_view recorded) const {
  static constexpr absl::string_view kHost = "cpu";  // Device().ToString()
  const absl::string_view text = recorded.empty() ? kHost : recorded;
  const auto found = added_.find(text);
  if (found != added_.end()) return found->second;
  if (others_ == Others::kMapped) return others_device_;
  if (recorded.empty()) return Device();
  absl::StatusOr<Device> device = Device::Parse(text);
  if (device.ok() && (others_ == Others::kKept || *device == Device())) return device;
  return absl::InvalidArgumentError(
      absl::StrCat(device.ok() ? absl::StrCat("device ", Quoted(text), " is not in the device map")
                               : std::string(device.status().message()),
                   "; DeviceMap::Add(", Quoted(text), ", ...) would say what becomes of it"));
}

}  // namespace tensorcask
