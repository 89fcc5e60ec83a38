#include "tensorcask/tests/fuzz/mend_table.h"

#include <cstddef>
#include <cstdint>

#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::testing {
namespace {

using checkpoint::BlockHandle;
using checkpoint::kBlockTrailerBytes;
using checkpoint::kFooterBytes;
using checkpoint::ParseHandle;

constexpr int kMaxBlocks = 64;  // for a seed; a broken index may name one block very often

// Calls fn(suffix, value) for each entry of the block, up to the first that is broken.
void ForEachEntry(absl::Span<char> block, absl::FunctionRef<void(absl::string_view, absl::Span<char>)> fn) {
  absl::string_view rest(block.data(), block.size());
  while (!rest.empty()) {
    uint64_t shared = 0, suffix_bytes = 0, value_bytes = 0;
    if (!ParseCanonicalVarint(&rest, &shared) || !ParseCanonicalVarint(&rest, &suffix_bytes) ||
        !ParseCanonicalVarint(&rest, &value_bytes) || suffix_bytes > rest.size() ||
        value_bytes > rest.size() - suffix_bytes) {
      return;
    }
    const absl::string_view suffix = rest.substr(0, static_cast<size_t>(suffix_bytes));
    const size_t value_at = static_cast<size_t>(suffix.data() - block.data()) + suffix.size();
    fn(suffix, block.subspan(value_at, static_cast<size_t>(value_bytes)));
    rest.remove_prefix(suffix.size() + static_cast<size_t>(value_bytes));
  }
}

// The content of the block at `handle`; empty if it is not in the table.
absl::Span<char> ContentOf(absl::Span<char> table, const BlockHandle& handle) {
  if (handle.size_bytes > table.size() ||
      !RangeFits(handle.offset, handle.size_bytes + kBlockTrailerBytes, table.size())) {
    return {};
  }
  return table.subspan(static_cast<size_t>(handle.offset), static_cast<size_t>(handle.size_bytes));
}

void MendChecksum(absl::Span<char> content) {
  if (content.empty()) return;
  const absl::string_view covered(content.data(), content.size() + 1);  // with the type after it
  StoreLittleEndian(MaskCrc32c(Crc32c(covered)), content.data() + covered.size());
}

}  // namespace

void MendTable(absl::Span<char> table, absl::FunctionRef<void(absl::string_view, absl::Span<char>)> mend_value) {
  if (table.size() < kFooterBytes) return;
  StoreLittleEndian(checkpoint::kTableMagic, table.data() + table.size() - sizeof(checkpoint::kTableMagic));
  absl::string_view footer(table.data() + table.size() - kFooterBytes, kFooterBytes);
  BlockHandle metaindex, index;
  if (!ParseHandle(&footer, &metaindex) || !ParseHandle(&footer, &index)) return;
  int blocks = 0;
  ForEachEntry(ContentOf(table, index), [&](absl::string_view, absl::Span<char> value) {
    absl::string_view bytes(value.data(), value.size());
    BlockHandle handle;
    if (!ParseHandle(&bytes, &handle) || ++blocks > kMaxBlocks) return;
    const absl::Span<char> content = ContentOf(table, handle);
    ForEachEntry(content, mend_value);
    MendChecksum(content);
  });
  MendChecksum(ContentOf(table, metaindex));
  MendChecksum(ContentOf(table, index));
}

}  // namespace tensorcask::testing
