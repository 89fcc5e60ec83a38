#include "tensorcask/serialize/checkpoint/table/block_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "snappy.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::checkpoint {
namespace {

// Snappy's best copy makes 64 bytes of three (format_description.txt, section 2.2.2), so no honest block claims more.
constexpr uint64_t kMaxSnappyExpansion = 22;

absl::Status CheckSnappyClaim(uint64_t claimed, uint64_t stored, const DecodeLimits& limits) {
  if (claimed / kMaxSnappyExpansion > stored) {
    return absl::DataLossError(absl::StrCat("says that it decodes to ", claimed, " bytes, from ", stored));
  }
  if (limits.max_expansion >= 0 &&
      claimed / std::max<uint64_t>(stored, 1) > static_cast<uint64_t>(limits.max_expansion)) {
    return PastLimit(absl::StrCat("expands ", stored, " bytes to ", claimed), "max_expansion", limits.max_expansion);
  }
  if (claimed > LimitOf(limits.max_message_bytes)) {
    return PastLimit(absl::StrCat("decodes to ", claimed, " bytes"), "max_message_bytes", limits.max_message_bytes);
  }
  if (claimed > stored && claimed - stored > LimitOf(limits.max_memory_beyond_input)) {
    return PastLimit(absl::StrCat("decodes to ", claimed, " bytes, from ", stored), "max_memory_beyond_input",
                     limits.max_memory_beyond_input);
  }
  return absl::OkStatus();
}

absl::StatusOr<RefPtr<TensorBuffer>> Decompress(absl::string_view stored, const DecodeLimits& limits,
                                                QuotaCharge* charge, absl::string_view* content) {
  size_t claimed = 0;
  if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &claimed)) {
    return absl::DataLossError("is not valid snappy data");
  }
  CASK_RETURN_IF_ERROR(CheckSnappyClaim(claimed, stored.size(), limits));
  CASK_RETURN_IF_ERROR(charge->Add(claimed));
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(claimed));
  char* out = static_cast<char*>(buffer->mutable_data());
  if (!snappy::RawUncompress(stored.data(), stored.size(), out)) return absl::DataLossError("is not valid snappy data");
  *content = absl::string_view(out, claimed);
  return buffer;
}

std::string BlockName(const ByteSource& source, const BlockHandle& handle) {
  return absl::StrCat(source.name(), ": block at ", handle.offset, ", ", handle.size_bytes, " bytes");
}

absl::Status InBlock(const ByteSource& source, const BlockHandle& handle, const absl::Status& status) {
  return Annotate(status, BlockName(source, handle));
}

// Returns the memory that *content views. The memory and the stored bytes it was decompressed from are charged.
absl::StatusOr<RefPtr<TensorBuffer>> ReadCharged(const ByteSource& source, const BlockHandle& handle,
                                                 const DecodeLimits& limits, QuotaCharge* charge,
                                                 absl::string_view* content) {
  const uint64_t file_bytes = source.size_bytes();
  if (file_bytes < kBlockTrailerBytes || handle.offset > file_bytes - kBlockTrailerBytes ||
      handle.size_bytes > file_bytes - kBlockTrailerBytes - handle.offset) {
    return absl::DataLossError(
        absl::StrCat(BlockName(source, handle), ": reaches past the end of the file (", file_bytes, " bytes)"));
  }
  if (handle.size_bytes > LimitOf(limits.max_message_bytes)) {
    return PastLimit(absl::StrCat(BlockName(source, handle), ": too large"), "max_message_bytes",
                     limits.max_message_bytes);
  }
  const size_t stored_bytes = handle.size_bytes + kBlockTrailerBytes;
  if (const absl::Status status = charge->Add(handle.size_bytes); !status.ok()) return InBlock(source, handle, status);
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(stored_bytes));
  char* data = static_cast<char*>(buffer->mutable_data());
  CASK_RETURN_IF_ERROR(source.ReadAt(handle.offset, absl::MakeSpan(data, stored_bytes)));
  const absl::string_view stored(data, handle.size_bytes);
  const char type = data[handle.size_bytes];
  const uint32_t found = MaskCrc32c(Crc32c(absl::string_view(data, handle.size_bytes + 1)));
  const auto wanted = LoadLittleEndian<uint32_t>(data + handle.size_bytes + 1);
  if (found != wanted) {
    return absl::DataLossError(absl::StrCat(BlockName(source, handle), ": its checksum is ",
                                            absl::Hex(found, absl::kZeroPad8), ", stored is ",
                                            absl::Hex(wanted, absl::kZeroPad8)));
  }
  if (type == kRawBlock) {
    *content = stored;
    return buffer;
  }
  if (type == kSnappyBlock) {
    absl::StatusOr<RefPtr<TensorBuffer>> decompressed = Decompress(stored, limits, charge, content);
    if (!decompressed.ok()) return InBlock(source, handle, decompressed.status());
    return decompressed;
  }
  return absl::DataLossError(absl::StrCat(BlockName(source, handle), ": type ",
                                          static_cast<int>(static_cast<uint8_t>(type)),
                                          "; known are 0 (raw) and 1 (snappy)"));
}

}  // namespace

