#include "tensorcask/tensor/memory/cuda_backend.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/internal/cuda_driver.h"

namespace tensorcask {
namespace {

using internal::CudaAddress;
using internal::CudaDriver;

CudaAddress AddressOf(const void* pointer) { return reinterpret_cast<CudaAddress>(pointer); }

internal::CudaAllocationProperties MemoryOf(int device) {
  internal::CudaAllocationProperties properties;
  properties.location.device = device;
  return properties;
}

}  // namespace

CudaBackend::CudaBackend(const Options& options, std::unique_ptr<const CudaDriver> driver)
    : options_(options), name_(absl::StrCat("cuda:", options.device)), driver_(std::move(driver)) {}

absl::StatusOr<RefPtr<CudaBackend>> CudaBackend::Create(const Options& options) {
  if (options.device < 0)
    return absl::InvalidArgumentError(absl::StrCat("CUDA: device ", options.device, "; numbers begin at 0"));
  CASK_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load(options.library));
  auto backend = RefPtr<CudaBackend>::AdoptNew(new CudaBackend(options, std::make_unique<const CudaDriver>(driver)));
  CASK_RETURN_IF_ERROR(backend->Start());
  return backend;
}

absl::Status CudaBackend::Start() {
  const internal::CudaResult found = driver_->cuInit(0);
  int count = 0;
  if (found == internal::kCudaSuccess) {
    CASK_RETURN_IF_ERROR(driver_->Check(driver_->cuDeviceGetCount(&count), absl::StrCat(name_, ": cuDeviceGetCount")));
  } else if (found != internal::kCudaNoDevice) {
    return driver_->Check(found, absl::StrCat(name_, ": cuInit"));
  }
  if (options_.device >= count) {
    return absl::UnimplementedError(
        absl::StrCat(name_, ": there is no such device; the driver finds ", count, " devices"));
  }
  CASK_RETURN_IF_ERROR(
      driver_->Check(driver_->cuDeviceGet(&cuda_device_, options_.device), absl::StrCat(name_, ": cuDeviceGet")));
  CASK_RETURN_IF_ERROR(driver_->Check(driver_->cuDevicePrimaryCtxRetain(&context_, cuda_device_),
                                      absl::StrCat(name_, ": cuDevicePrimaryCtxRetain")));
  streams_[kDefaultStream];
  const absl::StatusOr<size_t> mapping_bytes = FindMappingGranularity();
  if (!mapping_bytes.ok() && !absl::IsUnimplemented(mapping_bytes.status())) return mapping_bytes.status();
  mapping_bytes_ = mapping_bytes.value_or(0);
  return absl::OkStatus();
}

absl::StatusOr<size_t> CudaBackend::FindMappingGranularity() const {
  if (!driver_->has_virtual_memory) return 0;
  int supported = 0;
  CASK_RETURN_IF_ERROR(Do("cuDeviceGetAttribute", [&] {
    return driver_->cuDeviceGetAttribute(&supported, internal::kCudaAttributeVirtualMemory, cuda_device_);
  }));
  if (supported == 0) return 0;
  size_t bytes = 0;
  const internal::CudaAllocationProperties memory = MemoryOf(cuda_device_);
  CASK_RETURN_IF_ERROR(Do("cuMemGetAllocationGranularity", [&] {
    return driver_->cuMemGetAllocationGranularity(&bytes, &memory, internal::kCudaRecommendedGranularity);
  }));
  return bytes;
}

CudaBackend::~CudaBackend() {
  if (context_ == nullptr) return;
  static_cast<void>(Do("destruction", [&] {
    for (const auto& event : events_) driver_->cuEventDestroy_v2(event.second);
    for (const auto& stream : streams_) {
      if (stream.first != kDefaultStream && !stream.second.is_adopted)
        driver_->cuStreamDestroy_v2(stream.second.handle);
    }
    return internal::kCudaSuccess;
  }));
  driver_->cuDevicePrimaryCtxRelease_v2(cuda_device_);
}

