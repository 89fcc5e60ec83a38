// Reads a sorted table of keys and values, trusting none of its bytes (FORMAT.md section 3).
//
//   CASK_ASSIGN_OR_RETURN(auto table, TableReader::Open(source, {}));
//   CASK_ASSIGN_OR_RETURN(std::optional<absl::string_view> value, table->Find("w"));
//
// Open reads the footer and the index of blocks, and checks that blocks follow each other inside the file. A data block
// is read when it is first needed. The reader then checks its checksum, its structure, and that its keys increase and
// lie between the keys in the index of blocks. So keys increase through all blocks that were read. Find keeps the
// block. Errors name the file, what was found and what was wanted: DataLoss if the file is not a table or is damaged,
// ResourceExhausted past a limit. Thread-safe.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"

namespace tensorcask::checkpoint {

class TableReader {
 public:
  virtual ~TableReader() = default;

  static absl::StatusOr<std::unique_ptr<TableReader>> Open(std::shared_ptr<const ByteSource> source,
                                                           const DecodeLimits& limits);

  // The value under `key`; empty if there is none. The bytes live as long as the reader.
  virtual absl::StatusOr<std::optional<absl::string_view>> Find(absl::string_view key) const = 0;

  // Calls fn(value) with the value under `key`. False if there is none. The reader keeps only the block that was
  // visited last: visit large values in the order of their keys. Errors: those of Find; those of fn.
  virtual absl::StatusOr<bool> Visit(absl::string_view key,
                                     absl::FunctionRef<absl::Status(absl::string_view)> fn) const = 0;

  // Calls fn(key, value) for every entry in order, and verifies the metaindex block, which no other method reads. Stops
  // at the first error, the table's or fn's. Both views are valid during the call only. `memory` is charged with the
  // block that is in memory (null: a quota of its own, as NewQuota makes it).
  virtual absl::Status ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn,
                               DecodeQuota* memory = nullptr) const = 0;

  // The number of entries whose keys are not less than `key`. Verifies every block, as ForEach does, and does not join
  // keys or visit values: a third of its time. `memory` is charged with the block that is in memory.
  virtual absl::StatusOr<uint64_t> CountFrom(absl::string_view key, DecodeQuota* memory) const = 0;

  // A walk that its caller advances. One block is in memory at a time.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    // Moves to the next entry, at first to the first one; false after the last one. Errors: those of the table.
    virtual absl::StatusOr<bool> Next() = 0;
    virtual absl::string_view key() const = 0;  // valid until Next
    virtual absl::string_view value() const = 0;
  };
  // `memory` is charged with the block in memory. It and the reader outlive the cursor.
  virtual std::unique_ptr<Cursor> NewCursor(DecodeQuota* memory) const = 0;

  // The quota for memory that the reader keeps, and that its users keep in proportion to the table:
  // max_memory_beyond_input and twice the bytes of the file.
  virtual DecodeQuota* memory() const = 0;
  // A quota with the same limit for one call, already charged with the memory that the reader keeps.
  virtual DecodeQuota NewQuota() const = 0;

  virtual uint64_t num_blocks() const = 0;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_TABLE_READER_H_
