#include "tensorcask/serialize/checkpoint/table/table_reader.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/table/block_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::checkpoint {
namespace {

constexpr uint64_t kRocksDbMagic = 0x88e241b785f4cff7;

struct Footer {
  BlockHandle metaindex;
  BlockHandle index;
};

// Requires: `bytes` are the last kFooterBytes of a file.
absl::StatusOr<Footer> ParseFooter(const std::string& file, absl::string_view bytes) {
  const auto magic = LoadLittleEndian<uint64_t>(bytes.data() + kFooterBytes - sizeof(uint64_t));
  if (magic != kTableMagic) {
    const bool known = magic == kRocksDbMagic || magic == __builtin_bswap64(kTableMagic);
    return absl::DataLossError(
        absl::StrCat(file, ": not the index of a checkpoint: ends in ", absl::Hex(magic, absl::kZeroPad16),
                     known ? (magic == kRocksDbMagic ? " (a RocksDB table)" : " (its bytes reversed)") : "",
                     "; wanted ", absl::Hex(kTableMagic, absl::kZeroPad16)));
  }
  absl::string_view rest = bytes.substr(0, kFooterBytes - sizeof(uint64_t));
  Footer footer;
  if (!ParseHandle(&rest, &footer.metaindex) || !ParseHandle(&rest, &footer.index)) {
    return absl::DataLossError(absl::StrCat(file, ": its footer has a varint that is cut short or not canonical"));
  }
  if (rest.find_first_not_of('\0') != absl::string_view::npos) {
    return absl::DataLossError(absl::StrCat(file, ": its footer is not padded with zeros"));
  }
  return footer;
}

// Whether the block and its trailer lie in [0, end).
bool BlockFits(const BlockHandle& handle, uint64_t end) {
  return handle.offset <= end && end - handle.offset >= kBlockTrailerBytes &&
         handle.size_bytes <= end - handle.offset - kBlockTrailerBytes;
}

class FileTable final : public TableReader {
 public:
  FileTable(std::shared_ptr<const ByteSource> source, const DecodeLimits& limits)
      : source_(std::move(source)),
        limits_(limits),
        memory_(DecodeQuota::ForUnbacked(limits, 2 * source_->size_bytes())),
        kept_quota_(DecodeQuota::ForFile(limits)) {}
  ~FileTable() override {
    if (loaded_ == nullptr) return;  // Init failed
    for (size_t i = 0; i < blocks_.size(); ++i) delete loaded_[i].load(std::memory_order_relaxed);
  }

  absl::Status Init();
  absl::StatusOr<std::optional<absl::string_view>> Find(absl::string_view key) const override;
  absl::StatusOr<bool> Visit(absl::string_view key,
                             absl::FunctionRef<absl::Status(absl::string_view)> fn) const override;
  absl::Status ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn,
                       DecodeQuota* memory) const override;
  absl::StatusOr<uint64_t> CountFrom(absl::string_view key, DecodeQuota* memory) const override;
  std::unique_ptr<Cursor> NewCursor(DecodeQuota* memory) const override;
  DecodeQuota* memory() const override { return &memory_; }
  DecodeQuota NewQuota() const override {
    return DecodeQuota::ForUnbacked(limits_, 2 * source_->size_bytes(), memory_.charged());
  }
  uint64_t num_blocks() const override { return blocks_.size(); }

 private:
  class FileCursor;
  // The index entry of a block. Its keys are greater than `last` of the block before, and at most `last`.
  struct Block {
    absl::string_view last;
    BlockHandle handle;
  };

  absl::Status AddBlock(absl::string_view last, absl::string_view value, uint64_t data_end);
  absl::Status AddBlocks(uint64_t data_end);
  absl::StatusOr<std::unique_ptr<const BlockReader>> ReadBlock(size_t i, DecodeQuota* memory) const;
  absl::StatusOr<const BlockReader*> KeptBlock(size_t i) const;
  absl::StatusOr<std::shared_ptr<const BlockReader>> VisitedBlock(size_t i) const;
  size_t BlockOf(absl::string_view key) const;  // the only one that may have it; blocks_.size() if none