absl::StatusOr<RefPtr<TensorBuffer>> ReadBlockContent(const ByteSource& source, const BlockHandle& handle,
                                                      const DecodeLimits& limits, DecodeQuota* memory,
                                                      absl::string_view* content) {
  DecodeQuota unlimited("", std::numeric_limits<int64_t>::max());
  if (memory == nullptr) memory = &unlimited;
  QuotaCharge charge(memory);
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer, ReadCharged(source, handle, limits, &charge, content));
  charge.Clear();
  CASK_RETURN_IF_ERROR(memory->Charge(content->size()));
  return buffer;
}

absl::StatusOr<std::unique_ptr<const BlockReader>> BlockReader::Read(const ByteSource& source,
                                                                     const BlockHandle& handle,
                                                                     const DecodeLimits& limits, DecodeQuota* memory) {
  absl::string_view content;
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer, ReadBlockContent(source, handle, limits, memory, &content));
  std::unique_ptr<BlockReader> block(new BlockReader(std::move(buffer), content));
  const absl::Status status = block->Check();
  if (status.ok()) return std::unique_ptr<const BlockReader>(std::move(block));
  if (memory != nullptr) memory->Release(content.size());
  return InBlock(source, handle, status);
}

inline bool BlockReader::ConsumeEntry(absl::string_view* rest, Entry* entry) {
  const auto byte = [rest](size_t i) { return static_cast<uint8_t>((*rest)[i]); };
  uint32_t shared = 0;
  uint32_t unshared = 0;
  uint32_t value_bytes = 0;
  if (rest->size() >= 3 && (byte(0) | byte(1) | byte(2)) < 0x80) {  // one byte each, as in most entries
    shared = byte(0);
    unshared = byte(1);
    value_bytes = byte(2);
    rest->remove_prefix(3);
  } else if (!ParseCanonicalVarint(rest, &shared) || !ParseCanonicalVarint(rest, &unshared) ||
             !ParseCanonicalVarint(rest, &value_bytes)) {
    return false;
  }
  const size_t left = rest->size();
  // By subtraction: the sum of two lengths may be past 32 bits.
  if (unshared > left || value_bytes > left - unshared) return false;
  const char* const bytes = rest->data();
  entry->shared = shared;
  entry->suffix = absl::string_view(bytes, unshared);
  entry->value = absl::string_view(bytes + unshared, value_bytes);
  rest->remove_prefix(size_t{unshared} + value_bytes);
  return true;
}

size_t BlockReader::restart(uint32_t i) const {
  return LoadLittleEndian<uint32_t>(entries_.data() + entries_.size() + size_t{i} * sizeof(uint32_t));
}

