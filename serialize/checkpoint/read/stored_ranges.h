// Collects the ranges of data files that entries point to, and finds those that overlap.
//
//   StoredRanges ranges(&memory);
//   CASK_RETURN_IF_ERROR(ranges.Add(entry, /*number=*/17));
//   ranges.FindOverlaps(limits, [&](const StoredRanges::Overlap& overlap) { ... });
//
// An entry takes 24 bytes of memory here; one whose payload differs from that of the entry before, about 150.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_STORED_RANGES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_STORED_RANGES_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/payload/payload_header.h"

namespace tensorcask::checkpoint {

class StoredRanges {
 public:
  // `memory` is charged with what the ranges take, and outlives this.
  explicit StoredRanges(DecodeQuota* memory) : charge_(memory) {}

  // Adds the range of `entry` under `number`, which must be larger than all numbers before. An entry without bytes or
  // in slices adds nothing. Errors: those of the quota.
  absl::Status Add(const CheckpointEntry& entry, uint32_t number);

  // The range of entry `latter` begins inside that of entry `former`, at `former_offset`.
  struct Overlap {
    uint32_t former;
    uint32_t latter;
    uint64_t former_offset;
    absl::Status limit;  // ResourceExhausted: they share a payload, past max_expansion; OK: damage
  };
  // Calls fn for each overlap. Encoded entries with equal headers may share one range, up to MaxDecodedBytes together.
  // Sorts the ranges.
  void FindOverlaps(const DecodeLimits& limits, absl::FunctionRef<void(const Overlap&)> fn);
  // The same, only for entries for which `counts` is true.
  void FindOverlaps(const DecodeLimits& limits, absl::FunctionRef<bool(uint32_t)> counts,
                    absl::FunctionRef<void(const Overlap&)> fn);

 private:
  struct Range {
    uint64_t offset;
    uint64_t size_bytes;
    uint32_t number;
    int32_t shard;
  };
  struct Encoded {
    uint32_t number;
    uint32_t masked_crc32c;
    std::shared_ptr<const PayloadHeader> payload;
  };

  const Encoded* EncodedOf(uint32_t number) const;  // null if that entry is not encoded
  // The payload of both, if they are encoded, have equal headers and one range; else null.
  const PayloadHeader* SamePayload(const Range& a, const Range& b) const;

  QuotaCharge charge_;
  std::deque<Range> ranges_;     // a vector would be in memory twice while it grows
  std::deque<Encoded> encoded_;  // by number
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_STORED_RANGES_H_
