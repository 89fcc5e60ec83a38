#include "tensorcask/tensor/base/process_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace tensorcask::internal {
namespace {

constexpr char kMark[] = "tensorcask/origin";

}  // namespace

absl::Status ProcessError(absl::Status status) {
  status.SetPayload(kMark, absl::Cord("process"));
  return status;
}

bool IsProcessError(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

absl::Status Prefixed(absl::string_view what, const absl::Status& status) {
  absl::Status prefixed(status.code(), absl::StrCat(what, ": ", status.message()));
  return IsProcessError(status) ? ProcessError(prefixed) : prefixed;
}

}  // namespace tensorcask::internal
