#include "tensorcask/serialize/io/decode_limits.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask {
namespace {

struct Limit {
  absl::string_view name;
  int64_t DecodeLimits::*field;
};
constexpr Limit kLimits[] = {
    {"max_memory_beyond_input", &DecodeLimits::max_memory_beyond_input},
    {"max_message_bytes", &DecodeLimits::max_message_bytes},
    {"max_file_decoded_bytes", &DecodeLimits::max_file_decoded_bytes},
    {"max_name_bytes", &DecodeLimits::max_name_bytes},
    {"max_entries", &DecodeLimits::max_entries},
    {"max_expansion", &DecodeLimits::max_expansion},
};
constexpr int kMostDepth = 1000;  // for a stack of 8 MiB

}  // namespace

absl::Status SetLimit(absl::string_view name, int64_t value, DecodeLimits* limits) {
  if (value < 1) return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; wanted 1 or more"));
  if (name == "max_depth") {
    if (value > kMostDepth) {
      return absl::InvalidArgumentError(absl::StrCat("max_depth is ", value, "; wanted at most ", kMostDepth));
    }
    limits->max_depth = static_cast<int>(value);
    return absl::OkStatus();
  }
  std::string names = "max_depth";
  for (const Limit& limit : kLimits) {
    if (limit.name == name) {
      limits->*limit.field = value;
      return absl::OkStatus();
    }
    absl::StrAppend(&names, ", ", limit.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("no limit is called ", Quoted(name), "; there are ", names));
}

}  // namespace tensorcask
