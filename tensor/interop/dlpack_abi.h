// The structs of DLPack, by which libraries in one process hand tensors to each other, as dlpack.h 1.1 declares them.
//
//   #include <dlpack/dlpack.h>   // the DLPack project's own header, if you use it
//   auto* tensor = reinterpret_cast<tensorcask::dlpack::DLManagedTensor*>(theirs);   // the layouts are the same
//
// Ours live in a namespace of their own, so that both headers fit into one file. tensor/interop/dlpack.h exports and
// imports these structs; most programs only pass the pointers on.
//
// Source: https://github.com/dmlc/dlpack, include/dlpack/dlpack.h, and the rules of 1.2 for strides.

#ifndef TENSORCASK_TENSOR_INTEROP_DLPACK_ABI_H_
#define TENSORCASK_TENSOR_INTEROP_DLPACK_ABI_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::dlpack {

inline constexpr uint32_t kMajorVersion = 1;  // another one has another layout after `deleter`
inline constexpr uint32_t kMinorVersion = 1;  // the first with 8-, 6- and 4-bit floats

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLDevice {
  int32_t device_type;  // a number of DeviceType (tensor/device.h)
  int32_t device_id;
};

// DLDataType::code; `bits` says how wide.
enum DLDataTypeCode : uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,  // bits of both parts together
  kDLBool = 6,     // 8 bits
  kDLFloat8_e3m4 = 7,
  kDLFloat8_e4m3 = 8,
  kDLFloat8_e4m3b11fnuz = 9,
  kDLFloat8_e4m3fn = 10,
  kDLFloat8_e4m3fnuz = 11,
  kDLFloat8_e5m2 = 12,
  kDLFloat8_e5m2fnuz = 13,
  kDLFloat8_e8m0fnu = 14,
  kDLFloat6_e2m3fn = 15,
  kDLFloat6_e3m2fn = 16,
  kDLFloat4_e2m1fn = 17,
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;    // the size of one lane
  uint16_t lanes;  // 1, unless the element is a short vector
};

struct DLTensor {
  void* data;  // may be null if there are no elements
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;        // ndim sizes
  int64_t* strides;      // ndim steps in elements, signed; null: row-major without gaps
  uint64_t byte_offset;  // from `data` to the element of index 0
};

// The older form. It cannot say that memory must not be written.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  // frees `self` too; may be null
};

// DLManagedTensorVersioned::flags.
inline constexpr uint64_t kDLPackFlagReadOnly = 1;
inline constexpr uint64_t kDLPackFlagIsCopied = 2;             // made for the consumer, who alone uses it
inline constexpr uint64_t kDLPackFlagIsSubbyteTypePadded = 4;  // elements under a byte take a whole one

struct DLManagedTensorVersioned {
  DLPackVersion version;  // this and the next two stay where they are in every version
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // frees `self` too; may be null
  uint64_t flags;
  DLTensor dl_tensor;
};

static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4);
static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
              offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, deleter) == 16 &&
              offsetof(DLManagedTensorVersioned, flags) == 24 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

}  // namespace tensorcask::dlpack

#endif  // TENSORCASK_TENSOR_INTEROP_DLPACK_ABI_H_
