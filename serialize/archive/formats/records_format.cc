#include "tensorcask/serialize/archive/formats/records_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/formats/internal/content_blocks.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/message_frame.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

// Errors: DataLoss for a name that occurs twice. Requires: sorted by name.
absl::Status CheckNamesDiffer(const std::string& path, const std::vector<ArchiveEntry>& entries) {
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.name == b.name; });
  if (twice == entries.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": the records at ", *twice->offset, " and ", *std::next(twice)->offset,
                                          " are both called ", Quoted(twice->name)));
}

// Gives a record that cannot be read, and so is named by its number, another name if a tensor has that one.
void SeparateNames(std::vector<ArchiveEntry>* entries) {
  const auto is_unreadable = [](const ArchiveEntry& entry) { return !entry.read_status.ok(); };
  if (std::none_of(entries->begin(), entries->end(), is_unreadable)) return;
  absl::flat_hash_set<absl::string_view> names;
  for (const ArchiveEntry& entry : *entries) {
    if (entry.read_status.ok()) names.insert(entry.name);
  }
  for (ArchiveEntry& entry : *entries) {
    if (entry.read_status.ok()) continue;
    while (names.contains(entry.name)) entry.name = absl::StrCat("record-", entry.name);
  }
}

// OK if one of `entries` is a tensor that can be read, or there is none. Otherwise why the first one cannot be read.
absl::Status CheckAnyReadable(const std::string& path, const std::vector<ArchiveEntry>& entries) {
  absl::Status first;
  for (const ArchiveEntry& entry : entries) {
    if (entry.read_status.ok()) return absl::OkStatus();
    first.Update(entry.read_status);
  }
  return Annotate(first, path);
}

// A tf.Example begins with field 1 as a message (its features), a TensorProto with field 1 as a number (its dtype).
absl::Status Explain(const absl::Status& status, const ByteSource& file) {
  constexpr uint64_t kHeaderBytes = 12;
  char first;
  if (!file.ReadAt(kHeaderBytes, absl::MakeSpan(&first, 1)).ok() || first != '\x0a') return status;
  return AppendToMessage(status, "; the record looks like a tf.Example, which is not a tensor");
}

constexpr uint64_t kRecordHeaderBytes = 12;
constexpr uint64_t kRecordChecksumBytes = 4;

struct ScannedRecord {
  ArchiveEntry entry;
  std::optional<internal::StoredContent> content;  // set for a large record that can be read in blocks
};

// Reads the records of a file, but for the elements of large ones. Lists those that it cannot read
// (NamedRecordReader::ListUnreadable).
class RecordScanner {
 public:
  RecordScanner(std::shared_ptr<const ByteSource> file, const ArchiveReaderOptions& options)
      : file_(std::move(file)),
        options_(options),
        unreadable_(DecodeQuota::ForUnbacked(options.limits, file_->size_bytes())) {}

  // nullopt at the end. Errors: those that are not about one record.
  absl::StatusOr<std::optional<ScannedRecord>> Next() {
    CASK_ASSIGN_OR_RETURN(std::optional<ScannedRecord> large, NextLarge());
    if (large.has_value()) return large;
    if (reader_ == nullptr) {
      reader_ =
          std::make_unique<NamedRecordReader>(file_, ArchiveRecordsFrom(offset_, UINT64_MAX, options_.verify_checksums),
                                              number_, options_.base, options_.unreadable_metadata);
      reader_->ListUnreadable(&unreadable_);
    }
    CASK_ASSIGN_OR_RETURN(std::optional<NamedRecord> record, reader_->Next());
    if (!record.has_value()) return std::nullopt;
    offset_ += record->entry.stored_bytes;
    ++number_;
    return ScannedRecord{std::move(record->entry), std::nullopt};
  }

