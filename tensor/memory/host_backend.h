// The host as a device: memory of the C library, and work that is finished when the call returns.
//
//   RefPtr<DeviceBackend> host = HostBackend::Make();
//   RefPtr<CachingAllocator> cache = CachingAllocator::Make(host);
//
// Streams and events exist, so code that is written for devices runs unchanged; each event is complete at once.

#ifndef TENSORCASK_TENSOR_MEMORY_HOST_BACKEND_H_
#define TENSORCASK_TENSOR_MEMORY_HOST_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {

class HostBackend final : public DeviceBackend {
 public:
  // Memory comes from `allocator`; null: CpuAllocator::Default().
  static RefPtr<HostBackend> Make(RefPtr<Allocator> allocator = nullptr);

  absl::string_view name() const override { return "host"; }
  Device device() const override { return Device(); }
  bool host_can_access() const override { return true; }

  absl::StatusOr<void*> Allocate(size_t bytes) override;
  absl::Status Free(void* block, size_t bytes) override;
  // The physical memory of the machine. Unimplemented where the system does not tell it.
  absl::StatusOr<DeviceMemoryInfo> MemoryInfo() override;
  absl::StatusOr<StreamId> CreateStream() override;
  absl::Status DestroyStream(StreamId stream) override;
  absl::Status Synchronize(StreamId stream) override;
  absl::Status SynchronizeAll() override { return absl::OkStatus(); }
  absl::StatusOr<EventId> RecordEvent(StreamId stream) override;
  absl::StatusOr<bool> QueryEvent(EventId event) override;
  absl::Status SynchronizeEvent(EventId event) override;
  absl::Status WaitForEvent(StreamId stream, EventId event) override;
  void DestroyEvent(EventId event) override;
  absl::Status Copy(CopyKind kind, void* to, const void* from, size_t bytes, StreamId stream) override;
  absl::Status Fill(void* to, uint8_t value, size_t bytes, StreamId stream) override;

 private:
  explicit HostBackend(RefPtr<Allocator> allocator) : allocator_(std::move(allocator)) {}

  absl::Status CheckStream(StreamId stream) const;
  absl::Status CheckEvent(EventId event) const;

  const RefPtr<Allocator> allocator_;
  mutable std::mutex mutex_;
  std::set<StreamId> streams_ = {kDefaultStream};
  std::set<EventId> events_;
  int64_t next_id_ = 1;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_HOST_BACKEND_H_