  const std::shared_ptr<const ByteSource> source_;
  const DecodeLimits limits_;
  BlockHandle metaindex_;
  std::unique_ptr<const BlockReader> index_;               // the bytes behind most of Block::last
  std::vector<std::unique_ptr<std::string>> joined_keys_;  // those whose keys the index does not hold whole
  std::vector<Block> blocks_;
  std::unique_ptr<std::atomic<const BlockReader*>[]> loaded_;  // by block; null until it is touched
  mutable DecodeQuota memory_;                                 // charged for all members
  mutable DecodeQuota kept_quota_;                             // charged for the blocks in loaded_
  mutable std::mutex visited_mutex_;
  mutable std::shared_ptr<const BlockReader> visited_;  // the block of the last Visit, null before
  mutable size_t visited_index_ = 0;                    // which
};

absl::Status FileTable::Init() {
  const uint64_t file_bytes = source_->size_bytes();
  if (file_bytes < kFooterBytes) {
    return absl::DataLossError(absl::StrCat(source_->name(), ": not the index of a checkpoint: ", file_bytes,
                                            file_bytes == 1 ? " byte" : " bytes", "; the footer alone has ",
                                            kFooterBytes));
  }
  char bytes[kFooterBytes];
  const uint64_t body_bytes = file_bytes - kFooterBytes;
  CASK_RETURN_IF_ERROR(source_->ReadAt(body_bytes, absl::MakeSpan(bytes)));
  CASK_ASSIGN_OR_RETURN(const Footer footer, ParseFooter(source_->name(), absl::string_view(bytes, kFooterBytes)));
  metaindex_ = footer.metaindex;
  for (const BlockHandle& handle : {footer.metaindex, footer.index}) {
    if (!BlockFits(handle, body_bytes)) {
      return absl::DataLossError(absl::StrCat(source_->name(), ": block at ", handle.offset, ", ", handle.size_bytes,
                                              " bytes, reaches into the footer, at ", body_bytes));
    }
  }
  const bool metaindex_first = footer.metaindex.offset < footer.index.offset;
  const BlockHandle& former = metaindex_first ? footer.metaindex : footer.index;
  const BlockHandle& latter = metaindex_first ? footer.index : footer.metaindex;
  if (!BlockFits(former, latter.offset)) {
    return absl::DataLossError(absl::StrCat(source_->name(), ": metaindex at ", footer.metaindex.offset, ", ",
                                            footer.metaindex.size_bytes, " bytes, and index at ", footer.index.offset,
                                            ", ", footer.index.size_bytes, " bytes, overlap"));
  }
  CASK_ASSIGN_OR_RETURN(index_, BlockReader::Read(*source_, footer.index, limits_, &memory_));
  CASK_RETURN_IF_ERROR(AddBlocks(std::min(footer.metaindex.offset, footer.index.offset)));
  loaded_ = std::make_unique<std::atomic<const BlockReader*>[]>(blocks_.size());
  return absl::OkStatus();
}

absl::Status FileTable::AddBlocks(uint64_t data_end) {
  constexpr uint64_t kBlockBytes = sizeof(Block) + sizeof(loaded_[0]);
  const uint64_t count = index_->num_entries();
  if (count > LimitOf(limits_.max_entries)) {
    return PastLimit(absl::StrCat(source_->name(), ": has more blocks"), "max_entries", limits_.max_entries);
  }
  CASK_ANNOTATE_IF_ERROR(memory_.Charge(count * kBlockBytes),
                         absl::StrCat(source_->name(), ": its ", count, " blocks"));
  blocks_.reserve(count);
  for (BlockReader::Cursor cursor(*index_); cursor.Next();) {
    if (cursor.shared_bytes() > 0) {
      // TensorFlow and LevelDB write every key whole. Keys that share all but a byte would add up to n^2 bytes in a
      // file of n.
      constexpr uint64_t kStringBytes = 64;  // with its allocations
      CASK_ANNOTATE_IF_ERROR(memory_.Charge(cursor.key().size() + kStringBytes),
                             absl::StrCat(source_->name(), ": the keys of its index of blocks"));
      joined_keys_.push_back(std::make_unique<std::string>(cursor.key()));
      CASK_RETURN_IF_ERROR(AddBlock(*joined_keys_.back(), cursor.value(), data_end));
    } else {
      CASK_RETURN_IF_ERROR(AddBlock(cursor.whole_key(), cursor.value(), data_end));
    }
  }
  return absl::OkStatus();
}

