#include "tensorcask/serialize/checkpoint/read/stored_ranges.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {

absl::Status StoredRanges::Add(const CheckpointEntry& entry, uint32_t number) {
  if (entry.stored_bytes == 0 || !entry.slices.empty()) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(charge_.Add(sizeof(Range)));
  if (entry.payload != nullptr) {
    const bool is_known = !encoded_.empty() && *encoded_.back().payload == *entry.payload;
    constexpr uint64_t kAllocatedBytes = 2 * sizeof(PayloadHeader);
    CASK_RETURN_IF_ERROR(charge_.Add(sizeof(Encoded) + (is_known ? 0 : kAllocatedBytes)));
    encoded_.push_back({number, entry.masked_crc32c, is_known ? encoded_.back().payload : entry.payload});
  }
  ranges_.push_back({entry.offset, entry.stored_bytes, number, entry.shard});
  return absl::OkStatus();
}

const StoredRanges::Encoded* StoredRanges::EncodedOf(uint32_t number) const {
  const auto found = std::lower_bound(encoded_.begin(), encoded_.end(), number,
                                      [](const Encoded& encoded, uint32_t wanted) { return encoded.number < wanted; });
  return found != encoded_.end() && found->number == number ? &*found : nullptr;
}

const PayloadHeader* StoredRanges::SamePayload(const Range& a, const Range& b) const {
  if (a.shard != b.shard || a.offset != b.offset || a.size_bytes != b.size_bytes) return nullptr;
  const Encoded* const first = EncodedOf(a.number);
  const Encoded* const second = EncodedOf(b.number);
  if (first == nullptr || second == nullptr || first->masked_crc32c != second->masked_crc32c) return nullptr;
  return *first->payload == *second->payload ? second->payload.get() : nullptr;
}

void StoredRanges::FindOverlaps(const DecodeLimits& limits, absl::FunctionRef<void(const Overlap&)> fn) {
  FindOverlaps(
      limits, [](uint32_t) { return true; }, fn);
}

void StoredRanges::FindOverlaps(const DecodeLimits& limits, absl::FunctionRef<bool(uint32_t)> counts,
                                absl::FunctionRef<void(const Overlap&)> fn) {
  const auto before = [](const Range& a, const Range& b) {
    return std::tie(a.shard, a.offset, a.number) < std::tie(b.shard, b.offset, b.number);
  };
  if (!std::is_sorted(ranges_.begin(), ranges_.end(), before)) std::sort(ranges_.begin(), ranges_.end(), before);
  const Range* furthest = nullptr;  // the range so far that ends last
  uint64_t shares = 1;              // how many entries share that range
  for (const Range& range : ranges_) {
    if (!counts(range.number)) continue;
    if (furthest == nullptr || furthest->shard != range.shard) {
      furthest = &range;
      shares = 1;
      continue;
    }
    if (const PayloadHeader* const payload = SamePayload(*furthest, range)) {
      if (payload->decoded_bytes() <= MaxDecodedBytes(range.size_bytes, limits) / (shares + 1)) {
        ++shares;
        continue;
      }
      fn({furthest->number, range.number, furthest->offset,
          PastLimit(
              absl::StrCat(shares + 1, " entries share these ", range.size_bytes, " bytes, each decodes to ",
                           payload->decoded_bytes(), ", and together they pass max_expansion times what is stored"),
              "max_expansion", limits.max_expansion)});
      continue;
    }
    const uint64_t end = furthest->offset + furthest->size_bytes;  // below 2^63: DecodeEntry checks that
    if (range.offset < end) fn({furthest->number, range.number, furthest->offset, absl::OkStatus()});
    if (range.offset + range.size_bytes <= end) continue;
    furthest = &range;
    shares = 1;
  }
}

}  // namespace tensorcask::checkpoint
