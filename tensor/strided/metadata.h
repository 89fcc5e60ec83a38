// Metadata of a tensor: name, device, memory format, requires_grad and attributes.
//
//   TensorMetadata metadata;
//   metadata.name = "encoder.weight";
//   metadata.device = {DeviceType::kCuda, 1};             // where the tensor was; the elements are on the host
//   metadata.attributes["unit"] = "m/s";                  // any bytes
//   absl::Status status = metadata.Validate(DType::kFloat32);
//
// Codecs and archives store metadata beside a TensorView (each header says whether its format does). A format may leave
// out metadata that IsDefault(). Attributes are ordered by key, as unsigned bytes, so that equal metadata gives equal
// bytes in a file. A plain struct: any value can be assigned, and Validate tells whether it can be stored.

#ifndef TENSORCASK_TENSOR_STRIDED_METADATA_H_
#define TENSORCASK_TENSOR_STRIDED_METADATA_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask {

struct TensorMetadata {
  // Validate refuses more than this.
  static constexpr size_t kMaxNameBytes = size_t{64} << 10;       // the size of the name, and of each key
  static constexpr size_t kMaxAttributes = size_t{10} << 10;      // their number
  static constexpr size_t kMaxAttributeBytes = size_t{16} << 20;  // the size of all keys and values together

  std::string name;  // any bytes; empty: none
  Device device;
  // The order of axes that the tensor was made with; strides alone do not determine it (memory_format.h). kContiguous
  // also stands for orders without a name; then only the strides tell.
  MemoryFormat memory_format = MemoryFormat::kContiguous;
  bool requires_grad = false;
  std::map<std::string, std::string, std::less<>> attributes;  // keys are not empty

  // True if it is equal to TensorMetadata().
  bool IsDefault() const { return *this == TensorMetadata(); }

  // Checks that a tensor of `dtype` may have this metadata and that every codec can store it.
  // Errors: InvalidArgument, naming the field, if requires_grad is set and `dtype` is neither floating nor complex, for
  // an invalid device or memory format (kPreserve is for copies, not for tensors), for an empty key, and past the
  // bounds above.
  absl::Status Validate(DType dtype) const;

  // `name "w", device cuda:1, memory_format contiguous, requires_grad false, attributes {"unit": "m/s"}`. Short and
  // printable for any bytes: long texts are cut, and the list ends after the eighth attribute.
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const TensorMetadata& metadata);

  friend bool operator==(const TensorMetadata& a, const TensorMetadata& b) {
    return a.name == b.name && a.device == b.device && a.memory_format == b.memory_format &&
           a.requires_grad == b.requires_grad && a.attributes == b.attributes;
  }
  friend bool operator!=(const TensorMetadata& a, const TensorMetadata& b) { return !(a == b); }
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_METADATA_H_
