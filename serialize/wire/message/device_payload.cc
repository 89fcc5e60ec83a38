#include "tensorcask/serialize/wire/message/device_payload.h"

#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask::internal {

absl::Status DecodeTarget::MoveToDevice(TensorView* view) const {
  if (IsObject(view->dtype())) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(*view, CloneAcross(*view, given_.allocator));
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