 private:
  // The next record if it is large and can be read in blocks.
  absl::StatusOr<std::optional<ScannedRecord>> NextLarge() {
    constexpr uint64_t kFrameBytes = kRecordHeaderBytes + kRecordChecksumBytes;
    const uint64_t left = file_->size_bytes() - offset_;
    if (left < archive::kLargeMessageBytes + kFrameBytes) return std::nullopt;
    char header[kRecordHeaderBytes];
    CASK_RETURN_IF_ERROR(file_->ReadAt(offset_, absl::MakeSpan(header)));
    const auto data_bytes = LoadLittleEndian<uint64_t>(header);
    if (data_bytes < archive::kLargeMessageBytes || data_bytes > left - kFrameBytes ||
        !StartsWithRecord({header, kRecordHeaderBytes})) {
      return std::nullopt;
    }
    DecodeOptions decode;
    decode.unreadable_metadata = options_.unreadable_metadata;
    absl::StatusOr<std::optional<internal::StoredContent>> content =
        internal::FindContent(*file_, offset_ + kRecordHeaderBytes, data_bytes, decode);
    ScannedRecord record;
    if (content.ok()) {
      if (!content->has_value()) return std::nullopt;
      std::string name = std::exchange((*content)->metadata.name, "");
      record.entry = archive::DescribeContent(name.empty() ? absl::StrCat(number_) : std::move(name), **content);
      record.entry.offset = offset_;
      record.content = *std::move(content);
    } else {
      const absl::Status status = AsDataLoss(content.status(), absl::StrCat("record at ", offset_));
      if (!IsAboutRecord(status)) return content.status();
      record.entry = UnreadableRecord(number_, offset_, status, file_->name());
    }
    record.entry.stored_bytes = data_bytes + kFrameBytes;
    offset_ += record.entry.stored_bytes;
    ++number_;
    reader_ = nullptr;  // it continues at another offset
    return record;
  }

  const std::shared_ptr<const ByteSource> file_;
  const ArchiveReaderOptions& options_;
  DecodeQuota unreadable_;                     // charged for records that are only listed
  std::unique_ptr<NamedRecordReader> reader_;  // positioned at offset_; null: there is none
  uint64_t offset_ = 0;                        // the position of the next record
  int64_t number_ = 0;                         // likewise
};

// By name; without the name in their metadata.
using LargeRecords = std::map<std::string, internal::StoredContent, std::less<>>;

class RecordsReader final : public ArchiveReader {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options) {
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
    RecordScanner scanner(file, options);
    const std::shared_ptr<ListingBudget> listing = options.listing_or_new();
    std::vector<ArchiveEntry> entries;
    LargeRecords large;
    while (true) {
      CASK_ASSIGN_OR_RETURN(std::optional<ScannedRecord> record, scanner.Next());
      if (!record.has_value()) break;
      if (entries.size() >= LimitOf(options.limits.max_entries)) {
        return PastLimit(absl::StrCat(path, ": has more records"), "max_entries", options.limits.max_entries);
      }
      ScannedRecord& scanned = *record;
      listing->AddIndex(scanned.entry.stored_bytes);
      CASK_RETURN_IF_ERROR(Annotate(listing->Charge(EntryMemory(scanned.entry)), path));
      if (scanned.content.has_value()) large.emplace(scanned.entry.name, *std::move(scanned.content));
      entries.push_back(std::move(scanned.entry));
    }
    if (entries.empty()) return absl::DataLossError(absl::StrCat(path, ": contains no record"));
    const absl::Status any = CheckAnyReadable(path, entries);
    if (!any.ok()) return Explain(any, *file);
    SeparateNames(&entries);
    std::stable_sort(entries.begin(), entries.end(),
                     [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.name < b.name; });
    CASK_RETURN_IF_ERROR(CheckNamesDiffer(path, entries));
    return std::unique_ptr<ArchiveReader>(
        new RecordsReader(std::move(file), options, std::move(entries), std::move(large)));
  }

  absl::string_view format() const override { return "records"; }
  const std::string& path() const override { return file_->name(); }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadIgnoringBadMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadIgnoringBadMetadata(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, tensor.view.Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    return ReadRecord(name, UnreadableMetadata::kRefuse);
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    return ReadRecord(name, UnreadableMetadata::kSkip);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    const auto large = large_.find(name);
    if (large != large_.end() && large->second.metadata_status.ok()) return large->second.metadata;
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.metadata;
  }

  std::vector<std::string> files() const override {
    std::vector<std::string> files = {path()};
    const auto base = base_ == nullptr ? std::nullopt : base_->base_location();
    if (base.has_value()) files.push_back(absl::StrCat(base->prefix, ".index"));
    return files;
  }

 private:
  RecordsReader(std::shared_ptr<const ByteSource> file, const ArchiveReaderOptions& options,
                std::vector<ArchiveEntry> entries, LargeRecords large)
      : file_(std::move(file)),
        base_(options.base),
        verify_(options.verify_checksums),
        entries_(std::move(entries)),
        large_(std::move(large)) {}

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const stored, Find(entry.name));
    const internal::StoredContent& content = large_.find(entry.name)->second;
    const uint64_t data_end = *stored->offset + stored->stored_bytes - kRecordChecksumBytes;
    const auto check = [this, record = *stored->offset, behind = content.offset + content.bytes,
                        data_end](uint32_t crc) -> absl::Status {
      std::vector<char> rest(static_cast<size_t>(data_end + kRecordChecksumBytes - behind));
      CASK_RETURN_IF_ERROR(file_->ReadAt(behind, absl::MakeSpan(rest)));
      const absl::string_view tail(rest.data(), rest.size() - kRecordChecksumBytes);
      const uint32_t found = MaskCrc32c(ExtendCrc32c(crc, tail));
      const uint32_t wanted = LoadLittleEndian<uint32_t>(rest.data() + tail.size());
      if (found == wanted || !verify_) return absl::OkStatus();
      return MarkWrongChecksum(absl::DataLossError(
          absl::StrCat(file_->name(), ": record at ", record, ": the checksum of its data is ",
                       absl::Hex(found, absl::kZeroPad8), ", stored is ", absl::Hex(wanted, absl::kZeroPad8))));
    };
    return archive::OpenContent(file_, content, entry.name, *stored->offset + kRecordHeaderBytes, check);
  }

  absl::StatusOr<DecodedTensor> ReadRecord(absl::string_view name, UnreadableMetadata unreadable_metadata) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    CASK_RETURN_IF_ERROR(CheckReadable(*entry));
    const RecordReaderOptions from = ArchiveRecordsFrom(*entry->offset, UINT64_MAX, verify_);
    DecodeOptions options;
    options.limits = from.limits;
    options.base = base_;
    options.unreadable_metadata = unreadable_metadata;
    // Records that are read in the order of the file share a reader and its buffer.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (reader_ == nullptr || reader_->offset() != from.offset) reader_ = std::make_unique<RecordReader>(file_, from);
    absl::StatusOr<std::optional<DecodedTensor>> read = ReadTensorRecordWithMetadata(reader_.get(), options);
    if (!read.ok()) reader_ = nullptr;  // it would return the same error again
    CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor, std::move(read));
    if (!tensor.has_value())
      return absl::DataLossError(absl::StrCat(file_->name(), ": became shorter while it was read"));
    tensor->metadata.name.clear();
    return *std::move(tensor);
  }

  const std::shared_ptr<const ByteSource> file_;
  const std::shared_ptr<const BaseLookup> base_;  // may be null
  const bool verify_;
  const std::vector<ArchiveEntry> entries_;
  const LargeRecords large_;  // which can be read in blocks
  mutable std::mutex mutex_;
  mutable std::unique_ptr<RecordReader> reader_;  // positioned after the record that was read last; may be null
};

