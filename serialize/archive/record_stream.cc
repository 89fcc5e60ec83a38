#include "tensorcask/serialize/archive/record_stream.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/tensor/base/memory_pages.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// The memory of this machine: no record can be longer. Memory follows the bytes that are present, so a file needs no
// other limit; a stream without end does.
uint64_t MachineBytes() { return internal::MachineMemoryBytes().value_or(uint64_t{1} << 40); }

}  // namespace

RecordReaderOptions ArchiveRecordsFrom(uint64_t offset, uint64_t max_bytes, bool verify_data) {
  RecordReaderOptions options;
  options.offset = offset;
  options.limits.max_message_bytes = static_cast<int64_t>(std::min({max_bytes, MachineBytes(), uint64_t{INT64_MAX}}));
  options.max_total_bytes = max_bytes;
  options.verify_data = verify_data;
  return options;
}

NamedRecord ExtractName(DecodedTensor tensor, int64_t number) {
  const std::string name = std::exchange(tensor.metadata.name, "");
  ArchiveEntry entry = DescribeTensor(name.empty() ? absl::StrCat(number) : name, tensor);
  return {std::move(entry), std::move(tensor)};
}

absl::StatusOr<DecodedTensor> AttachName(const std::string& name, DecodedTensor tensor) {
  CASK_ASSIGN_OR_RETURN(tensor.metadata, AttachName(name, std::move(tensor.metadata)));
  return tensor;
}

absl::StatusOr<TensorMetadata> AttachName(const std::string& name, TensorMetadata metadata) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "tensor \"\": its name is empty, and readers call a record without a name by its number; rename the tensor");
  }
  std::string& old = metadata.name;
  if (!old.empty() && old != name) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), ": its metadata has another name, ",
                                                   Quoted(old), "; a record holds one name"));
  }
  old = name;
  return metadata;
}

NamedRecordReader::NamedRecordReader(std::unique_ptr<ByteStream> stream, std::shared_ptr<const BaseLookup> base,
                                     UnreadableMetadata unreadable_metadata, uint64_t max_bytes, bool verify_data)
    : limits_(ArchiveRecordsFrom(0, max_bytes).limits),
      reader_(std::move(stream), ArchiveRecordsFrom(0, max_bytes, verify_data)),
      base_(std::move(base)),
      unreadable_metadata_(unreadable_metadata) {}

NamedRecordReader::NamedRecordReader(std::shared_ptr<const ByteSource> file, const RecordReaderOptions& from,
                                     int64_t number, std::shared_ptr<const BaseLookup> base,
                                     UnreadableMetadata unreadable_metadata)
    : limits_(from.limits),
      reader_(std::move(file), from),
      base_(std::move(base)),
      unreadable_metadata_(unreadable_metadata),
      number_(number) {}

absl::StatusOr<std::optional<NamedRecord>> NamedRecordReader::Next() {
  DecodeOptions options;
  options.limits = limits_;
  options.base = base_;
  options.unreadable_metadata = unreadable_metadata_;
  const uint64_t offset = reader_.offset();
  if (is_at_end_) return std::nullopt;
  absl::StatusOr<std::optional<DecodedTensor>> read = ReadTensorRecordWithMetadata(&reader_, options);
  if (!read.ok() && unreadable_ != nullptr && IsAboutRecord(read.status())) return Listed(offset, read.status());
  CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor, std::move(read));
  if (!tensor.has_value()) return std::nullopt;
  NamedRecord named = ExtractName(*std::move(tensor), number_);
  named.entry.stored_bytes = reader_.offset() - offset;
  named.entry.offset = offset;
  ++number_;
  return named;
}

absl::StatusOr<std::optional<NamedRecord>> NamedRecordReader::Listed(uint64_t offset, const absl::Status& status) {
  is_at_end_ = reader_.offset() == offset && !reader_.SkipDamaged();
  NamedRecord record;
  record.entry = UnreadableRecord(number_++, offset, status, reader_.name());
  record.entry.stored_bytes = reader_.offset() - offset;
  CASK_RETURN_IF_ERROR(unreadable_->Charge(sizeof(NamedRecord) + record.entry.read_status.message().size()));
  return record;
}

ArchiveEntry UnreadableRecord(int64_t number, uint64_t offset, const absl::Status& status, absl::string_view file) {
  absl::string_view message = status.message();
  absl::ConsumePrefix(&message, absl::StrCat(file, ": "));
  ArchiveEntry entry;
  entry.name = absl::StrCat(number);
  entry.encoding = "not readable";
  entry.offset = offset;
  entry.read_status = MarkDamageOf(status, absl::Status(status.code(), message));
  return entry;
}

bool IsAboutRecord(const absl::Status& status) {
  return (absl::IsDataLoss(status) || absl::IsUnimplemented(status)) && !IsResourceFailure(status);
}

absl::Status WriteNamedRecord(const std::string& name, const DecodedTensor& tensor, const PayloadOptions& payload,
                              RecordWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const DecodedTensor named, AttachName(name, tensor));
  EncodeOptions options;
  options.layout = StoredLayout::kPreserve;
  options.payload = payload;
  return Annotate(WriteTensorRecord(named.view, named.metadata, options, writer),
                  absl::StrCat("tensor ", Quoted(name)));
}

}  // namespace tensorcask
