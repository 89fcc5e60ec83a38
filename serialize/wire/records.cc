#include "tensorcask/serialize/wire/records.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);
constexpr size_t kChecksumBytes = sizeof(uint32_t);
constexpr size_t kHeaderBytes = kLengthBytes + kChecksumBytes;
constexpr size_t kPieceBytes = size_t{1} << 20;            // small enough to be in the cache after its checksum
constexpr size_t kCopiedBytes = size_t{256} << 10;         // how much of pieces that may change is copied at a time
constexpr uint64_t kReadAheadBytes = uint64_t{256} << 10;  // so that not each small record costs a system call

constexpr size_t kKeptAlignment = 8;  // enough for every element type
static_assert(kKeptAlignment <= kHeaderBytes, "data are moved over their own header");

// A sentence if the checksum does not match; else empty.
std::string Mismatch(absl::string_view of, uint32_t crc, const char* stored) {
  const uint32_t wanted = LoadLittleEndian<uint32_t>(stored);
  if (MaskCrc32c(crc) == wanted) return "";
  return absl::StrCat("the checksum of its ", of, " is ", absl::Hex(MaskCrc32c(crc), absl::kZeroPad8), ", stored is ",
                      absl::Hex(wanted, absl::kZeroPad8));
}

}  // namespace