// The names of the tensors that were written so far. Of each it keeps 16 bytes: two hashes, which depend on the
// process.
class NameSet {
 public:
  static constexpr size_t kMaxNames = 10'000'000;  // as DecodeLimits::max_entries

  // Errors: AlreadyExists; ResourceExhausted past kMaxNames.
  absl::Status Add(absl::string_view name) {
    using Hash = absl::Hash<std::pair<int, absl::string_view>>;
    if (hashes_.size() == kMaxNames) {
      return absl::ResourceExhaustedError(absl::StrCat("a record file has at most ", kMaxNames, " named tensors"));
    }
    if (hashes_.insert({Hash()({1, name}), Hash()({2, name})}).second) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("tensor ", Quoted(name), " was added before"));
  }

 private:
  absl::flat_hash_set<std::pair<size_t, size_t>> hashes_;
};

class RecordsWriter final : public ArchiveWriter {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                               const ArchiveWriterOptions& options) {
    PublishOptions publish;
    publish.file_system = options.file_system;
    publish.overwrite = options.overwrite;
    publish.sync = options.sync;
    PayloadOptions payload = {options.level};
    payload.base = options.base;
    std::unique_ptr<RecordsWriter> writer(new RecordsWriter(path, publish, std::move(payload)));
    CASK_ASSIGN_OR_RETURN(writer->sink_, writer->publish_.Add(path));
    writer->records_.emplace(writer->sink_);
    return std::unique_ptr<ArchiveWriter>(std::move(writer));
  }

  absl::Status Declare(const ArchiveEntry& /*entry*/) override {
    return UnlessFailed([&] {
      is_declared_ = true;
      return absl::OkStatus();
    });
  }
  absl::StatusOr<ReplacedFiles> Start() override {
    if (!is_declared_ && sink_->position() == 0) return NoTensor();
    return ReplacedFileAt(path_, file_system_);
  }
  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return UnlessFailed([&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(slices_.CheckComplete());
      CASK_RETURN_IF_ERROR(AddName(entry.name));
      return WriteNamedRecord(entry.name, tensor, payload_, &*records_);
    });
  }
  // Encoding looks at samples of the whole tensor before it writes.
  bool writes_in_blocks(const ArchiveEntry& entry) const override {
    return payload_.level == PayloadLevel::kStored && IsFixedSize(entry.dtype) && entry.strides.empty();
  }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    if (!writes_in_blocks(entry)) return ArchiveWriter::AddSlice(entry, metadata, slice, elements);
    return UnlessFailed([&] { return WriteSlice(entry, metadata, slice, elements); });
  }

 private:
  RecordsWriter(std::string path, const PublishOptions& options, PayloadOptions payload)
      : path_(std::move(path)), file_system_(options.file_system), publish_(options), payload_(std::move(payload)) {}

  absl::Status WriteSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                          const TensorView& elements) {
    CASK_ASSIGN_OR_RETURN(const TensorMetadata named, AttachName(entry.name, metadata));
    const auto begin = [&](uint64_t message_bytes) {
      CASK_RETURN_IF_ERROR(AddName(entry.name));
      return records_->Begin(message_bytes);
    };
    const absl::Status added = slices_.Add(entry, named, slice, elements, begin,
                                           [&](absl::string_view bytes) { return records_->Append(bytes); });
    return Annotate(added, path_);
  }

  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(slices_.CheckComplete());
    if (records_->missing_bytes() > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": the last record is incomplete: ", records_->missing_bytes(), " bytes are missing"));
    }
    const uint64_t bytes = sink_->position();
    if (bytes == 0) return NoTensor();
    CASK_RETURN_IF_ERROR(publish_.Commit());
    return bytes;
  }

  absl::Status NoTensor() const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": no tensor was added; readers refuse a file without records, which may be cut short"));
  }
  absl::Status AddName(const std::string& name) { return Annotate(names_.Add(name), path_); }

  const std::string path_;
  FileSystem* const file_system_;
  Publication publish_;
  NameSet names_;
  const PayloadOptions payload_;
  bool is_declared_ = false;             // a tensor
  FileSink* sink_ = nullptr;             // the file of publish_
  std::optional<RecordWriter> records_;  // to sink_
  archive::MessageSlices slices_;
};

}  // namespace

