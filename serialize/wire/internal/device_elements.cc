#include "tensorcask/serialize/wire/internal/device_elements.h"

#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/internal/device_elements.h"

namespace tensorcask::internal {

const DecodeOptions& HostOptions(const DecodeOptions& options, std::optional<DecodeOptions>* on_host) {
  if (options.allocator->device_memory() == nullptr) return options;
  DecodeOptions& changed = on_host->emplace(options);
  changed.allocator = CpuAllocator::Default();
  return changed;
}

absl::Status MoveToAllocator(const DecodeOptions& options, TensorView* view) {
  if (options.allocator->device_memory() == nullptr || IsObject(view->dtype())) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(*view, CloneAcross(*view, options.allocator));
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
