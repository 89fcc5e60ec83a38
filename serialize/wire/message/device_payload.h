// Decoding to a device: elements are decoded in memory of the host, and copied to the device when they are complete.
// Internal.
//
//   const DecodeTarget target(options);
//   ... decode with target.on_host() ...
//   CASK_RETURN_IF_ERROR(target.Move(&decoded.view));

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_DEVICE_PAYLOAD_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_DEVICE_PAYLOAD_H_

#include <optional>

#include "absl/status/status.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

class DecodeTarget {
 public:
  // `options` must outlive this.
  explicit DecodeTarget(const DecodeOptions& options) : given_(options) {
    if (options.allocator->device_memory() == nullptr) return;
    host_.emplace(options);
    host_->allocator = CpuAllocator::Default();
  }
  DecodeTarget(const DecodeTarget&) = delete;
  DecodeTarget& operator=(const DecodeTarget&) = delete;

  // True if options.allocator belongs to a device.
  bool is_device() const { return host_.has_value(); }
  // The options, with an allocator of the host.
  const DecodeOptions& on_host() const { return is_device() ? *host_ : given_; }
  // Copies the elements to the device if there is one. Objects stay on the host.
  // Errors: ResourceExhausted; errors of the device.
  absl::Status Move(TensorView* view) const { return is_device() ? MoveToDevice(view) : absl::OkStatus(); }

 private:
  absl::Status MoveToDevice(TensorView* view) const;

  const DecodeOptions& given_;
  std::optional<DecodeOptions> host_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_DEVICE_PAYLOAD_H_
