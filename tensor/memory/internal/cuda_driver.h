// The functions of NVIDIA's driver library that CudaBackend uses, found at run time in libcuda.so.1.
//
//   CASK_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load("libcuda.so.1"));
//   CASK_RETURN_IF_ERROR(driver.Check(driver.cuInit(0), "cuInit"));
//
// Types and numbers are those of the driver API's reference (docs.nvidia.com/cuda/cuda-driver-api): handles are
// pointers, device addresses are 64 bits wide.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_CUDA_DRIVER_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::internal {

using CudaResult = int;
using CudaDevice = int;
using CudaContext = void*;
using CudaStream = void*;
using CudaEvent = void*;
using CudaAddress = unsigned long long;  // NOLINT(google-runtime-int): CUdeviceptr

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaInvalidValue = 1;
inline constexpr CudaResult kCudaOutOfMemory = 2;
inline constexpr CudaResult kCudaNoDevice = 100;
inline constexpr CudaResult kCudaInvalidDevice = 101;
inline constexpr CudaResult kCudaInvalidHandle = 400;
inline constexpr CudaResult kCudaNotReady = 600;
inline constexpr CudaResult kCudaNotSupported = 801;

inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr unsigned kCudaHostAllocPortable = 1;
inline constexpr int kCudaMinVersion = 11000;  // 11.0

// The types of virtual memory.
using CudaMemory = unsigned long long;  // NOLINT(google-runtime-int): a handle
using CudaFlags = unsigned long long;   // NOLINT(google-runtime-int)
inline constexpr int kCudaAttributeVirtualMemory = 102;
inline constexpr int kCudaRecommendedGranularity = 1;
inline constexpr int kCudaLocationDevice = 1;
inline constexpr int kCudaAllocationPinned = 1;
inline constexpr int kCudaAccessReadWrite = 3;

struct CudaLocation {
  int type = kCudaLocationDevice;
  int device = 0;
};
struct CudaAllocationProperties {
  int type = kCudaAllocationPinned;
  int handle_types = 0;
  CudaLocation location;
  void* windows_handle = nullptr;
  unsigned char flags[8] = {};
};
struct CudaAccess {
  CudaLocation location;
  int flags = kCudaAccessReadWrite;
};
static_assert(sizeof(CudaAllocationProperties) == 32 && sizeof(CudaAccess) == 12, "as the driver has them");

// Name in the library, and arguments. The suffix _v2 belongs to the present form of a function.
#define CASK_CUDA_FUNCTIONS(F)                                          \
  F(cuInit, unsigned)                                                   \
  F(cuDriverGetVersion, int*)                                           \
  F(cuGetErrorName, CudaResult, const char**)                           \
  F(cuDeviceGetCount, int*)                                             \
  F(cuDeviceGet, CudaDevice*, int)                                      \
  F(cuDevicePrimaryCtxRetain, CudaContext*, CudaDevice)                 \
  F(cuDevicePrimaryCtxRelease_v2, CudaDevice)                           \
  F(cuCtxPushCurrent_v2, CudaContext)                                   \
  F(cuCtxPopCurrent_v2, CudaContext*)                                   \
  F(cuCtxSynchronize)                                                   \
  F(cuMemGetInfo_v2, size_t*, size_t*)                                  \
  F(cuMemAlloc_v2, CudaAddress*, size_t)                                \
  F(cuMemFree_v2, CudaAddress)                                          \
  F(cuMemHostAlloc, void**, size_t, unsigned)                           \
  F(cuMemFreeHost, void*)                                               \
  F(cuStreamCreate, CudaStream*, unsigned)                              \
  F(cuStreamDestroy_v2, CudaStream)                                     \
  F(cuStreamSynchronize, CudaStream)                                    \
  F(cuStreamQuery, CudaStream)                                          \
  F(cuStreamWaitEvent, CudaStream, CudaEvent, unsigned)                 \
  F(cuEventCreate, CudaEvent*, unsigned)                                \
  F(cuEventDestroy_v2, CudaEvent)                                       \
  F(cuEventRecord, CudaEvent, CudaStream)                               \
  F(cuEventQuery, CudaEvent)                                            \
  F(cuEventSynchronize, CudaEvent)                                      \
  F(cuMemcpyHtoDAsync_v2, CudaAddress, const void*, size_t, CudaStream) \
  F(cuMemcpyDtoHAsync_v2, void*, CudaAddress, size_t, CudaStream)       \
  F(cuMemcpyDtoDAsync_v2, CudaAddress, CudaAddress, size_t, CudaStream) \
  F(cuMemsetD8Async, CudaAddress, unsigned char, size_t, CudaStream)

// Those of virtual memory, which a driver may lack.
#define CASK_CUDA_VIRTUAL_MEMORY_FUNCTIONS(F)                                     \
  F(cuDeviceGetAttribute, int*, int, CudaDevice)                                  \
  F(cuMemGetAllocationGranularity, size_t*, const CudaAllocationProperties*, int) \
  F(cuMemAddressReserve, CudaAddress*, size_t, size_t, CudaAddress, CudaFlags)    \
  F(cuMemAddressFree, CudaAddress, size_t)                                        \
  F(cuMemCreate, CudaMemory*, size_t, const CudaAllocationProperties*, CudaFlags) \
  F(cuMemRelease, CudaMemory)                                                     \
  F(cuMemMap, CudaAddress, size_t, size_t, CudaMemory, CudaFlags)                 \
  F(cuMemUnmap, CudaAddress, size_t)                                              \
  F(cuMemSetAccess, CudaAddress, size_t, const CudaAccess*, size_t)

struct CudaDriver {
#define CASK_CUDA_POINTER(name, ...) CudaResult (*name)(__VA_ARGS__) = nullptr;
  CASK_CUDA_FUNCTIONS(CASK_CUDA_POINTER)
  CASK_CUDA_VIRTUAL_MEMORY_FUNCTIONS(CASK_CUDA_POINTER)
#undef CASK_CUDA_POINTER

  // Whether the library has the functions of virtual memory.
  bool has_virtual_memory = false;

  // Opens the library, which stays open for the life of the process.
  // Errors: Unimplemented, saying what is missing, if there is no library, if it lacks a function, or if the driver is
  // older than kCudaMinVersion.
  static absl::StatusOr<CudaDriver> Load(const std::string& library);

  // OK for success. Else, with `what` and the driver's name of the error: ResourceExhausted if memory is exhausted;
  // InvalidArgument for a wrong value or handle; Unimplemented if the device does not support it; otherwise Internal.
  absl::Status Check(CudaResult result, absl::string_view what) const;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_CUDA_DRIVER_H_
