// Record streams of named tensors, in files and pipes. Each record is a TensorProto with the name in its metadata.
//
//   NamedRecordReader records(MakeDescriptorStream(STDIN_FILENO, "stdin"));
//   while (true) {
//     CASK_ASSIGN_OR_RETURN(const std::optional<NamedRecord> record, records.Next());
//     if (!record.has_value()) break;
//     ... record->entry.name, record->tensor.view ...
//   }

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_RECORD_STREAM_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_RECORD_STREAM_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask {

class DecodeQuota;

struct NamedRecord {
  ArchiveEntry entry;
  DecodedTensor tensor;
};

// Moves the name of a tensor from its metadata to the result. A tensor without a name is named by `number`.
NamedRecord ExtractName(DecodedTensor tensor, int64_t number);
// The inverse, for the metadata of a tensor. Errors: InvalidArgument if it has another name already, or if `name` is
// empty: a reader would call the tensor by its number.
absl::StatusOr<TensorMetadata> AttachName(const std::string& name, TensorMetadata metadata);
absl::StatusOr<DecodedTensor> AttachName(const std::string& name, DecodedTensor tensor);

// Reads records from `offset` on. All records together have at most `max_bytes` bytes, and each of them at most the
// memory of the machine.
RecordReaderOptions ArchiveRecordsFrom(uint64_t offset, uint64_t max_bytes = UINT64_MAX, bool verify_data = true);

// Reads the tensors of a stream, however large, one at a time.
class NamedRecordReader {
 public:
  // `base` resolves deltas; null if none is available. With kSkip a tensor comes without the metadata that cannot be
  // read; its metadata_status then is an error.
  // `max_bytes`: as for ArchiveRecordsFrom. A record past that is refused before its bytes are read.
  // `verify_data`: as in RecordReaderOptions.
  explicit NamedRecordReader(std::unique_ptr<ByteStream> stream, std::shared_ptr<const BaseLookup> base = nullptr,
                             UnreadableMetadata unreadable_metadata = UnreadableMetadata::kRefuse,
                             uint64_t max_bytes = UINT64_MAX, bool verify_data = true);
  // Reads a file from the record at from.offset on: record `number`.
  NamedRecordReader(std::shared_ptr<const ByteSource> file, const RecordReaderOptions& from, int64_t number,
                    std::shared_ptr<const BaseLookup> base, UnreadableMetadata unreadable_metadata);

  // From now on Next lists what it cannot read, instead of failing: an entry with ArchiveEntry::read_status, named by
  // its number. A record whose length is intact hides no other; a damaged length, or the cut end of a stream, is the
  // last entry. *memory is charged with these entries, and outlives this object.
  void ListUnreadable(DecodeQuota* memory) { unreadable_ = memory; }

  // The next tensor, with its metadata except the name; nullopt at the end. A record without a name is named by its
  // number, from 0.
  // Errors: those of ReadTensorRecordWithMetadata.
  absl::StatusOr<std::optional<NamedRecord>> Next();

 private:
  absl::StatusOr<std::optional<NamedRecord>> Listed(uint64_t offset, const absl::Status& status);

  const DecodeLimits limits_;
  RecordReader reader_;
  const std::shared_ptr<const BaseLookup> base_;  // may be null
  const UnreadableMetadata unreadable_metadata_;
  int64_t number_ = 0;                 // the number of the next record
  DecodeQuota* unreadable_ = nullptr;  // null: what cannot be read is an error
  bool is_at_end_ = false;             // what follows cannot be read
};

// The entry of a record that cannot be read, for the reason `status`.
ArchiveEntry UnreadableRecord(int64_t number, uint64_t offset, const absl::Status& status, absl::string_view file);
// True if `status` is about the record that was read, and not about this process or a limit.
bool IsAboutRecord(const absl::Status& status);

// Writes the tensor with its metadata, strides and name; compressed as `payload` says.
// Errors: those of AttachName and of WriteTensorRecord.
absl::Status WriteNamedRecord(const std::string& name, const DecodedTensor& tensor, const PayloadOptions& payload,
                              RecordWriter* writer);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_RECORD_STREAM_H_
