#include "tensorcask/serialize/checkpoint/table/table_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::checkpoint {
namespace {

// As in TensorFlow's table builder, an entry of at least this many times the block size gets a block of its own.
constexpr size_t kLargeEntryFactor = 2;

void AppendFixed32(uint32_t value, std::string* out) {
  char bytes[sizeof(value)];
  StoreLittleEndian(value, bytes);
  out->append(bytes, sizeof(bytes));
}

size_t CommonPrefix(absl::string_view a, absl::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < limit && a[length] == b[length]) ++length;
  return length;
}

// A short key k with last <= k < next, as LevelDB's bytewise comparator chooses it. Requires: last < next.
void ShortenSeparator(absl::string_view next, std::string* last) {
  const size_t differs = CommonPrefix(*last, next);
  if (differs >= last->size() || differs >= next.size()) return;  // one is the start of the other
  const auto byte = static_cast<uint8_t>((*last)[differs]);
  if (byte < 0xff && byte + 1 < static_cast<uint8_t>(next[differs])) {
    (*last)[differs] = static_cast<char>(byte + 1);
    last->resize(differs + 1);
  }
}

// A short key not below *last: the same for the last block.
void ShortenSuccessor(std::string* last) {
  for (size_t i = 0; i < last->size(); ++i) {
    const auto byte = static_cast<uint8_t>((*last)[i]);
    if (byte != 0xff) {
      (*last)[i] = static_cast<char>(byte + 1);
      last->resize(i + 1);
      return;
    }
  }
}

}  // namespace

void BlockBuilder::Add(absl::string_view key, absl::string_view value) {
  size_t shared = 0;
  if (since_restart_ < restart_interval_) {
    shared = CommonPrefix(last_key_, key);
  } else {
    restarts_.push_back(static_cast<uint32_t>(bytes_.size()));
    since_restart_ = 0;
  }
  AppendVarint(shared, &bytes_);
  AppendVarint(key.size() - shared, &bytes_);
  AppendVarint(value.size(), &bytes_);
  bytes_.append(key.data() + shared, key.size() - shared);
  bytes_.append(value.data(), value.size());
  last_key_.resize(shared);
  last_key_.append(key.data() + shared, key.size() - shared);
  ++since_restart_;
}

absl::string_view BlockBuilder::Finish() {
  for (const uint32_t restart : restarts_) AppendFixed32(restart, &bytes_);
  AppendFixed32(static_cast<uint32_t>(restarts_.size()), &bytes_);
  return bytes_;
}

void BlockBuilder::Reset() {
  bytes_.clear();
  restarts_.assign(1, 0);  // the first key is whole
  since_restart_ = 0;
  last_key_.clear();
}

size_t BlockBuilder::EstimatedBytes() const { return bytes_.size() + (restarts_.size() + 1) * sizeof(uint32_t); }

TableWriter::TableWriter(ByteSink* sink, const TableOptions& options)
    : sink_(sink), options_(options), data_block_(options.restart_interval), index_block_(/*restart_interval=*/1) {}

absl::Status TableWriter::Add(absl::string_view key, absl::string_view value) {
  if (any_key_ && key <= last_key_) {
    return absl::InvalidArgumentError(
        absl::StrCat("table: key ", Quoted(key), " is not greater than ", Quoted(last_key_), " before it"));
  }
  if (key.size() > UINT32_MAX || value.size() > UINT32_MAX - key.size()) {
    return absl::InvalidArgumentError(absl::StrCat("table: key ", Quoted(key), " and its value have ", key.size(),
                                                   " + ", value.size(), " bytes; they must stay below 4 GiB"));
  }
  const size_t entry_bytes = key.size() + value.size();
  if (entry_bytes / kLargeEntryFactor >= options_.block_bytes) CASK_RETURN_IF_ERROR(FlushDataBlock());
  if (pending_handle_) {
    ShortenSeparator(key, &last_key_);
    std::string handle;
    AppendHandle(handle_, &handle);
    index_block_.Add(last_key_, handle);
    pending_handle_ = false;
  }
  data_block_.Add(key, value);
  last_key_.assign(key.data(), key.size());
  any_key_ = true;
  if (data_block_.EstimatedBytes() >= options_.block_bytes) return FlushDataBlock();
  return absl::OkStatus();
}

absl::Status TableWriter::Finish() {
  CASK_RETURN_IF_ERROR(FlushDataBlock());
  BlockHandle metaindex;
  BlockBuilder empty(options_.restart_interval);
  CASK_RETURN_IF_ERROR(WriteBlock(&empty, &metaindex));
  if (pending_handle_) {
    ShortenSuccessor(&last_key_);
    std::string handle;
    AppendHandle(handle_, &handle);
    index_block_.Add(last_key_, handle);
    pending_handle_ = false;
  }
  BlockHandle index;
  CASK_RETURN_IF_ERROR(WriteBlock(&index_block_, &index));
  std::string footer;
  AppendHandle(metaindex, &footer);
  AppendHandle(index, &footer);
  footer.resize(kFooterBytes);
  StoreLittleEndian(kTableMagic, &footer[kFooterBytes - sizeof(kTableMagic)]);
  return sink_->Append(footer);
}

absl::Status TableWriter::FlushDataBlock() {
  if (data_block_.empty()) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(WriteBlock(&data_block_, &handle_));
  pending_handle_ = true;
  return absl::OkStatus();
}

absl::Status TableWriter::WriteBlock(BlockBuilder* block, BlockHandle* handle) {
  const absl::string_view bytes = block->Finish();
  handle->offset = sink_->position();
  handle->size_bytes = bytes.size();
  char trailer[kBlockTrailerBytes] = {kRawBlock};
  const uint32_t crc = ExtendCrc32c(Crc32c(bytes), absl::string_view(trailer, 1));
  StoreLittleEndian(MaskCrc32c(crc), trailer + 1);
  CASK_RETURN_IF_ERROR(sink_->Append(bytes));
  CASK_RETURN_IF_ERROR(sink_->Append(absl::string_view(trailer, sizeof(trailer))));
  block->Reset();
  return absl::OkStatus();
}

}  // namespace tensorcask::checkpoint
