#include "tensorcask/tensor/memory/host_backend.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/memory_pages.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/memory/device_backend.h"

namespace tensorcask {

RefPtr<HostBackend> HostBackend::Make(RefPtr<Allocator> allocator) {
  if (allocator == nullptr) allocator = CpuAllocator::Default();
  return RefPtr<HostBackend>::AdoptNew(new HostBackend(std::move(allocator)));
}

absl::StatusOr<void*> HostBackend::Allocate(size_t bytes) {
  void* const block = allocator_->Allocate(bytes);
  if (block == nullptr)
    return MarkProcessError(absl::ResourceExhaustedError(absl::StrCat("host: no memory for ", bytes, " bytes")));
  return block;
}

absl::Status HostBackend::Free(void* block, size_t bytes) {
  allocator_->Deallocate(block, bytes);
  return absl::OkStatus();
}

absl::StatusOr<DeviceMemoryInfo> HostBackend::MemoryInfo() {
  const std::optional<uint64_t> total_bytes = internal::MachineMemoryBytes();
  const std::optional<uint64_t> free_bytes = internal::FreeMemoryBytes();
  if (total_bytes.has_value() && free_bytes.has_value()) {
    DeviceMemoryInfo info;
    info.free_bytes = *free_bytes;
    info.total_bytes = *total_bytes;
    return info;
  }
  return absl::UnimplementedError("host: the system does not report its physical memory");
}

absl::StatusOr<StreamId> HostBackend::CreateStream() {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.insert(next_id_);
  return next_id_++;
}

absl::Status HostBackend::DestroyStream(StreamId stream) {
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  if (stream == kDefaultStream) return absl::InvalidArgumentError("host: stream 0 cannot be destroyed");
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.erase(stream);
  return absl::OkStatus();
}

absl::Status HostBackend::Synchronize(StreamId stream) { return CheckStream(stream); }

absl::StatusOr<EventId> HostBackend::RecordEvent(StreamId stream) {
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.insert(next_id_);
  return next_id_++;
}

absl::StatusOr<bool> HostBackend::QueryEvent(EventId event) {
  CASK_RETURN_IF_ERROR(CheckEvent(event));
  return true;
}

absl::Status HostBackend::SynchronizeEvent(EventId event) { return CheckEvent(event); }

absl::Status HostBackend::WaitForEvent(StreamId stream, EventId event) {
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  return CheckEvent(event);
}

void HostBackend::DestroyEvent(EventId event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.erase(event);
}

absl::Status HostBackend::Copy(CopyKind /*kind*/, void* to, const void* from, size_t bytes, StreamId stream) {
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  if (bytes > 0) std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status HostBackend::Fill(void* to, uint8_t value, size_t bytes, StreamId stream) {
  CASK_RETURN_IF_ERROR(CheckStream(stream));
  if (bytes > 0) std::memset(to, value, bytes);
  return absl::OkStatus();
}

absl::Status HostBackend::CheckStream(StreamId stream) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (streams_.count(stream) != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("host: stream ", stream, " does not exist"));
}

absl::Status HostBackend::CheckEvent(EventId event) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (events_.count(event) != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("host: event ", event, " does not exist"));
}

}  // namespace tensorcask