absl::Status FileTable::AddBlock(absl::string_view last, absl::string_view value, uint64_t data_end) {
  Block block;
  block.last = last;
  if (!ParseHandle(&value, &block.handle) || !value.empty()) {
    return absl::DataLossError(
        absl::StrCat(source_->name(), ": block ", blocks_.size(), ": its index entry is not an offset and a size"));
  }
  const BlockHandle& handle = block.handle;
  // Blocks must not overlap. So no block is read twice under two names, and the size of the file bounds their number.
  const uint64_t begin =
      blocks_.empty() ? 0 : blocks_.back().handle.offset + blocks_.back().handle.size_bytes + kBlockTrailerBytes;
  if (handle.offset < begin || !BlockFits(handle, data_end)) {
    return absl::DataLossError(absl::StrCat(source_->name(), ": block ", blocks_.size(), " at ", handle.offset, ", ",
                                            handle.size_bytes, " bytes, is not between ", begin, " and ", data_end));
  }
  blocks_.push_back(block);
  return absl::OkStatus();
}

// Charges what it returns; after an error nothing stays charged.
absl::StatusOr<std::unique_ptr<const BlockReader>> FileTable::ReadBlock(size_t i, DecodeQuota* memory) const {
  const Block& block = blocks_[i];
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const BlockReader> reader,
                        BlockReader::Read(*source_, block.handle, limits_, memory));
  if (reader->empty()) {
    memory->Release(reader->content_bytes());
    return absl::DataLossError(
        absl::StrCat(source_->name(), ": block ", i, " at ", block.handle.offset, " has no entries"));
  }
  const bool after = i == 0 || reader->first_key() > blocks_[i - 1].last;
  if (!after || reader->last_key() > block.last) {
    memory->Release(reader->content_bytes());
    return absl::DataLossError(absl::StrCat(source_->name(), ": block ", i, " at ", block.handle.offset, " has key ",
                                            Quoted(after ? reader->last_key() : reader->first_key()),
                                            "; the index of blocks allows only keys ", after ? "up to " : "after ",
                                            Quoted(after ? block.last : blocks_[i - 1].last)));
  }
  return reader;
}

absl::StatusOr<const BlockReader*> FileTable::KeptBlock(size_t i) const {
  const BlockReader* kept = loaded_[i].load(std::memory_order_acquire);
  if (kept != nullptr) return kept;
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const BlockReader> reader, ReadBlock(i, &memory_));
  constexpr uint64_t kObjectBytes = 256;  // the size of the reader and its buffer, without the content
  absl::Status within = kept_quota_.Charge(reader->content_bytes());
  if (within.ok()) within = memory_.Charge(kObjectBytes);
  if (!within.ok()) {
    memory_.Release(reader->content_bytes());
    return Annotate(within, absl::StrCat(source_->name(), ": the blocks of its index"));
  }
  // If several threads read the block, the first one's copy is kept. The charges of the others stay: at most one for
  // each thread and block.
  if (!loaded_[i].compare_exchange_strong(kept, reader.get(), std::memory_order_acq_rel)) return kept;
  return reader.release();
}

absl::StatusOr<std::shared_ptr<const BlockReader>> FileTable::VisitedBlock(size_t i) const {
  {
    std::lock_guard<std::mutex> lock(visited_mutex_);
    if (visited_ != nullptr && visited_index_ == i) return visited_;
    // Freed first: two large blocks are not in memory together.
    if (visited_ != nullptr) memory_.Release(visited_->content_bytes());
    visited_ = nullptr;
  }
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const BlockReader> block, ReadBlock(i, &memory_));
  std::lock_guard<std::mutex> lock(visited_mutex_);
  if (visited_ != nullptr) memory_.Release(visited_->content_bytes());  // another thread's
  visited_ = block;
  visited_index_ = i;
  return block;
}

size_t FileTable::BlockOf(absl::string_view key) const {
  const auto found = std::lower_bound(blocks_.begin(), blocks_.end(), key,
                                      [](const Block& block, absl::string_view wanted) { return block.last < wanted; });
  return static_cast<size_t>(found - blocks_.begin());
}