template <typename Call>
absl::Status CudaBackend::Do(absl::string_view what, Call&& call) const {
  // Messages are made after errors alone: without memory for a message, a call that succeeded must not look failed.
  const internal::CudaResult entered = driver_->cuCtxPushCurrent_v2(context_);
  if (entered != internal::kCudaSuccess) return driver_->Check(entered, absl::StrCat(name_, ": cuCtxPushCurrent"));
  const internal::CudaResult result = call();
  internal::CudaContext left = nullptr;
  const internal::CudaResult popped = driver_->cuCtxPopCurrent_v2(&left);
  if (result != internal::kCudaSuccess) return driver_->Check(result, absl::StrCat(name_, ": ", what));
  if (popped != internal::kCudaSuccess) return driver_->Check(popped, absl::StrCat(name_, ": cuCtxPopCurrent"));
  return absl::OkStatus();
}

template <typename T>
int64_t CudaBackend::AddNode(std::map<int64_t, T>& from, T value, std::map<int64_t, T>& to) {
  auto node = from.extract(from.begin());
  node.key() = next_id_;
  node.mapped() = value;
  to.insert(std::move(node));
  return next_id_++;
}

absl::StatusOr<void*> CudaBackend::StreamHandle(StreamId stream) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = streams_.find(stream);
  if (found != streams_.end()) return found->second.handle;
  return absl::InvalidArgumentError(absl::StrCat(name_, ": stream ", stream, " does not exist"));
}

absl::StatusOr<void*> CudaBackend::EventOf(EventId event) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = events_.find(event);
  if (found != events_.end()) return found->second;
  return absl::InvalidArgumentError(absl::StrCat(name_, ": event ", event, " does not exist"));
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

absl::StatusOr<void*> CudaBackend::Allocate(size_t bytes) {
  CudaAddress address = 0;
  CASK_RETURN_IF_ERROR(
      Do(absl::StrCat("cuMemAlloc of ", bytes, " bytes"), [&] { return driver_->cuMemAlloc_v2(&address, bytes); }));
  return reinterpret_cast<void*>(address);
}

absl::Status CudaBackend::Free(void* block, size_t bytes) {
  return Do(absl::StrCat("cuMemFree of ", bytes, " bytes"), [&] {
    const internal::CudaResult waited = driver_->cuCtxSynchronize();
    return waited == internal::kCudaSuccess ? driver_->cuMemFree_v2(AddressOf(block)) : waited;
  });
}

absl::StatusOr<DeviceMemoryInfo> CudaBackend::MemoryInfo() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CASK_RETURN_IF_ERROR(Do("cuMemGetInfo", [&] { return driver_->cuMemGetInfo_v2(&free_bytes, &total_bytes); }));
  return DeviceMemoryInfo{free_bytes, total_bytes};
}

absl::StatusOr<void*> CudaBackend::AllocateHost(size_t bytes) {
  void* block = nullptr;
  CASK_RETURN_IF_ERROR(Do(absl::StrCat("cuMemHostAlloc of ", bytes, " bytes"),
                          [&] { return driver_->cuMemHostAlloc(&block, bytes, internal::kCudaHostAllocPortable); }));
  return block;
}

absl::Status CudaBackend::FreeHost(void* block, size_t /*bytes*/) {
  return Do("cuMemFreeHost", [&] { return driver_->cuMemFreeHost(block); });
}

// ---- Virtual memory -------------------------------------------------------------------------------------------------

absl::StatusOr<void*> CudaBackend::ReserveAddresses(size_t bytes) {
  if (mapping_bytes_ == 0) return DeviceBackend::ReserveAddresses(bytes);
  CudaAddress start = 0;
  CASK_RETURN_IF_ERROR(Do(absl::StrCat("cuMemAddressReserve of ", bytes, " bytes"),
                          [&] { return driver_->cuMemAddressReserve(&start, bytes, 0, 0, 0); }));
  return reinterpret_cast<void*>(start);
}

absl::Status CudaBackend::FreeAddresses(void* start, size_t bytes) {
  if (mapping_bytes_ == 0) return DeviceBackend::FreeAddresses(start, bytes);
  return Do("cuMemAddressFree", [&] { return driver_->cuMemAddressFree(AddressOf(start), bytes); });
}

