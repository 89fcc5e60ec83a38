#include "tensorcask/tensor/memory/device_backend.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

absl::StatusOr<void*> DeviceBackend::AllocateHost(size_t bytes) { return CpuAllocator::Default()->TryAllocate(bytes); }

absl::Status DeviceBackend::FreeHost(void* block, size_t bytes) {
  CpuAllocator::Default()->Deallocate(block, bytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceBackend::IsIdle(StreamId stream) {
  CASK_ASSIGN_OR_RETURN(const EventId event, RecordEvent(stream));
  absl::StatusOr<bool> is_idle = QueryEvent(event);
  DestroyEvent(event);
  return is_idle;
}

absl::Status DeviceBackend::Order(StreamId earlier, StreamId later) {
  if (earlier == later) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const EventId event, RecordEvent(earlier));
  const absl::Status status = WaitForEvent(later, event);
  DestroyEvent(event);
  return status;
}

absl::StatusOr<void*> DeviceBackend::ReserveAddresses(size_t /*bytes*/) {
  return absl::UnimplementedError(absl::StrCat(name(), ": the device has no virtual memory"));
}
absl::Status DeviceBackend::FreeAddresses(void* /*start*/, size_t bytes) { return ReserveAddresses(bytes).status(); }
absl::Status DeviceBackend::Map(void* /*start*/, size_t bytes) { return ReserveAddresses(bytes).status(); }
absl::Status DeviceBackend::Unmap(void* /*start*/, size_t bytes) { return ReserveAddresses(bytes).status(); }

}  // namespace tensorcask