absl::Status RecordWriter::Write(absl::Span<const absl::string_view> pieces, bool may_change) {
  uint64_t data_bytes = 0;
  for (const absl::string_view piece : pieces) data_bytes += piece.size();
  RefPtr<TensorBuffer> block;
  if (may_change && data_bytes > 0) {
    const auto block_bytes = static_cast<size_t>(std::min<uint64_t>(kCopiedBytes, data_bytes));
    CASK_ASSIGN_OR_RETURN(block, TensorBuffer::Allocate(block_bytes));
  }
  CASK_RETURN_IF_ERROR(Begin(data_bytes));
  for (absl::string_view rest : pieces) {
    if (!block) {
      CASK_RETURN_IF_ERROR(Append(rest));
      continue;
    }
    while (!rest.empty()) {
      const absl::string_view part = rest.substr(0, block->size_bytes());
      std::memcpy(block->mutable_data(), part.data(), part.size());
      CASK_RETURN_IF_ERROR(Append(block->bytes().substr(0, part.size())));
      rest.remove_prefix(part.size());
    }
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::Begin(uint64_t size_bytes) {
  if (missing_bytes_ > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the record before this one is incomplete: ", missing_bytes_, " bytes are missing"));
  }
  char header[kHeaderBytes];
  StoreLittleEndian(size_bytes, header);
  StoreLittleEndian(MaskCrc32c(Crc32c({header, kLengthBytes})), header + kLengthBytes);
  CASK_RETURN_IF_ERROR(sink_->Append({header, kHeaderBytes}));
  missing_bytes_ = size_bytes;
  crc_ = 0;
  return missing_bytes_ == 0 ? End() : absl::OkStatus();
}

absl::Status RecordWriter::Append(absl::string_view data) {
  if (data.size() > missing_bytes_) {
    return absl::FailedPreconditionError(
        absl::StrCat(data.size(), " bytes were added to a record that has room for ", missing_bytes_));
  }
  if (data.empty()) return absl::OkStatus();
  missing_bytes_ -= data.size();
  while (!data.empty()) {
    const absl::string_view part = data.substr(0, kPieceBytes);
    crc_ = ExtendCrc32c(crc_, part);
    CASK_RETURN_IF_ERROR(sink_->Append(part));
    data.remove_prefix(part.size());
  }
  return missing_bytes_ == 0 ? End() : absl::OkStatus();
}

absl::Status RecordWriter::End() {
  char tail[kChecksumBytes];
  StoreLittleEndian(MaskCrc32c(crc_), tail);
  return sink_->Append({tail, kChecksumBytes});
}

bool StartsWithRecord(absl::string_view bytes) {
  return bytes.size() >= kHeaderBytes &&
         Mismatch("length", Crc32c(bytes.substr(0, kLengthBytes)), bytes.data() + kLengthBytes).empty();
}

RecordReader::RecordReader(std::shared_ptr<const ByteSource> source, RecordReaderOptions options)
    : RecordReader(MakeSourceStream(source, options.offset), options) {
  if (offset_ > source->size_bytes()) {
    status_ = Damaged(absl::StrCat("the file ends at ", source->size_bytes(), ", before this record"));
  }
}

RecordReader::RecordReader(std::unique_ptr<ByteStream> stream, RecordReaderOptions options)
    : stream_(std::move(stream)), options_(std::move(options)), offset_(options_.offset) {}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::Next() {
  CASK_RETURN_IF_ERROR(status_);
  status_ = LeaveKeptMemory();
  CASK_RETURN_IF_ERROR(status_);
  absl::StatusOr<std::optional<absl::string_view>> record = ReadRecord();
  status_ = record.status();
  return record;
}

std::optional<RecordReader::Kept> RecordReader::KeepLast(absl::string_view part) {
  if (part.size() < capacity() / 2) return std::nullopt;
  char* const data = memory() + window_start_ - kChecksumBytes - last_bytes_;
  char* const moved = data - reinterpret_cast<uintptr_t>(part.data()) % kKeptAlignment;  // over its header
  if (moved != data) std::memmove(moved, data, last_bytes_);
  return Kept{{moved, last_bytes_}, memory_};
}

absl::Status RecordReader::LeaveKeptMemory() {
  if (memory_ == nullptr || memory_->IsUnique()) return absl::OkStatus();
  if (window_bytes_ > 0) return MoveTo(window_bytes_);
  memory_ = nullptr;
  window_start_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::ReadRecord() {
  CASK_ASSIGN_OR_RETURN(uint64_t available_bytes, Available(kHeaderBytes));
  if (available_bytes == 0) return std::nullopt;
  if (available_bytes < kHeaderBytes) {
    return Damaged(absl::StrCat("cut short: ", available_bytes, available_bytes == 1 ? " byte is" : " bytes are",
                                " left; its header takes ", kHeaderBytes));
  }
  const absl::string_view header(memory() + window_start_, kHeaderBytes);
  const uint64_t data_bytes = LoadLittleEndian<uint64_t>(header.data());
  std::string mismatch = Mismatch("length", Crc32c(header.substr(0, kLengthBytes)), header.data() + kLengthBytes);
  if (!mismatch.empty()) {
    const absl::string_view start(memory() + window_start_, window_bytes_);
    const ContentHint hint = offset_ == 0 ? LookAtContent(start, available_bytes) : ContentHint();
    return Damaged(hint.what.empty() ? mismatch : absl::StrCat(mismatch, "; the file looks like ", hint.what));
  }
  // The limit keeps the size of the whole record within 64 bits. A record that is known to be cut short is reported as
  // that, even if it is past the limit.
  const bool is_too_long = data_bytes > static_cast<uint64_t>(std::max<int64_t>(options_.limits.max_message_bytes, 0));
  const bool is_past_limit = is_too_long || data_bytes > options_.max_total_bytes - total_bytes_;
  const uint64_t record_bytes = is_past_limit ? UINT64_MAX : kHeaderBytes + data_bytes + kChecksumBytes;
  if (!is_past_limit || stream_->bytes_left().has_value()) {
    CASK_ASSIGN_OR_RETURN(available_bytes, Available(record_bytes));
    const uint64_t body_bytes = available_bytes - kHeaderBytes;
    if (data_bytes > body_bytes || body_bytes - data_bytes < kChecksumBytes) {
      return Damaged(absl::StrCat("cut short: it has ", data_bytes, " bytes of data and ", kChecksumBytes,
                                  " of checksum; ", body_bytes, " are left"));
    }
  }
  if (is_too_long) {
    return absl::ResourceExhaustedError(absl::StrCat(name(), ": record at ", offset_, ": ", data_bytes,
                                                     " bytes; max_message_bytes is ",
                                                     options_.limits.max_message_bytes));
  }
  if (is_past_limit) {
    return absl::ResourceExhaustedError(absl::StrCat(name(), ": record at ", offset_, ": ", data_bytes, " bytes after ",
                                                     total_bytes_, " bytes of other records; max_total_bytes is ",
                                                     options_.max_total_bytes));
  }
  const absl::string_view data(memory() + window_start_ + kHeaderBytes, static_cast<size_t>(data_bytes));
  if (options_.verify_data) mismatch = Mismatch("data", Crc32c(data), data.data() + data.size());
  if (!mismatch.empty()) {
    damaged_bytes_ = record_bytes;
    return MarkWrongChecksum(Damaged(mismatch));
  }
  PassRecord(record_bytes);
  return data;
}

void RecordReader::PassRecord(uint64_t record_bytes) {
  const uint64_t data_bytes = record_bytes - kHeaderBytes - kChecksumBytes;
  offset_ += record_bytes;
  window_start_ += static_cast<size_t>(record_bytes);
  window_bytes_ -= static_cast<size_t>(record_bytes);
  last_bytes_ = static_cast<size_t>(data_bytes);
  total_bytes_ += data_bytes;
}

bool RecordReader::SkipDamaged() {
  if (damaged_bytes_ == 0) return false;
  PassRecord(std::exchange(damaged_bytes_, 0));
  status_ = absl::OkStatus();
  return true;
}

// The number of bytes in the stream from offset_ on, or any number from `size_bytes` up if there are at least that
// many. Then the window holds the first `size_bytes` of them.
absl::StatusOr<uint64_t> RecordReader::Available(uint64_t size_bytes) {
  while (window_bytes_ < size_bytes) {
    const std::optional<uint64_t> left_bytes = stream_->bytes_left();
    if (left_bytes.has_value() && (*left_bytes == 0 || size_bytes - window_bytes_ > *left_bytes)) {
      return window_bytes_ + *left_bytes;
    }
    CASK_RETURN_IF_ERROR(MakeRoom(size_bytes));
    const size_t end = window_start_ + window_bytes_;
    CASK_ASSIGN_OR_RETURN(const size_t got, stream_->Read(absl::MakeSpan(memory() + end, capacity() - end)));
    if (got == 0) break;
    window_bytes_ += got;
  }
  return window_bytes_;
}

// Makes room for at least one byte after the window, which grows to `size_bytes`. If the stream is known to have these
// bytes, all memory is allocated at once; otherwise it is doubled each time that it is full.
absl::Status RecordReader::MakeRoom(uint64_t size_bytes) {
  const std::optional<uint64_t> left_bytes = stream_->bytes_left();
  uint64_t wanted_bytes = std::max(size_bytes, kReadAheadBytes);
  if (left_bytes.has_value()) {
    wanted_bytes = std::min(wanted_bytes, window_bytes_ + *left_bytes);
  } else if (window_bytes_ < capacity()) {
    wanted_bytes = capacity();
  } else {
    // The steps are halves, quarters, ... of the final size. So the last step comes when half of the bytes have
    // arrived, and no more than that half is in memory twice.
    const uint64_t most_bytes = 2 * uint64_t{window_bytes_} + kReadAheadBytes / 64;
    while (wanted_bytes > most_bytes) wanted_bytes = (wanted_bytes + 1) / 2;
    wanted_bytes = std::max(wanted_bytes, kReadAheadBytes);
  }
  if (wanted_bytes > capacity()) {
    // Memory of a longer record before is released first.
    if (window_bytes_ <= kReadAheadBytes && capacity() > kReadAheadBytes) CASK_RETURN_IF_ERROR(MoveTo(window_bytes_));
    return MoveTo(wanted_bytes);
  }
  if (window_start_ > 0 && size_bytes > capacity() - window_start_) {
    std::memmove(memory(), memory() + window_start_, window_bytes_);
    window_start_ = 0;
  }
  return absl::OkStatus();
}

// Moves the window to new memory. Requires: the window fits.
absl::Status RecordReader::MoveTo(uint64_t capacity_bytes) {
  if (window_bytes_ == 0) memory_ = nullptr;  // release it before the new memory is allocated
  absl::StatusOr<RefPtr<TensorBuffer>> memory =
      TensorBuffer::Allocate(static_cast<size_t>(capacity_bytes), options_.allocator);
  CASK_ANNOTATE_IF_ERROR(memory.ok() ? (*memory)->EnsureMutable() : memory.status(),
                         absl::StrCat(name(), ": record at ", offset_));
  if (window_bytes_ > 0) std::memcpy((*memory)->mutable_data(), this->memory() + window_start_, window_bytes_);
  memory_ = *std::move(memory);
  window_start_ = 0;
  return absl::OkStatus();
}

absl::Status RecordReader::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(name(), ": record at ", offset_, ": ", what));
}

}  // namespace tensorcask