absl::Status CudaBackend::Map(void* start, size_t bytes) {
  if (mapping_bytes_ == 0) return DeviceBackend::Map(start, bytes);
  const internal::CudaAllocationProperties memory = MemoryOf(cuda_device_);
  const std::string map = absl::StrCat("cuMemMap of ", bytes, " bytes");  // allocated before there is memory to lose
  internal::CudaMemory handle = 0;
  CASK_RETURN_IF_ERROR(Do(absl::StrCat("cuMemCreate of ", bytes, " bytes"),
                          [&] { return driver_->cuMemCreate(&handle, bytes, &memory, 0); }));
  const absl::Status mapped = Do(map, [&] {
    internal::CudaResult result = driver_->cuMemMap(AddressOf(start), bytes, 0, handle, 0);
    if (result != internal::kCudaSuccess) return result;
    internal::CudaAccess access;
    access.location = memory.location;
    result = driver_->cuMemSetAccess(AddressOf(start), bytes, &access, 1);
    if (result != internal::kCudaSuccess) driver_->cuMemUnmap(AddressOf(start), bytes);
    return result;
  });
  // The mapping keeps the memory. If this fails, only the memory stays longer.
  static_cast<void>(Do("cuMemRelease", [&] { return driver_->cuMemRelease(handle); }));
  return mapped;
}

absl::Status CudaBackend::Unmap(void* start, size_t bytes) {
  if (mapping_bytes_ == 0) return DeviceBackend::Unmap(start, bytes);
  return Do(absl::StrCat("cuMemUnmap of ", bytes, " bytes"), [&] {
    const internal::CudaResult waited = driver_->cuCtxSynchronize();
    return waited == internal::kCudaSuccess ? driver_->cuMemUnmap(AddressOf(start), bytes) : waited;
  });
}

// ---- Streams and events ---------------------------------------------------------------------------------------------

absl::StatusOr<StreamId> CudaBackend::CreateStream() {
  void* stream = nullptr;
  std::map<StreamId, Stream> node = {{0, Stream()}};  // allocated first, so that no stream is lost
  CASK_RETURN_IF_ERROR(
      Do("cuStreamCreate", [&] { return driver_->cuStreamCreate(&stream, internal::kCudaStreamNonBlocking); }));
  const std::lock_guard<std::mutex> lock(mutex_);
  return AddNode(node, Stream{stream, /*is_adopted=*/false}, streams_);
}

StreamId CudaBackend::AdoptStream(void* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_[next_id_] = {stream, /*is_adopted=*/true};
  return next_id_++;
}

absl::Status CudaBackend::DestroyStream(StreamId stream) {
  CASK_RETURN_IF_ERROR(Synchronize(stream));
  if (stream == kDefaultStream)
    return absl::InvalidArgumentError(absl::StrCat(name_, ": stream 0 cannot be destroyed"));
  Stream destroyed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = streams_.find(stream);
    if (found == streams_.end())
      return absl::InvalidArgumentError(absl::StrCat(name_, ": stream ", stream, " does not exist"));
    destroyed = found->second;
    streams_.erase(found);
  }
  if (destroyed.is_adopted) return absl::OkStatus();
  return Do("cuStreamDestroy", [&] { return driver_->cuStreamDestroy_v2(destroyed.handle); });
}

absl::Status CudaBackend::Synchronize(StreamId stream) {
  CASK_ASSIGN_OR_RETURN(void* const handle, StreamHandle(stream));
  return Do("cuStreamSynchronize", [&] { return driver_->cuStreamSynchronize(handle); });
}

absl::StatusOr<bool> CudaBackend::IsIdle(StreamId stream) {
  CASK_ASSIGN_OR_RETURN(void* const handle, StreamHandle(stream));
  bool is_idle = true;
  CASK_RETURN_IF_ERROR(Do("cuStreamQuery", [&] {
    const internal::CudaResult result = driver_->cuStreamQuery(handle);
    if (result != internal::kCudaNotReady) return result;
    is_idle = false;
    return internal::kCudaSuccess;
  }));
  return is_idle;
}

