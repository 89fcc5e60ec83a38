// Writes a sorted table of keys and values: the file of a checkpoint's index (FORMAT.md section 3).
//
//   TableWriter table(&sink, {});
//   CASK_RETURN_IF_ERROR(table.Add("", header));
//   CASK_RETURN_IF_ERROR(table.Add("w", entry));
//   CASK_RETURN_IF_ERROR(table.Finish());
//
// Knows nothing of tensors. Blocks are never compressed. The same keys, values and options give the same bytes, and
// with the default options those of TensorFlow's and LevelDB's table builders.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_WRITER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/byte_sink.h"

namespace tensorcask::checkpoint {

struct TableOptions {
  size_t block_bytes = 256 << 10;  // a data block is closed when it has grown to this
  int restart_interval = 16;       // every so many entries a key is written whole
};

// The entries of one block, keys sharing prefixes with those before them.
class BlockBuilder {
 public:
  explicit BlockBuilder(int restart_interval) : restart_interval_(restart_interval) { Reset(); }

  // Requires: `key` is greater than the last.
  void Add(absl::string_view key, absl::string_view value);
  // The whole block, restart array included; Reset before the next Add.
  absl::string_view Finish();
  void Reset();

  size_t EstimatedBytes() const;  // about what Finish() takes
  bool empty() const { return bytes_.empty(); }

 private:
  const int restart_interval_;
  std::string bytes_;
  std::vector<uint32_t> restarts_;
  int since_restart_ = 0;
  std::string last_key_;
};

class TableWriter {
 public:
  TableWriter(ByteSink* sink, const TableOptions& options);  // `sink` outlives the writer

  // Errors: InvalidArgument unless `key` is greater (as unsigned bytes) than all before it, or for 4 GiB and more of
  // key or value; those of the sink.
  absl::Status Add(absl::string_view key, absl::string_view value);
  // Writes what is left, the index of blocks and the footer.
  absl::Status Finish();

 private:
  absl::Status FlushDataBlock();
  absl::Status WriteBlock(BlockBuilder* block, BlockHandle* handle);

  ByteSink* const sink_;
  const TableOptions options_;
  BlockBuilder data_block_;
  BlockBuilder index_block_;
  bool any_key_ = false;
  std::string last_key_;
  bool pending_handle_ = false;  // a block was closed; its index key waits for the next key
  BlockHandle handle_;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_WRITER_H_
