#include "tensorcask/tensor/memory/device_backend.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"

namespace tensorcask {

absl::StatusOr<void*> DeviceBackend::AllocateHost(size_t bytes) { return CpuAllocator::Default()->TryAllocate(bytes); }

absl::Status DeviceBackend::FreeHost(void* block, size_t bytes) {
  CpuAllocator::Default()->Deallocate(block, bytes);
  return absl::OkStatus();
}

}  // namespace tensorcask
