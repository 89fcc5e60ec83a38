#include "tensorcask/serialize/io/error_number.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace tensorcask {
namespace {

constexpr char kKey[] = "tensorcask/errno";

}  // namespace

int ErrorNumberOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kKey);
  int error = 0;
  return payload.has_value() && absl::SimpleAtoi(std::string(*payload), &error) ? error : 0;
}

absl::Status WithErrorNumber(absl::Status status, int error) {
  status.SetPayload(kKey, absl::Cord(absl::StrCat(error)));
  return status;
}

}  // namespace tensorcask
