// Maps the devices recorded in files and messages to devices of the reader.
//
//   DeviceMap kept;                                          // keeps each device as recorded: the default
//   DeviceMap host = DeviceMap::AllTo(Device());             // every device becomes the cpu
//   DeviceMap moved = DeviceMap::RefuseOthers();             // every other recorded device is an error
//   moved.Add("cuda:0", Device{DeviceType::kCuda, 1});
//   moved.Add("tpu:0", Device());                            // a text that this library has no device for
//
// The map applies to the device in the metadata of a tensor. Where its elements go is chosen apart from that: to the
// host, unless an option of the reader names an allocator of a device, or the caller reads into a view there. A value;
// several threads may call const methods at once.

#ifndef TENSORCASK_TENSOR_DEVICE_MAP_H_
#define TENSORCASK_TENSOR_DEVICE_MAP_H_

#include "tensorcask/tensor/base/cxx17.h"

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
  DeviceMap() = default;                  // texts that were not added stay as they are
  static DeviceMap AllTo(Device device);  // texts that were not added become `device`
  static DeviceMap RefuseOthers();        // texts that were not added are refused, except "cpu"

  // Maps the text `recorded` to `device`, and replaces an earlier entry for it.
  void Add(absl::string_view recorded, Device device);

  // The device for a recorded text; the empty text is "cpu".
  // Errors: InvalidArgument, quoting the text and the Add that would accept it, if it was not added and either others
  // are refused (RefuseOthers) or it is not a device of this library (DeviceMap()).
  absl::StatusOr<Device> Apply(absl::string_view recorded) const;

 private:
  enum class Others { kKept, kMapped, kRefused };

  std::map<std::string, Device, std::less<>> added_;
  Others others_ = Others::kKept;
  Device others_device_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DEVICE_MAP_H_
