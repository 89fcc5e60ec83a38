#include "tensorcask/serialize/payload/payload_options.h"

#include "absl/strings/str_cat.h"

namespace tensorcask {

absl::Status PayloadOptions::Validate() const {
  if (level > PayloadLevel::kHigh) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no level ", static_cast<int>(level), "; wanted 0 (stored), 1 (default) or 2 (high)"));
  }
  const bool is_power_of_two = (chunk_bytes & (chunk_bytes - 1)) == 0;
  if (!is_power_of_two || chunk_bytes < size_t{1} << kMinLog2ChunkBytes ||
      chunk_bytes > size_t{1} << kMaxLog2ChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_bytes is ", chunk_bytes, "; wanted a power of two from 64 KiB to 4 MiB"));
  }
  return absl::OkStatus();
}

}  // namespace tensorcask
