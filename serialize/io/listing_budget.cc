#include "tensorcask/serialize/io/listing_budget.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/checked_math.h"

namespace tensorcask {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

}  // namespace

void ListingBudget::AddIndex(uint64_t stored_bytes) {
  uint64_t before = index_bytes_.load(std::memory_order_relaxed);
  while (!index_bytes_.compare_exchange_weak(before, CheckedAdd(before, stored_bytes).value_or(kMost))) {
  }
}

absl::Status ListingBudget::Charge(uint64_t bytes) {
  const uint64_t backed =
      CheckedMul(index_bytes_.load(std::memory_order_relaxed), bytes_per_index_byte_).value_or(kMost);
  const uint64_t allowed = CheckedAdd(LimitOf(limit_), backed).value_or(kMost);
  uint64_t before = charged_.load(std::memory_order_relaxed);
  do {
    if (before > allowed || bytes > allowed - before) {
      return PastLimit(absl::StrCat("the list of the tensors takes more than ", before,
                                    " bytes of memory; the index is good for ", backed),
                       "max_memory_beyond_input", limit_);
    }
  } while (!charged_.compare_exchange_weak(before, before + bytes));
  return absl::OkStatus();
}

}  // namespace tensorcask
