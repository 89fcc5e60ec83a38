// One block of a table, checked as a whole when it is read from the file (FORMAT.md section 3.2).
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<const BlockReader> block, BlockReader::Read(file, handle, limits));
//   std::optional<absl::string_view> value = block->Find("w");
//
// Read checks everything: checksum, compression, the restart array, each entry's lengths, and that keys increase. All
// other methods trust the bytes, which are in private memory and never change. Const methods are safe together.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::checkpoint {

// Reads the stored block at `handle`, verifies its checksum and decompresses it. *content views the content, which is
// at the start of the result. A compressed block may take max_memory_beyond_input more than it stores. `memory`, if not
// null, is charged with the memory before it is allocated; content->size() bytes stay charged. Errors: DataLoss, naming
// the file and the offset; ResourceExhausted past a limit, and nothing stays charged.
absl::StatusOr<RefPtr<TensorBuffer>> ReadBlockContent(const ByteSource& source, const BlockHandle& handle,
                                                      const DecodeLimits& limits, DecodeQuota* memory,
                                                      absl::string_view* content);

// A key that grows out of the key before it: most keys of a block are stored as a suffix.
class JoinedKey {
 public:
  absl::string_view view() const { return absl::string_view(bytes_.data(), size_); }
  // Keeps the first `shared` bytes and puts `suffix` after them. Requires: shared <= view().size().
  void Replace(size_t shared, absl::string_view suffix) {
    size_ = shared + suffix.size();
    if (size_ > bytes_.size()) bytes_.resize(size_);
    if (!suffix.empty()) std::memcpy(&bytes_[shared], suffix.data(), suffix.size());
  }

 private:
  std::string bytes_;  // perhaps longer than the key
  size_t size_ = 0;
};

class BlockReader {
 public:
  // The largest number of entries from one whole key to the next. Looking up a key reads all entries between two whole
  // keys; writers use 16.
  static constexpr int kMaxRestartInterval = 4096;

  // Errors: those of ReadBlockContent; DataLoss for broken structure. content_bytes() stay charged to `memory`.
  static absl::StatusOr<std::unique_ptr<const BlockReader>> Read(const ByteSource& source, const BlockHandle& handle,
                                                                 const DecodeLimits& limits,
                                                                 DecodeQuota* memory = nullptr);

  bool empty() const { return entries_.empty(); }
  size_t num_entries() const { return num_entries_; }
  absl::string_view first_key() const;                             // Requires: !empty()
  absl::string_view last_key() const { return last_key_.view(); }  // Requires: !empty()
  std::optional<absl::string_view> Find(absl::string_view key) const;
  size_t content_bytes() const { return content_.size(); }

  // Walks over the entries in order:  for (Cursor cursor(block); cursor.Next();) ... cursor.key() ...
  class Cursor {
   public:
    explicit Cursor(const BlockReader& block) : rest_(block.entries_) {}
    bool Next();
    absl::string_view key() const { return key_.view(); }  // valid until Next
    absl::string_view value() const { return value_; }
    size_t shared_bytes() const { return shared_bytes_; }  // bytes that the key shares with the key before
    // The same as key(), valid as long as the block. Requires: shared_bytes() == 0.
    absl::string_view whole_key() const { return suffix_; }

   private:
    absl::string_view rest_;
    JoinedKey key_;
    absl::string_view suffix_;
    absl::string_view value_;
    size_t shared_bytes_ = 0;
  };

 private:
  struct Entry {
    size_t shared = 0;
    absl::string_view suffix;
    absl::string_view value;
  };

  BlockReader(RefPtr<TensorBuffer> buffer, absl::string_view content) : buffer_(std::move(buffer)), content_(content) {}
  static bool ConsumeEntry(absl::string_view* rest, Entry* entry);
  absl::Status Check();  // sets the rest of the members
  size_t restart(uint32_t i) const;

  RefPtr<TensorBuffer> buffer_;
  absl::string_view content_;
  absl::string_view entries_;  // content_ without the restart array
  uint32_t num_restarts_ = 0;
  size_t num_entries_ = 0;
  JoinedKey last_key_;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_READER_H_
