#include "tensorcask/serialize/wire/records.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);
constexpr size_t kChecksumBytes = sizeof(uint32_t);
constexpr size_t kHeadBytes = kLengthBytes + kChecksumBytes;
constexpr size_t kPieceBytes = size_t{1} << 20;            // written while it is still in the cache from its checksum
constexpr uint64_t kReadAheadBytes = uint64_t{256} << 10;  // so that small records cost no system call each

// What is wrong with a checksum, or empty.
std::string Mismatch(absl::string_view of, uint32_t crc, const char* stored) {
  const uint32_t wanted = LoadLittleEndian<uint32_t>(stored);
  if (MaskCrc32c(crc) == wanted) return "";
  return absl::StrCat("the checksum of its ", of, " is ", absl::Hex(MaskCrc32c(crc), absl::kZeroPad8), ", stored is ",
                      absl::Hex(wanted, absl::kZeroPad8));
}

}  // namespace

absl::Status RecordWriter::Write(absl::Span<const absl::string_view> pieces) {
  uint64_t data_bytes = 0;
  for (const absl::string_view piece : pieces) data_bytes += piece.size();
  char head[kHeadBytes];
  StoreLittleEndian(data_bytes, head);
  StoreLittleEndian(MaskCrc32c(Crc32c({head, kLengthBytes})), head + kLengthBytes);
  CASK_RETURN_IF_ERROR(sink_->Append({head, kHeadBytes}));
  uint32_t crc = 0;
  for (absl::string_view rest : pieces) {
    while (!rest.empty()) {
      const absl::string_view part = rest.substr(0, kPieceBytes);
      crc = ExtendCrc32c(crc, part);
      CASK_RETURN_IF_ERROR(sink_->Append(part));
      rest.remove_prefix(part.size());
    }
  }
  char tail[kChecksumBytes];
  StoreLittleEndian(MaskCrc32c(crc), tail);
  return sink_->Append({tail, kChecksumBytes});
}

RecordReader::RecordReader(std::shared_ptr<const ByteSource> source, RecordReaderOptions options)
    : source_(std::move(source)), options_(std::move(options)), offset_(options_.offset) {}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::Next() {
  CASK_RETURN_IF_ERROR(status_);
  absl::StatusOr<std::optional<absl::string_view>> record = ReadRecord();
  status_ = record.status();
  return record;
}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::ReadRecord() {
  const uint64_t file_bytes = source_->size_bytes();
  if (offset_ > file_bytes) return Damaged(absl::StrCat("the file ends before it, at ", file_bytes));
  const uint64_t left_bytes = file_bytes - offset_;
  if (left_bytes == 0) return std::nullopt;
  if (left_bytes < kHeadBytes) {
    return Damaged(absl::StrCat("cut short: ", left_bytes, " bytes are left; its head takes ", kHeadBytes));
  }
  CASK_ASSIGN_OR_RETURN(const absl::string_view head, Bytes(offset_, kHeadBytes));
  const uint64_t data_bytes = LoadLittleEndian<uint64_t>(head.data());
  std::string mismatch = Mismatch("length", Crc32c(head.substr(0, kLengthBytes)), head.data() + kLengthBytes);
  if (!mismatch.empty()) {
    const bool is_gzip = offset_ == 0 && head[0] == '\x1f' && static_cast<unsigned char>(head[1]) == 0x8b;
    return Damaged(absl::StrCat(mismatch, is_gzip ? "; the file looks like gzip" : ""));
  }
  const uint64_t body_bytes = left_bytes - kHeadBytes;
  if (data_bytes > body_bytes || body_bytes - data_bytes < kChecksumBytes) {
    return Damaged(absl::StrCat("cut short: it has ", data_bytes, " bytes of data and ", kChecksumBytes,
                                " of checksum; ", body_bytes, " are left"));
  }
  if (data_bytes > static_cast<uint64_t>(std::max<int64_t>(options_.limits.max_message_bytes, 0))) {
    return absl::ResourceExhaustedError(absl::StrCat(source_->name(), ": record at ", offset_, ": ", data_bytes,
                                                     " bytes; max_message_bytes is ",
                                                     options_.limits.max_message_bytes));
  }
  CASK_ASSIGN_OR_RETURN(const absl::string_view body, Bytes(offset_ + kHeadBytes, data_bytes + kChecksumBytes));
  const absl::string_view data = body.substr(0, static_cast<size_t>(data_bytes));
  mismatch = Mismatch("data", Crc32c(data), data.data() + data.size());
  if (!mismatch.empty()) return Damaged(mismatch);
  offset_ += kHeadBytes + body.size();
  return data;
}

// These bytes of the file, which has them; valid until the next call.
absl::StatusOr<absl::string_view> RecordReader::Bytes(uint64_t offset, uint64_t size_bytes) {
  const bool is_here = offset >= window_offset_ && RangeFits(offset - window_offset_, size_bytes, window_bytes_);
  if (!is_here) {
    const uint64_t read_bytes = std::max(size_bytes, std::min(kReadAheadBytes, source_->size_bytes() - offset));
    window_bytes_ = 0;
    if (memory_ == nullptr || memory_->size_bytes() < read_bytes) {
      memory_ = nullptr;  // before there are two
      absl::StatusOr<RefPtr<TensorBuffer>> memory =
          TensorBuffer::Allocate(static_cast<size_t>(read_bytes), options_.allocator);
      if (!memory.ok()) {
        return absl::Status(memory.status().code(),
                            absl::StrCat(source_->name(), ": record at ", offset_, ": ", memory.status().message()));
      }
      memory_ = *std::move(memory);
    }
    CASK_RETURN_IF_ERROR(source_->ReadAt(
        offset, absl::MakeSpan(static_cast<char*>(memory_->mutable_data()), static_cast<size_t>(read_bytes))));
    window_offset_ = offset;
    window_bytes_ = read_bytes;
  }
  return memory_->bytes().substr(static_cast<size_t>(offset - window_offset_), static_cast<size_t>(size_bytes));
}

absl::Status RecordReader::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(source_->name(), ": record at ", offset_, ": ", what));
}

}  // namespace tensorcask
