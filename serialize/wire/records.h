// Streams of records in TensorFlow's framing (TFRecord files). A record is any bytes, with a length and checksums.
//
//   RecordWriter writer(&sink);
//   CASK_RETURN_IF_ERROR(writer.Write("first"));
//
//   RecordReader reader(file);
//   while (true) {
//     CASK_ASSIGN_OR_RETURN(std::optional<absl::string_view> record, reader.Next());
//     if (!record.has_value()) break;   // the end
//     ... *record ...
//   }
//
// Files and pipes are read in the same way, through a ByteStream (byte_stream.h). tensor_records.h stores tensors in
// records. The framing takes 16 bytes per record (FORMAT.md section 8). A file that is compressed as a whole must be
// decompressed first.

#ifndef TENSORCASK_SERIALIZE_WIRE_RECORDS_H_
#define TENSORCASK_SERIALIZE_WIRE_RECORDS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

class RecordWriter {
 public:
  explicit RecordWriter(ByteSink* sink) : sink_(sink) {}  // `sink` outlives the writer

  // Appends one record. Errors: those of the sink, which then holds a part of this record and accepts no more.
  absl::Status Write(absl::string_view data) { return Write(absl::MakeConstSpan(&data, 1)); }
  // The same for data in several consecutive pieces. `may_change`: other code may write to the pieces during the call.
  // The writer then copies them through a block of 256 KiB, so that the checksum matches the written bytes.
  // ResourceExhausted if there is no memory for the block; then nothing was written.
  absl::Status Write(absl::Span<const absl::string_view> pieces, bool may_change = false);

  // Starts a record of `size_bytes`, whose data Append adds piece by piece. With the last byte the record is complete.
  // Errors: those of Write; FailedPrecondition if the record before is incomplete.
  absl::Status Begin(uint64_t size_bytes);
  // Adds the next bytes of that record. Errors: those of Write; FailedPrecondition for more than missing_bytes().
  // Requires: `data` does not change meanwhile.
  absl::Status Append(absl::string_view data);
  uint64_t missing_bytes() const { return missing_bytes_; }  // bytes that the started record lacks; 0: it is complete

 private:
  absl::Status End();

  ByteSink* const sink_;
  uint64_t missing_bytes_ = 0;
  uint32_t crc_ = 0;  // that of the data so far
};

// True if `bytes` start with the header of a record. The header has a checksum, so the first 12 bytes of a file
// suffice.
bool StartsWithRecord(absl::string_view bytes);

struct RecordReaderOptions {
  uint64_t offset = 0;                    // where the first record to read begins, as offset() returned it
  DecodeLimits limits;                    // max_message_bytes limits the data of one record
  uint64_t max_total_bytes = UINT64_MAX;  // limits the data of all records together
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // for the memory that records are read into
  bool verify_data = true;                                // false: data whose checksum does not match is returned
};

// Reads records one after the other. One caller at a time.
//
// Memory follows the bytes that are present, never the length that a record claims. For a file it is the larger of 256
// KiB and the longest record, and never more than the size of the file. For a stream of unknown length it is at most
// twice the part of a record that has arrived; while the buffer grows, that part is in memory once more. Memory that
// KeepLast gave to callers is counted separately. A record past a limit is refused when its header has arrived.
class RecordReader {
 public:
  explicit RecordReader(std::shared_ptr<const ByteSource> source, RecordReaderOptions options = {});
  // options.offset is the position of `stream`: offsets are counted from there.
  explicit RecordReader(std::unique_ptr<ByteStream> stream, RecordReaderOptions options = {});

  // The data of the next record, with both checksums verified (RecordReaderOptions::verify_data), valid until the next
  // call; nullopt at the end of the stream. After an error each call returns the same error, unless SkipDamaged
  // returned true meanwhile. Errors: DataLoss, naming the stream and the offset of the record, for a checksum that does
  // not match, for a stream that ends inside a record, and for a file that ends before options.offset;
  // ResourceExhausted past a limit, or if memory cannot be allocated; those of the stream.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // After an error of Next: goes on after the record whose data is damaged, if its length is intact. False: the
  // reader does not know where the next record begins.
  bool SkipDamaged();

  // Gives the last record to the caller: its data, and the memory that holds the data. The caller may change the data;
  // the reader continues in other memory. The data are moved by a few bytes if necessary, so that `part` of them starts
  // at a multiple of 8. Returns nullopt if `part` is less than half of the memory: then copying `part` costs less.
  // Requires: Next was the last call, and returned a record; `part` is within it.
  struct Kept {
    absl::string_view data;
    RefPtr<TensorBuffer> memory;
  };
  std::optional<Kept> KeepLast(absl::string_view part);

  uint64_t offset() const { return offset_; }  // the next record; after an error, the record that has the error
  const std::string& name() const { return stream_->name(); }
  const RefPtr<Allocator>& allocator() const { return options_.allocator; }

 private:
  absl::Status LeaveKeptMemory();
  absl::StatusOr<std::optional<absl::string_view>> ReadRecord();
  void PassRecord(uint64_t record_bytes);
  absl::StatusOr<uint64_t> Available(uint64_t size_bytes);
  absl::Status MakeRoom(uint64_t size_bytes);
  absl::Status MoveTo(uint64_t capacity_bytes);
  size_t capacity() const { return memory_ == nullptr ? 0 : memory_->size_bytes(); }
  char* memory() { return static_cast<char*>(memory_->mutable_data()); }
  absl::Status Damaged(absl::string_view what) const;

  const std::unique_ptr<ByteStream> stream_;
  const RecordReaderOptions options_;
  uint64_t offset_;
  // Bytes [window_start_, window_start_ + window_bytes_) of the memory are those of the stream from offset_ on.
  RefPtr<TensorBuffer> memory_;
  size_t window_start_ = 0;
  size_t window_bytes_ = 0;
  uint64_t total_bytes_ = 0;    // the size of the data of all records so far
  uint64_t damaged_bytes_ = 0;  // the size of the record that Next refused for the checksum of its data
  size_t last_bytes_ = 0;       // the size of the last record's data; data and checksum are right before the window
  absl::Status status_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_RECORDS_H_
