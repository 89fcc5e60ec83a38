#include "tensorcask/serialize/io/decode_quota.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

absl::Status PastLimit(absl::string_view what, absl::string_view limit_name, int64_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(what, "; the limit ", limit_name, " is ", limit));
}

DecodeQuota::DecodeQuota(const char* limit_name, int64_t limit, uint64_t backed, const char* unit, uint64_t charged)
    : limit_name_(limit_name),
      unit_(unit),
      limit_(limit),
      backed_(backed),
      allowed_(std::min(CheckedAdd(LimitOf(limit), backed).value_or(kTooMany - 1), kTooMany - 1)),
      charged_(charged) {}

DecodeQuota DecodeQuota::ForFile(const DecodeLimits& limits) {
  return DecodeQuota("max_file_decoded_bytes", limits.max_file_decoded_bytes);
}

DecodeQuota DecodeQuota::ForUnbacked(const DecodeLimits& limits, uint64_t backed, uint64_t charged) {
  return DecodeQuota("max_memory_beyond_input", limits.max_memory_beyond_input, backed, "unbacked bytes", charged);
}

absl::Status DecodeQuota::Refuse(uint64_t amount, uint64_t before) const {
  std::string what = absl::StrCat("decodes to ", amount == kTooMany ? "2^63 or more" : absl::StrCat(amount), " ", unit_,
                                  before == 0 ? "" : absl::StrCat(", after ", before, " that were decoded before"));
  if (backed_ > 0) absl::StrAppend(&what, "; the input backs ", backed_);
  return PastLimit(what, limit_name_, limit_);
}

absl::Status MessageQuota::Charge(std::optional<int64_t> bytes, std::optional<int64_t> unbacked) {
  const auto amount = [](std::optional<int64_t> number) {
    return number.has_value() ? LimitOf(*number) : DecodeQuota::kTooMany;
  };
  CASK_RETURN_IF_ERROR(bytes_.Charge(amount(bytes)));
  return unbacked_.Charge(amount(unbacked));
}

}  // namespace tensorcask