ArchiveTraits RecordsArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.strides = true;
  traits.metadata = true;
  traits.one_name = true;
  traits.levels = true;
  traits.deltas = true;
  traits.strings = true;
  traits.empty_names = false;  // a record without a name is called by its number
  return traits;
}

bool RecordsArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  constexpr size_t kHeaderBytes = 12;
  return probe.head.size() >= kHeaderBytes && StartsWithRecord(probe.head.substr(0, kHeaderBytes));
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> RecordsArchiveFormat::Open(const std::string& path,
                                                                          const ArchiveReaderOptions& options) const {
  return RecordsReader::Open(path, options);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> RecordsArchiveFormat::Create(const std::string& path,
                                                                            const ArchiveWriterOptions& options) const {
  return RecordsWriter::Create(path, options);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ReadRecordStream(std::unique_ptr<ByteStream> stream,
                                                                const ArchiveReaderOptions& options,
                                                                uint64_t max_bytes) {
  const std::string name = stream->name();
  const auto limit = static_cast<uint64_t>(options.limits.max_file_decoded_bytes);
  NamedRecordReader reader(std::move(stream), options.base, options.unreadable_metadata, max_bytes,
                           options.verify_checksums);
  DecodeQuota unreadable = DecodeQuota::ForUnbacked(options.limits);
  reader.ListUnreadable(&unreadable);
  constexpr uint64_t kBufferBytes = 192;  // what a tensor takes besides its elements
  const std::shared_ptr<ListingBudget> listing = options.listing_or_new();
  KeptTensors records;
  uint64_t bytes = 0;
  while (true) {
    CASK_ASSIGN_OR_RETURN(std::optional<NamedRecord> record, reader.Next());
    if (!record.has_value()) break;
    bytes += ElementBytes(record->entry);
    if (bytes > limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name, ": its tensors take more than max_file_decoded_bytes = ", limit, " bytes of memory"));
    }
    if (records.entries.size() >= LimitOf(options.limits.max_entries)) {
      return PastLimit(absl::StrCat(name, ": has more records"), "max_entries", options.limits.max_entries);
    }
    listing->AddIndex(record->entry.stored_bytes);
    CASK_RETURN_IF_ERROR(Annotate(
        listing->Charge(EntryMemory(record->entry) + KeptTensor::MemoryOf(record->tensor) + kBufferBytes), name));
    records.Add(*std::move(record));
  }
  if (records.entries.empty()) return absl::DataLossError(absl::StrCat(name, ": contains no record"));
  CASK_RETURN_IF_ERROR(CheckAnyReadable(name, records.entries));
  SeparateNames(&records.entries);
  records.SortByName();
  CASK_RETURN_IF_ERROR(CheckNamesDiffer(name, records.entries));
  return MakeDecodedArchive("records", name, std::move(records), /*has_names=*/true);
}

}  // namespace tensorcask
