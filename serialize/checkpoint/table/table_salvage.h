// Salvages a damaged table (FORMAT.md section 3): finds each whole block, wherever it is in the file, and in the rest
// the entries that can still be parsed. Internal.
//
//   SalvageTable(bytes, limits, options.is_value,
//                [&](absl::string_view key, absl::string_view value) { ... },
//                [&](const LostRange& lost) { ... });
//
// Neither the footer nor the index of blocks is needed: SalvageTable searches for blocks (block_search.h). The footer
// and the index of blocks are used only to find out whether blocks are missing.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_SALVAGE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_SALVAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::checkpoint {

// An entry that damaged bytes still show. No checksum confirms it.
struct UnverifiedEntry {
  std::string key;
  absl::string_view value;  // in the bytes of the table
};

// A range of the file without a whole block, where blocks with entries were or may have been.
struct LostRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;  // 0: bytes were removed here
  std::vector<UnverifiedEntry> entries;
};

// Calls take(key, value) for every entry of every whole block, keys increasing; a block out of order counts as damaged.
// Then lost(range) for each missing part, in order; not at all if the table is provably complete. `is_value` returns
// true for bytes that look like a value of this table. It is called for damaged bytes; all calls together read bytes in
// proportion to the file. Unverified entries take limits.max_memory_beyond_input at most. Requires: fewer than 4 GiB.
void SalvageTable(absl::string_view bytes, const DecodeLimits& limits,
                  absl::FunctionRef<bool(absl::string_view value)> is_value,
                  absl::FunctionRef<void(absl::string_view key, absl::string_view value)> take,
                  absl::FunctionRef<void(const LostRange&)> lost);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_SALVAGE_H_
