// What the device that a file or message recorded becomes on reading.
//
//   DeviceMap kept;                                          // each stays as it was recorded: the default
//   DeviceMap host = DeviceMap::AllTo(Device());             // none survives
//   DeviceMap moved = DeviceMap::Only();                     // every other recorded device is an error
//   moved.Add("cuda:0", Device{DeviceType::kCuda, 1});
//   moved.Add("tpu:0", Device());                            // a text that this library has no device for
//
// Elements are read to the host whatever the map says: what is mapped is the device in the metadata beside them. A
// value; const methods are safe together.

#ifndef TENSORCASK_TENSOR_DEVICE_MAP_H_
#define TENSORCASK_TENSOR_DEVICE_MAP_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/device.h"

namespace tensorcask {

class DeviceMap {
 public:
  DeviceMap() = default;                  // what was not added stays as it is
  static DeviceMap AllTo(Device device);  // what was not added becomes `device`
  static DeviceMap Only();                // what was not added is refused, but for the host

  // What was recorded as `recorded` becomes `device`, whatever was said of it before.
  void Add(absl::string_view recorded, Device device);

  // The device for a recorded text; an empty one is "cpu". Errors: InvalidArgument, quoting the text and saying which
  // Add would take it, if it was not added and is either refused (Only) or no device of this library (DeviceMap()).
  absl::StatusOr<Device> Apply(absl::string_view recorded) const;

 private:
  enum class Others { kKept, kMapped, kRefused };

  std::map<std::string, Device, std::less<>> added_;
  Others others_ = Others::kKept;
  Device others_device_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DEVICE_MAP_H_
