#include "tensorcask/tensor/base/bool_bytes.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

bool AreBools(absl::string_view bytes) {
  uint8_t seen = 0;  // all bits of all bytes: a loop without branches
  for (const char byte : bytes) seen |= static_cast<uint8_t>(byte);
  return seen <= 1;
}

absl::Status CheckBools(absl::string_view bytes) {
  if (AreBools(bytes)) return absl::OkStatus();
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; });
  return absl::InvalidArgumentError(absl::StrCat("byte ", bad - bytes.begin(), " is ",
                                                 static_cast<int>(static_cast<uint8_t>(*bad)), "; a bool is 0 or 1"));
}

}  // namespace tensorcask
