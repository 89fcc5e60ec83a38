#include "tensorcask/serialize/io/damage_mark.h"

#include "absl/strings/cord.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr char kMarkUrl[] = "tensorcask/damage";
constexpr char kChecksum[] = "checksum";
constexpr char kPart[] = "part";

}  // namespace

absl::Status MarkWrongChecksum(absl::Status status) {
  status.SetPayload(kMarkUrl, absl::Cord(kChecksum));
  return status;
}

absl::Status MarkDamagedPart(absl::Status status) {
  if (absl::IsDataLoss(status) && !IsDamagedPart(status) && !IsResourceFailure(status)) {
    status.SetPayload(kMarkUrl, absl::Cord(kPart));
  }
  return status;
}

absl::Status MarkDamageOf(const absl::Status& cause, absl::Status status) {
  const auto mark = cause.GetPayload(kMarkUrl);
  if (mark.has_value()) status.SetPayload(kMarkUrl, *mark);
  return status;
}

bool IsDamagedPart(const absl::Status& status) { return status.GetPayload(kMarkUrl).has_value(); }

bool HasWrongChecksum(const absl::Status& status) {
  const auto mark = status.GetPayload(kMarkUrl);
  return mark.has_value() && *mark == kChecksum;
}

}  // namespace tensorcask