absl::StatusOr<std::optional<absl::string_view>> FileTable::Find(absl::string_view key) const {
  const size_t i = BlockOf(key);
  if (i == blocks_.size()) return std::optional<absl::string_view>();
  CASK_ASSIGN_OR_RETURN(const BlockReader* block, KeptBlock(i));
  return block->Find(key);
}

absl::StatusOr<bool> FileTable::Visit(absl::string_view key,
                                      absl::FunctionRef<absl::Status(absl::string_view)> fn) const {
  const size_t i = BlockOf(key);
  if (i == blocks_.size()) return false;
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const BlockReader> block, VisitedBlock(i));
  const std::optional<absl::string_view> value = block->Find(key);
  if (!value.has_value()) return false;
  CASK_RETURN_IF_ERROR(fn(*value));
  return true;
}

// Blocks that Find has not kept are not kept here either: a walk over a large index needs little memory.
class FileTable::FileCursor final : public TableReader::Cursor {
 public:
  FileCursor(const FileTable& table, DecodeQuota* memory) : table_(table), memory_(memory) {}
  ~FileCursor() override { Leave(); }

  absl::StatusOr<bool> Next() override {
    while (!entry_.has_value() || !entry_->Next()) {
      Leave();
      if (next_ == table_.blocks_.size()) return false;
      const BlockReader* block = table_.loaded_[next_].load(std::memory_order_acquire);
      if (block == nullptr) {
        CASK_ASSIGN_OR_RETURN(passing_, table_.ReadBlock(next_, memory_));
        block = passing_.get();
      }
      entry_.emplace(*block);
      ++next_;
    }
    return true;
  }
  absl::string_view key() const override { return entry_->key(); }
  absl::string_view value() const override { return entry_->value(); }

 private:
  void Leave() {
    entry_.reset();
    if (passing_ != nullptr) memory_->Release(passing_->content_bytes());
    passing_ = nullptr;
  }

  const FileTable& table_;
  DecodeQuota* const memory_;
  size_t next_ = 0;                             // the block after the one that is read
  std::unique_ptr<const BlockReader> passing_;  // null if the table keeps the block
  std::optional<BlockReader::Cursor> entry_;
};

absl::StatusOr<uint64_t> FileTable::CountFrom(absl::string_view key, DecodeQuota* memory) const {
  uint64_t count = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const BlockReader* block = loaded_[i].load(std::memory_order_acquire);
    std::unique_ptr<const BlockReader> passing;
    if (block == nullptr) {
      CASK_ASSIGN_OR_RETURN(passing, ReadBlock(i, memory));
      block = passing.get();
    }
    if (block->first_key() >= key) {
      count += block->num_entries();
    } else if (block->last_key() >= key) {
      for (BlockReader::Cursor cursor(*block); cursor.Next();) count += cursor.key() >= key ? 1 : 0;
    }
    if (passing != nullptr) memory->Release(passing->content_bytes());
  }
  return count;
}

std::unique_ptr<TableReader::Cursor> FileTable::NewCursor(DecodeQuota* memory) const {
  return std::make_unique<FileCursor>(*this, memory);
}

absl::Status FileTable::ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn,
                                DecodeQuota* memory) const {
  DecodeQuota own = NewQuota();
  if (memory == nullptr) memory = &own;
  FileCursor cursor(*this, memory);
  while (true) {
    CASK_ASSIGN_OR_RETURN(const bool found, cursor.Next());
    if (!found) break;
    CASK_RETURN_IF_ERROR(fn(cursor.key(), cursor.value()));
  }
  // No reader uses the content of the metaindex block. Its checksum and compression are verified all the same.
  absl::string_view unused;
  CASK_RETURN_IF_ERROR(ReadBlockContent(*source_, metaindex_, limits_, memory, &unused).status());
  memory->Release(unused.size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(std::shared_ptr<const ByteSource> source,
                                                               const DecodeLimits& limits) {
  auto table = std::make_unique<FileTable>(std::move(source), limits);
  CASK_RETURN_IF_ERROR(table->Init());
  return std::unique_ptr<TableReader>(std::move(table));
}

}  // namespace tensorcask::checkpoint
