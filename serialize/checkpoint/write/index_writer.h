// Writes the index of a checkpoint: the header and the record of each tensor, sorted by key.
//
//   std::deque<IndexItem> items;
//   items.emplace_back("w").value = EncodeEntry(entry, extension);
//   CASK_RETURN_IF_ERROR(WriteIndex(items, /*num_data_files=*/1, /*base=*/"", /*block_bytes=*/16 << 10, sink));

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_INDEX_WRITER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_INDEX_WRITER_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "tensorcask/serialize/checkpoint/write/tensor_job.h"
#include "tensorcask/serialize/io/byte_sink.h"

namespace tensorcask::checkpoint {

// `items` in any order. `base`: as IndexHeader::base, written if an item is a delta. block_bytes 0: the default of
// TableOptions. Errors: those of the sink. Requires: the keys differ.
absl::Status WriteIndex(const std::deque<IndexItem>& items, int num_data_files, const std::string& base,
                        size_t block_bytes, ByteSink* sink);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_INDEX_WRITER_H_
