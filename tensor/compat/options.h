// Properties of a new tensor, each of which may be set or left unset.
//
//   const TensorOptions half = TensorOptions().WithDType(DType::kFloat16);
//   half.dtype()                                            // float16
//   half.device()                                           // cpu: the default, because it is not set
//   half.MergedWith(TensorOptions().WithRequiresGrad(true)) // float16, requires_grad
//   absl::StatusOr<TensorView> view =
//       Empty(TensorShape({2, 3, 4, 5}), half.WithMemoryFormat(MemoryFormat::kChannelsLast2d));
//
// 8 bytes, passed by value; setters return a changed copy. Defaults: float32, cpu, contiguous, false. PyTorch's layout
// and pinned_memory are left out: every tensor here is strided, and pinned memory comes from PinnedAllocator.
//
// Source: c10/core/TensorOptions.h.

#ifndef TENSORCASK_TENSOR_COMPAT_OPTIONS_H_
#define TENSORCASK_TENSOR_COMPAT_OPTIONS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <iosfwd>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

class TensorOptions {
 public:
  constexpr TensorOptions() = default;  // nothing set

  constexpr TensorOptions WithDType(DType dtype) const {
    TensorOptions result = With(kDTypeSet, true);
    result.dtype_ = dtype;
    return result;
  }
  constexpr TensorOptions WithDevice(Device device) const {
    TensorOptions result = With(kDeviceSet, true);
    result.device_type_ = device.type;
    result.device_index_ = device.index;
    return result;
  }
  constexpr TensorOptions WithMemoryFormat(MemoryFormat format) const {
    TensorOptions result = With(kMemoryFormatSet, true);
    result.memory_format_ = format;
    return result;
  }
  constexpr TensorOptions WithRequiresGrad(bool requires_grad) const {
    return With(kRequiresGradSet, true).With(kRequiresGrad, requires_grad);
  }

  // The value that was set, or the default.
  constexpr DType dtype() const { return dtype_; }
  constexpr Device device() const { return {device_type_, device_index_}; }
  constexpr MemoryFormat memory_format() const { return memory_format_; }
  constexpr bool requires_grad() const { return Has(kRequiresGrad); }

  constexpr bool has_dtype() const { return Has(kDTypeSet); }
  constexpr bool has_device() const { return Has(kDeviceSet); }
  constexpr bool has_memory_format() const { return Has(kMemoryFormatSet); }
  constexpr bool has_requires_grad() const { return Has(kRequiresGradSet); }

  // The properties that are set in `right`, and the others from here.
  constexpr TensorOptions MergedWith(TensorOptions right) const {
    TensorOptions result = *this;
    if (right.has_dtype()) result = result.WithDType(right.dtype());
    if (right.has_device()) result = result.WithDevice(right.device());
    if (right.has_memory_format()) result = result.WithMemoryFormat(right.memory_format());
    if (right.has_requires_grad()) result = result.WithRequiresGrad(right.requires_grad());
    return result;
  }

  // The same as metadata, without a name.
  TensorMetadata ToMetadata() const;

  // "dtype float16, device cpu (default), memory_format contiguous (default), requires_grad false (default)".
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, TensorOptions options);

  // True if the same properties are set, to equal values: a property set to its default differs from an unset one.
  friend bool operator==(TensorOptions a, TensorOptions b) {
    return a.flags_ == b.flags_ && a.dtype_ == b.dtype_ && a.device() == b.device() &&
           a.memory_format_ == b.memory_format_;
  }
  friend bool operator!=(TensorOptions a, TensorOptions b) { return !(a == b); }

 private:
  enum Flag : uint8_t {
    kDTypeSet = 1 << 0,
    kDeviceSet = 1 << 1,
    kMemoryFormatSet = 1 << 2,
    kRequiresGradSet = 1 << 3,
    kRequiresGrad = 1 << 4  // the value
  };

  constexpr bool Has(Flag flag) const { return (flags_ & flag) != 0; }
  constexpr TensorOptions With(Flag flag, bool on) const {
    TensorOptions result = *this;
    result.flags_ = static_cast<uint8_t>(on ? flags_ | flag : flags_ & ~flag);
    return result;
  }

  // Properties that are not set have their default values.
  int32_t device_index_ = 0;
  DeviceType device_type_ = DeviceType::kCpu;
  DType dtype_ = DType::kFloat32;
  MemoryFormat memory_format_ = MemoryFormat::kContiguous;
  uint8_t flags_ = 0;
};

static_assert(sizeof(TensorOptions) == 8, "as compact as c10's");

// A tensor of uninitialised elements (objects: empty), with the dtype of the options and the strides of their memory
// format.
// Errors: Unimplemented for a device other than the cpu; InvalidArgument for kPreserve, if a channels-last format has
// another rank, for requires_grad with a dtype that is neither floating nor complex, and if the size in bytes
// overflows; ResourceExhausted, naming the bytes, if the memory cannot be allocated.
absl::StatusOr<TensorView> Empty(const TensorShape& shape, TensorOptions options,
                                 const RefPtr<Allocator>& allocator = CpuAllocator::Default());

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_COMPAT_OPTIONS_H_