absl::Status CudaBackend::SynchronizeAll() {
  return Do("cuCtxSynchronize", [&] { return driver_->cuCtxSynchronize(); });
}

absl::StatusOr<EventId> CudaBackend::RecordEvent(StreamId stream) {
  CASK_ASSIGN_OR_RETURN(void* const handle, StreamHandle(stream));
  void* event = nullptr;
  std::map<EventId, void*> node = {{0, nullptr}};  // allocated first, so that no event is lost
  CASK_RETURN_IF_ERROR(Do("cuEventRecord", [&] {
    internal::CudaResult result = driver_->cuEventCreate(&event, internal::kCudaEventDisableTiming);
    if (result != internal::kCudaSuccess) return result;
    result = driver_->cuEventRecord(event, handle);
    if (result != internal::kCudaSuccess) driver_->cuEventDestroy_v2(event);
    return result;
  }));
  const std::lock_guard<std::mutex> lock(mutex_);
  return AddNode(node, event, events_);
}

absl::StatusOr<bool> CudaBackend::QueryEvent(EventId event) {
  CASK_ASSIGN_OR_RETURN(void* const handle, EventOf(event));
  bool is_complete = true;
  CASK_RETURN_IF_ERROR(Do("cuEventQuery", [&] {
    const internal::CudaResult result = driver_->cuEventQuery(handle);
    if (result != internal::kCudaNotReady) return result;
    is_complete = false;
    return internal::kCudaSuccess;
  }));
  return is_complete;
}

absl::Status CudaBackend::SynchronizeEvent(EventId event) {
  CASK_ASSIGN_OR_RETURN(void* const handle, EventOf(event));
  return Do("cuEventSynchronize", [&] { return driver_->cuEventSynchronize(handle); });
}

absl::Status CudaBackend::WaitForEvent(StreamId stream, EventId event) {
  CASK_ASSIGN_OR_RETURN(void* const stream_handle, StreamHandle(stream));
  CASK_ASSIGN_OR_RETURN(void* const event_handle, EventOf(event));
  return Do("cuStreamWaitEvent", [&] { return driver_->cuStreamWaitEvent(stream_handle, event_handle, 0); });
}

void CudaBackend::DestroyEvent(EventId event) {
  void* handle = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = events_.find(event);
    if (found == events_.end()) return;
    handle = found->second;
    events_.erase(found);
  }
  static_cast<void>(Do("cuEventDestroy", [&] { return driver_->cuEventDestroy_v2(handle); }));
}

// ---- Copies ---------------------------------------------------------------------------------------------------------

absl::Status CudaBackend::Copy(CopyKind kind, void* to, const void* from, size_t bytes, StreamId stream) {
  CASK_ASSIGN_OR_RETURN(void* const handle, StreamHandle(stream));
  if (bytes == 0) return absl::OkStatus();
  return Do(absl::StrCat("copy of ", bytes, " bytes"), [&] {
    switch (kind) {
      case CopyKind::kHostToDevice:
        return driver_->cuMemcpyHtoDAsync_v2(AddressOf(to), from, bytes, handle);
      case CopyKind::kDeviceToHost:
        return driver_->cuMemcpyDtoHAsync_v2(to, AddressOf(from), bytes, handle);
      case CopyKind::kDeviceToDevice:
        return driver_->cuMemcpyDtoDAsync_v2(AddressOf(to), AddressOf(from), bytes, handle);
    }
    return internal::kCudaInvalidValue;
  });
}

absl::Status CudaBackend::Fill(void* to, uint8_t value, size_t bytes, StreamId stream) {
  CASK_ASSIGN_OR_RETURN(void* const handle, StreamHandle(stream));
  if (bytes == 0) return absl::OkStatus();
  return Do(absl::StrCat("fill of ", bytes, " bytes"),
            [&] { return driver_->cuMemsetD8Async(AddressOf(to), value, bytes, handle); });
}

}  // namespace tensorcask
