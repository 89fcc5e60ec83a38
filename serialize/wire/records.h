// Streams of records in TensorFlow's framing (TFRecord files): any bytes, each piece with its length and checksums.
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
// Files and pipes are read alike, through a ByteStream (byte_stream.h). Knows nothing of tensors: see tensor_records.h.
// A record costs 16 bytes (FORMAT.md section 8). Files that are compressed as a whole must be decompressed first.

#ifndef TENSORCASK_SERIALIZE_WIRE_RECORDS_H_
#define TENSORCASK_SERIALIZE_WIRE_RECORDS_H_

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

  // Appends one record. Errors: of the sink. It then holds a part of this record, and takes no more.
  absl::Status Write(absl::string_view data) { return Write(absl::MakeConstSpan(&data, 1)); }
  // The same of data in several pieces, one behind the other.
  absl::Status Write(absl::Span<const absl::string_view> pieces);

 private:
  ByteSink* const sink_;
};

// Whether `bytes` start with the head of a record, which has a checksum: the first 12 bytes of a file tell.
bool StartsWithRecord(absl::string_view bytes);

struct RecordReaderOptions {
  uint64_t offset = 0;                                    // of the first record to read, as offset() gave it
  DecodeLimits limits;                                    // max_message_bytes: of one record's data
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // of the memory that records are read into
};

// Reads records one after the other. Memory: the larger of 256 KiB and the longest record, never more than the file
// holds. Of a stream, whose length nobody knows, at most twice what has arrived of a record, and while that grows what
// has arrived once more: never what a record claims. What KeepLast gave away comes on top. One caller at a time.
class RecordReader {
 public:
  explicit RecordReader(std::shared_ptr<const ByteSource> source, RecordReaderOptions options = {});
  // options.offset is where `stream` is: offsets count from there.
  explicit RecordReader(std::unique_ptr<ByteStream> stream, RecordReaderOptions options = {});

  // The data of the next record, both checksums verified, valid until the next call; nothing if the stream ended with
  // the last one. A reader that failed gives the same error from then on: it does not look for a record further on.
  // Errors: DataLoss, naming the stream and the offset of the record, for a checksum that is wrong and for a stream
  // that ends inside a record (or a file before the offset that reading was to start from); ResourceExhausted past a
  // limit, or if there is no memory; of the stream.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // The last record, for who wants to keep it: its data, and the memory that they lie in. Whoever holds that may change
  // the data, and the reader reads on in other memory. They are moved by a few bytes if need be, so that `part` of them
  // is at a multiple of 8. Nothing if `part` is less than half of that memory, and so should rather be copied.
  // Requires: Next was the last call, and gave a record; `part` is within it.
  struct Kept {
    absl::string_view data;
    RefPtr<TensorBuffer> memory;
  };
  std::optional<Kept> KeepLast(absl::string_view part);

  uint64_t offset() const { return offset_; }  // where the next record starts; after an error, that which has it
  const std::string& name() const { return stream_->name(); }
  const RefPtr<Allocator>& allocator() const { return options_.allocator; }

 private:
  absl::Status LeaveKeptMemory();
  absl::StatusOr<std::optional<absl::string_view>> ReadRecord();
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
  size_t last_bytes_ = 0;  // of the last record's data, which end with their checksum in front of the window
  absl::Status status_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_RECORDS_H_
