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
#include "tensorcask/serialize/io/internal/decode_quota.h"
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
      : source_(std::move(source)), limits_(limits), kept_quota_(DecodeQuota::ForFile(limits)) {}
  ~FileTable() override {
    if (loaded_ == nullptr) return;  // Init failed
    for (size_t i = 0; i < blocks_.size(); ++i) delete loaded_[i].load(std::memory_order_relaxed);
  }

  absl::Status Init();
  absl::StatusOr<std::optional<absl::string_view>> Find(absl::string_view key) const override;
  absl::StatusOr<bool> Visit(absl::string_view key,
                             absl::FunctionRef<absl::Status(absl::string_view)> fn) const override;
  absl::Status ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn) const override;
  uint64_t num_blocks() const override { return blocks_.size(); }

 private:
  // The index entry of a block. Its keys are greater than `last` of the block before, and at most `last`.
  struct Block {
    absl::string_view last;
    BlockHandle handle;
  };

  absl::Status AddBlock(absl::string_view last, absl::string_view value, uint64_t data_end);
  absl::StatusOr<std::unique_ptr<const BlockReader>> ReadBlock(size_t i) const;
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
  mutable DecodeQuota kept_quota_;
  mutable std::mutex visited_mutex_;
  mutable std::shared_ptr<const BlockReader> visited_;  // the block of the last Visit, null before
  mutable size_t visited_index_ = 0;                    // which
};

absl::Status FileTable::Init() {
  const uint64_t file_bytes = source_->size_bytes();
  if (file_bytes < kFooterBytes) {
    return absl::DataLossError(absl::StrCat(source_->name(), ": not the index of a checkpoint: ", file_bytes,
                                            " bytes; the footer alone has ", kFooterBytes));
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
  CASK_ASSIGN_OR_RETURN(index_, BlockReader::Read(*source_, footer.index, limits_));

  const uint64_t data_end = std::min(footer.metaindex.offset, footer.index.offset);
  DecodeQuota joined_keys_quota = DecodeQuota::ForUnbacked(limits_);
  for (BlockReader::Cursor cursor(*index_); cursor.Next();) {
    if (cursor.shared_bytes() > 0) {
      // TensorFlow and LevelDB write every key whole. Keys that share all but a byte would add up to the square of the
      // file.
      const absl::Status within = joined_keys_quota.Charge(cursor.key().size());
      if (!within.ok()) return Annotate(within, absl::StrCat(source_->name(), ": the keys of its index of blocks"));
      joined_keys_.push_back(std::make_unique<std::string>(cursor.key()));
      CASK_RETURN_IF_ERROR(AddBlock(*joined_keys_.back(), cursor.value(), data_end));
    } else {
      CASK_RETURN_IF_ERROR(AddBlock(cursor.whole_key(), cursor.value(), data_end));
    }
  }
  loaded_ = std::make_unique<std::atomic<const BlockReader*>[]>(blocks_.size());
  return absl::OkStatus();
}

absl::Status FileTable::AddBlock(absl::string_view last, absl::string_view value, uint64_t data_end) {
  if (blocks_.size() >= LimitOf(limits_.max_entries)) {
    return PastLimit(absl::StrCat(source_->name(), ": has more blocks"), "max_entries", limits_.max_entries);
  }
  Block block;
  block.last = last;
  if (!ParseHandle(&value, &block.handle) || !value.empty()) {
    return absl::DataLossError(
        absl::StrCat(source_->name(), ": block ", blocks_.size(), ": its index entry is not an offset and a size"));
  }
  const BlockHandle& handle = block.handle;
  // Blocks follow each other. So a block is never read twice under two names, and the file bounds their number.
  const uint64_t begin =
      blocks_.empty() ? 0 : blocks_.back().handle.offset + blocks_.back().handle.size_bytes + kBlockTrailerBytes;
  if (handle.offset < begin || !BlockFits(handle, data_end)) {
    return absl::DataLossError(absl::StrCat(source_->name(), ": block ", blocks_.size(), " at ", handle.offset, ", ",
                                            handle.size_bytes, " bytes, is not between ", begin, " and ", data_end));
  }
  blocks_.push_back(block);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<const BlockReader>> FileTable::ReadBlock(size_t i) const {
  const Block& block = blocks_[i];
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const BlockReader> reader, BlockReader::Read(*source_, block.handle, limits_));
  if (reader->empty()) {
    return absl::DataLossError(
        absl::StrCat(source_->name(), ": block ", i, " at ", block.handle.offset, " has no entries"));
  }
  const bool after = i == 0 || reader->first_key() > blocks_[i - 1].last;
  if (!after || reader->last_key() > block.last) {
    return absl::DataLossError(absl::StrCat(source_->name(), ": block ", i, " at ", block.handle.offset, " has key ",
                                            Quoted(after ? reader->last_key() : reader->first_key()), ", which is not ",
                                            after ? "at most " : "greater than ",
                                            Quoted(after ? block.last : blocks_[i - 1].last), " as the index says"));
  }
  return reader;
}

absl::StatusOr<const BlockReader*> FileTable::KeptBlock(size_t i) const {
  const BlockReader* kept = loaded_[i].load(std::memory_order_acquire);
  if (kept != nullptr) return kept;
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const BlockReader> reader, ReadBlock(i));
  const absl::Status within = kept_quota_.Charge(reader->content_bytes());
  if (!within.ok()) return Annotate(within, absl::StrCat(source_->name(), ": the blocks of its index"));
  // Of several threads that read the block, one keeps it. The others' charges stay: they are few, and at most one a
  // thread and block.
  if (!loaded_[i].compare_exchange_strong(kept, reader.get(), std::memory_order_acq_rel)) return kept;
  return reader.release();
}

absl::StatusOr<std::shared_ptr<const BlockReader>> FileTable::VisitedBlock(size_t i) const {
  {
    std::lock_guard<std::mutex> lock(visited_mutex_);
    if (visited_ != nullptr && visited_index_ == i) return visited_;
  }
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const BlockReader> block, ReadBlock(i));
  std::lock_guard<std::mutex> lock(visited_mutex_);
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

absl::Status FileTable::ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    // Blocks that were not touched before are not kept: a walk over a large index needs little memory.
    std::unique_ptr<const BlockReader> passing;
    const BlockReader* block = loaded_[i].load(std::memory_order_acquire);
    if (block == nullptr) {
      CASK_ASSIGN_OR_RETURN(passing, ReadBlock(i));
      block = passing.get();
    }
    for (BlockReader::Cursor cursor(*block); cursor.Next();) CASK_RETURN_IF_ERROR(fn(cursor.key(), cursor.value()));
  }
  // No reader uses the content of the metaindex block. Its checksum and compression are verified all the same.
  absl::string_view unused;
  return ReadBlockContent(*source_, metaindex_, limits_, &unused).status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(std::shared_ptr<const ByteSource> source,
                                                               const DecodeLimits& limits) {
  auto table = std::make_unique<FileTable>(std::move(source), limits);
  CASK_RETURN_IF_ERROR(table->Init());
  return std::unique_ptr<TableReader>(std::move(table));
}

}  // namespace tensorcask::checkpoint
