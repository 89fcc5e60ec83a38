#include "tensorcask/serialize/checkpoint/write/index_writer.h"

#include <algorithm>
#include <vector>

#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {

absl::Status WriteIndex(const std::deque<IndexItem>& items, int num_data_files, const std::string& base,
                        size_t block_bytes, ByteSink* sink) {
  bool requires_reader_v2 = false;
  bool has_deltas = false;
  std::vector<const IndexItem*> sorted;
  sorted.reserve(items.size());
  for (const IndexItem& item : items) {
    requires_reader_v2 |= item.requires_reader_v2;
    has_deltas |= item.is_delta;
    sorted.push_back(&item);
  }
  std::sort(sorted.begin(), sorted.end(), [](const IndexItem* a, const IndexItem* b) { return a->key < b->key; });
  TableOptions options;
  if (block_bytes != 0) options.block_bytes = block_bytes;
  TableWriter table(sink, options);
  CASK_RETURN_IF_ERROR(table.Add("", EncodeHeader(num_data_files, requires_reader_v2, has_deltas ? base : "")));
  for (const IndexItem* const item : sorted) CASK_RETURN_IF_ERROR(table.Add(item->key, item->value));
  return table.Finish();
}

}  // namespace tensorcask::checkpoint
