#include "tensorcask/serialize/payload/codec/payload_level.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask {

absl::string_view PayloadLevelName(PayloadLevel level) {
  switch (level) {
    case PayloadLevel::kStored:
      return "stored";
    case PayloadLevel::kDefault:
      return "default";
    case PayloadLevel::kHigh:
      return "high";
  }
  return "unknown";
}

absl::StatusOr<PayloadLevel> ParsePayloadLevel(absl::string_view name) {
  for (const PayloadLevel level : {PayloadLevel::kStored, PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    if (name == PayloadLevelName(level)) return level;
  }
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is not a level; wanted stored, default or high"));
}

}  // namespace tensorcask
