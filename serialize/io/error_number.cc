#include "tensorcask/serialize/io/error_number.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/types/optional.h"

namespace tensorcask {
namespace {

constexpr char kKey[] = "tensorcask/errno";  // as IoError writes it, in file_system.cc

}  // namespace

int ErrorNumberOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kKey);
  int error = 0;
  return payload.has_value() && absl::SimpleAtoi(std::string(*payload), &error) ? error : 0;
}

}  // namespace tensorcask
