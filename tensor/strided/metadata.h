// What is known of a tensor beside its elements and their geometry.
//
//   TensorMetadata metadata;
//   metadata.name = "encoder.weight";
//   metadata.device = {DeviceType::kCuda, 1};             // where it was; the elements are on the host all the same
//   metadata.attributes["unit"] = "m/s";                  // any bytes
//   absl::Status status = metadata.Validate(DType::kFloat32);
//
// It is made to travel beside a TensorView through codecs and archives (each says whether it takes it), and says
// nothing unless told: a format may leave out what IsDefault(). Equal metadata is walked in equal order (attributes by
// key, as unsigned bytes), so that it gives equal bytes in a file. A plain value: anything can be put in, Validate says
// whether it can go out.

#ifndef TENSORCASK_TENSOR_STRIDED_METADATA_H_
#define TENSORCASK_TENSOR_STRIDED_METADATA_H_

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
  // Bounds of what Validate lets through.
  static constexpr size_t kMaxNameBytes = size_t{64} << 10;       // of the name, and of each key
  static constexpr size_t kMaxAttributes = size_t{10} << 10;      // their number
  static constexpr size_t kMaxAttributeBytes = size_t{16} << 20;  // of all keys and values together

  std::string name;  // any bytes; empty: none
  Device device;
  // The order its maker had in mind, which strides alone do not tell (memory_format.h). kContiguous also stands for
  // orders that have no name: the strides are what counts.
  MemoryFormat memory_format = MemoryFormat::kContiguous;
  bool requires_grad = false;
  std::map<std::string, std::string, std::less<>> attributes;  // keys are not empty

  // True if it says nothing: equal to TensorMetadata().
  bool IsDefault() const { return *this == TensorMetadata(); }

  // Whether a tensor of `dtype` may have it and every codec can store it.
  // Errors: InvalidArgument, naming the field, if requires_grad is set and `dtype` is neither floating nor complex, for
  // a device or memory format that is none (kPreserve is one of copies, not of tensors), an empty key, or more than the
  // bounds above.
  absl::Status Validate(DType dtype) const;

  // `name "w", device cuda:1, memory_format contiguous, requires_grad false, attributes {"unit": "m/s"}`. Bounded and
  // printable whatever the bytes: long texts are cut, and so is the list behind the eighth attribute.
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
