// NVIDIA GPUs, through the driver library libcuda.so.1, which is opened at run time: neither CUDA's headers nor its
// libraries are needed to build, and a program starts without them.
//
//   absl::StatusOr<RefPtr<CudaBackend>> gpu = CudaBackend::Create({/*device=*/0});
//   if (absl::IsUnimplemented(gpu.status())) ...            // no driver, one that is too old, or no such device
//   RefPtr<CachingAllocator> cache = CachingAllocator::Make(*gpu);
//
// Works in the primary context of the device, as CUDA's runtime and PyTorch do, so addresses are valid in all of
// them. Stream 0 is the default stream of the context; streams of CreateStream do not wait for it. AdoptStream gives
// streams of other libraries an id.

#ifndef TENSORCASK_TENSOR_MEMORY_CUDA_BACKEND_H_
#define TENSORCASK_TENSOR_MEMORY_CUDA_BACKEND_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {

namespace internal {
struct CudaDriver;
}  // namespace internal

class CudaBackend final : public DeviceBackend {
 public:
  struct Options {
    int device = 0;  // as cuDeviceGet counts
    std::string library = "libcuda.so.1";
  };

  // Errors: Unimplemented, saying what is missing, without a driver library of version 11.0 or later, or without a
  // device of this number; Internal and others if the driver fails.
  static absl::StatusOr<RefPtr<CudaBackend>> Create(const Options& options);

  absl::string_view name() const override { return name_; }  // "cuda:0"
  Device device() const override { return {DeviceType::kCuda, options_.device}; }

  absl::StatusOr<void*> Allocate(size_t bytes) override;
  absl::Status Free(void* block, size_t bytes) override;
  absl::StatusOr<DeviceMemoryInfo> MemoryInfo() override;
  absl::StatusOr<void*> AllocateHost(size_t bytes) override;
  absl::Status FreeHost(void* block, size_t bytes) override;
  // 0 for devices and drivers without virtual memory.
  size_t MappingGranularity() const override { return mapping_bytes_; }
  absl::StatusOr<void*> ReserveAddresses(size_t bytes) override;
  absl::Status FreeAddresses(void* start, size_t bytes) override;
  absl::Status Map(void* start, size_t bytes) override;
  absl::Status Unmap(void* start, size_t bytes) override;
  absl::StatusOr<StreamId> CreateStream() override;
  absl::Status DestroyStream(StreamId stream) override;
  absl::Status Synchronize(StreamId stream) override;
  absl::StatusOr<bool> IsIdle(StreamId stream) override;
  absl::Status SynchronizeAll() override;
  absl::StatusOr<EventId> RecordEvent(StreamId stream) override;
  absl::StatusOr<bool> QueryEvent(EventId event) override;
  absl::Status SynchronizeEvent(EventId event) override;
  absl::Status WaitForEvent(StreamId stream, EventId event) override;
  void DestroyEvent(EventId event) override;
  absl::Status Copy(CopyKind kind, void* to, const void* from, size_t bytes, StreamId stream) override;
  absl::Status Fill(void* to, uint8_t value, size_t bytes, StreamId stream) override;

  // Gives a stream of another library (a cudaStream_t or CUstream of this device) an id. The other library keeps the
  // stream alive until DestroyStream(id), which waits for its work and only forgets the id.
  StreamId AdoptStream(void* stream);
  // The CUstream of an id, for other libraries; null for stream 0.
  // Errors: InvalidArgument for a stream that does not exist.
  absl::StatusOr<void*> StreamHandle(StreamId stream) const;

 private:
  struct Stream {
    void* handle = nullptr;
    bool is_adopted = false;
  };

  CudaBackend(const Options& options, std::unique_ptr<const internal::CudaDriver> driver);
  ~CudaBackend() override;

  absl::Status Start();  // once, before all others
  absl::StatusOr<size_t> FindMappingGranularity() const;
  // Inserts the one node of `from`, with the next number and `value`. Requires: the lock is held.
  template <typename T>
  int64_t AddNode(std::map<int64_t, T>& from, T value, std::map<int64_t, T>& to);
  // Calls `call` with the context current; `what` is for the message.
  template <typename Call>
  absl::Status Do(absl::string_view what, Call&& call) const;
  absl::StatusOr<void*> EventOf(EventId event) const;

  const Options options_;
  const std::string name_;
  const std::unique_ptr<const internal::CudaDriver> driver_;
  int cuda_device_ = 0;
  void* context_ = nullptr;
  size_t mapping_bytes_ = 0;
  mutable std::mutex mutex_;
  std::map<StreamId, Stream> streams_;
  std::map<EventId, void*> events_;
  int64_t next_id_ = 1;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_CUDA_BACKEND_H_