absl::Status BlockReader::Check() {
  if (content_.size() < sizeof(uint32_t)) return absl::DataLossError("has no restart array");
  const size_t before_count = content_.size() - sizeof(uint32_t);
  num_restarts_ = LoadLittleEndian<uint32_t>(content_.data() + before_count);
  if (num_restarts_ == 0 || num_restarts_ > before_count / sizeof(uint32_t)) {
    return absl::DataLossError(absl::StrCat("has ", num_restarts_, " restarts in ", before_count, " bytes"));
  }
  entries_ = content_.substr(0, before_count - size_t{num_restarts_} * sizeof(uint32_t));
  if (restart(0) != 0) return absl::DataLossError(absl::StrCat("its first restart is ", restart(0), ", not 0"));

  uint32_t next_restart = 0;
  int since_restart = 0;
  for (absl::string_view rest = entries_; !rest.empty(); ++num_entries_) {
    const absl::string_view key = last_key_.view();
    const size_t position = entries_.size() - rest.size();
    Entry entry;
    if (!ConsumeEntry(&rest, &entry))
      return absl::DataLossError(absl::StrCat("its entry at ", position, " is cut short"));
    if (entry.shared > key.size()) {
      return absl::DataLossError(
          absl::StrCat("its entry at ", position, " shares ", entry.shared, " bytes with a key of ", key.size()));
    }
    if (next_restart < num_restarts_ && restart(next_restart) <= position) {
      if (restart(next_restart) != position || entry.shared != 0) {
        return absl::DataLossError(absl::StrCat("restart ", next_restart, " at ", restart(next_restart),
                                                " does not point to an entry with a whole key"));
      }
      ++next_restart;
      since_restart = 0;
    } else if (++since_restart >= kMaxRestartInterval) {
      return absl::DataLossError(absl::StrCat("has ", kMaxRestartInterval, " entries without a restart"));
    }
    // The shared part is equal, so the order is that of what follows it.
    if (position != 0 && entry.suffix <= key.substr(entry.shared)) {
      return absl::DataLossError(absl::StrCat("its key ",
                                              Quoted(absl::StrCat(key.substr(0, entry.shared), entry.suffix)),
                                              " is not greater than ", Quoted(key), " before it"));
    }
    last_key_.Replace(entry.shared, entry.suffix);
  }
  // An empty block has one restart, at 0.
  if (next_restart != num_restarts_ && !(entries_.empty() && num_restarts_ == 1)) {
    return absl::DataLossError(absl::StrCat("restart ", next_restart, " at ", restart(next_restart),
                                            " does not point to an entry; the entries end at ", entries_.size()));
  }
  return absl::OkStatus();
}

absl::string_view BlockReader::first_key() const {
  absl::string_view rest = entries_;
  Entry entry;
  ConsumeEntry(&rest, &entry);
  return entry.suffix;
}

std::optional<absl::string_view> BlockReader::Find(absl::string_view key) const {
  // The last restart whose key is not greater.
  uint32_t low = 0;
  uint32_t high = num_restarts_;
  Entry entry;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    absl::string_view rest = entries_.substr(restart(middle));
    ConsumeEntry(&rest, &entry);
    (entry.suffix <= key ? low : high) = middle;
  }
  // Searches from there without assembling keys. `key` and the entry's key, which is smaller, agree in `matched` bytes.
  // An entry that shares more bytes than that with the entry before differs from `key` at the same byte, so it is
  // smaller, too.
  absl::string_view rest = entries_.substr(restart(low));
  size_t matched = 0;
  while (!rest.empty()) {
    ConsumeEntry(&rest, &entry);
    if (entry.shared > matched) continue;
    const absl::string_view wanted = key.substr(entry.shared);
    const size_t limit = std::min(wanted.size(), entry.suffix.size());
    size_t equal = 0;
    while (equal < limit && wanted[equal] == entry.suffix[equal]) ++equal;
    if (equal == wanted.size() && equal == entry.suffix.size()) return entry.value;
    const bool entry_is_greater =
        equal == wanted.size() || (equal < entry.suffix.size() &&
                                   static_cast<uint8_t>(entry.suffix[equal]) > static_cast<uint8_t>(wanted[equal]));
    if (entry_is_greater) return std::nullopt;
    matched = entry.shared + equal;
  }
  return std::nullopt;
}

bool BlockReader::Cursor::Next() {
  if (rest_.empty()) return false;
  Entry entry;
  ConsumeEntry(&rest_, &entry);
  key_.Replace(entry.shared, entry.suffix);
  suffix_ = entry.suffix;
  value_ = entry.value;
  shared_bytes_ = entry.shared;
  return true;
}

}  // namespace tensorcask::checkpoint
