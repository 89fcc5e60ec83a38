#include "tensorcask/serialize/checkpoint/decoded_bytes.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"

namespace tensorcask::checkpoint {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

}  // namespace

uint64_t AddSizes(uint64_t a, uint64_t b) { return CheckedAdd(a, b).value_or(kMost); }

uint64_t DecodedSize(DType dtype, int64_t elements, uint64_t stored_bytes) {
  const uint64_t bytes = CheckedMul(static_cast<uint64_t>(elements), uint64_t{ObjectBytes(dtype)}).value_or(kMost);
  return IsObject(dtype) ? AddSizes(bytes, stored_bytes) : bytes;
}

DecodedBytes::DecodedBytes(const DecodeLimits& limits)
    : limit_(static_cast<uint64_t>(std::max<int64_t>(limits.max_file_decoded_bytes, 0))) {}

absl::Status DecodedBytes::Take(uint64_t bytes) {
  uint64_t before = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - before) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "takes ", bytes == kMost ? "2^64 or more" : absl::StrCat(bytes), " bytes",
          before == 0 ? "" : absl::StrCat(", beside ", before, " before"), ", past max_file_decoded_bytes ", limit_));
    }
  } while (!taken_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return absl::OkStatus();
}

}  // namespace tensorcask::checkpoint
