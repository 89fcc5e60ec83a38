#include "tensorcask/tensor/base/status_util.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace tensorcask {
namespace {

constexpr char kMark[] = "tensorcask/origin";

// `status` with another code and message, and with its payloads. Requires: !status.ok().
absl::Status Rewritten(const absl::Status& status, absl::StatusCode code, absl::string_view message) {
  absl::Status rewritten(code, message);
  status.ForEachPayload([&](absl::string_view key, const absl::Cord& payload) { rewritten.SetPayload(key, payload); });
  return rewritten;
}

}  // namespace

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  return status.ok() ? status : Rewritten(status, status.code(), absl::StrCat(context, ": ", status.message()));
}

absl::Status AppendToMessage(const absl::Status& status, absl::string_view text) {
  return status.ok() ? status : Rewritten(status, status.code(), absl::StrCat(status.message(), text));
}

absl::Status AsDataLoss(const absl::Status& status, absl::string_view file) {
  if (status.ok()) return status;
  const absl::StatusCode code = absl::IsInvalidArgument(status) ? absl::StatusCode::kDataLoss : status.code();
  return Rewritten(status, code, absl::StrCat(file, ": ", status.message()));
}

absl::Status MarkResourceFailure(absl::Status status) {
  status.SetPayload(kMark, absl::Cord("process"));
  return status;
}

bool IsResourceFailure(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace tensorcask
