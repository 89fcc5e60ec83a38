#include "tensorcask/tools/record_stream.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/internal/atomic_publish.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {
namespace {

// Memory follows the bytes that are present, so no limit on the size of a tensor is needed.
DecodeLimits AnyLength() {
  DecodeLimits limits;
  limits.max_message_bytes = std::numeric_limits<int64_t>::max();
  return limits;
}

RecordReaderOptions AnyLengthFrom(uint64_t offset) {
  RecordReaderOptions options;
  options.offset = offset;
  options.limits = AnyLength();
  return options;
}

class RecordsInput final : public Input {
 public:
  static absl::StatusOr<std::unique_ptr<Input>> Open(const std::string& path, const InputOptions& options) {
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const BaseLookup> base, OpenBase(options.base));
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, {}));
    NamedTensorReader reader(MakeSourceStream(file), base, !options.refuse_unreadable_metadata);
    std::vector<TensorInfo> tensors;
    while (true) {
      CASK_ASSIGN_OR_RETURN(std::optional<NamedTensor> record, reader.Next());
      if (!record.has_value()) break;
      tensors.push_back(std::move(record->info));
    }
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(tensors.begin(), tensors.end(),
                                          [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
    if (twice != tensors.end()) {
      return absl::DataLossError(absl::StrCat(path, ": the records at ", *twice->offset, " and ",
                                              *std::next(twice)->offset, " are both called ", Quoted(twice->name)));
    }
    return std::unique_ptr<Input>(new RecordsInput(std::move(file), std::move(base), std::move(tensors)));
  }

  absl::string_view format() const override { return kRecords; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithReadableMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithReadableMetadata(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, tensor.view.Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    return ReadRecord(name, /*skip_unreadable_metadata=*/false);
  }
  absl::StatusOr<DecodedTensor> ReadWithReadableMetadata(absl::string_view name) const override {
    return ReadRecord(name, /*skip_unreadable_metadata=*/true);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.metadata;
  }
  absl::StatusOr<std::string> DrawObjects() const override {
    return absl::InvalidArgumentError("a record file has no objects; only checkpoints of TensorFlow have them");
  }

 private:
  RecordsInput(std::shared_ptr<const ByteSource> file, std::shared_ptr<const BaseLookup> base,
               std::vector<TensorInfo> tensors)
      : file_(std::move(file)), base_(std::move(base)), tensors_(std::move(tensors)) {}

  absl::StatusOr<DecodedTensor> ReadRecord(absl::string_view name, bool skip_unreadable_metadata) const {
    const auto info = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                       [](const TensorInfo& a, absl::string_view b) { return a.name < b; });
    if (info == tensors_.end() || info->name != name) {
      return absl::NotFoundError(absl::StrCat(file_->name(), ": no tensor ", Quoted(name)));
    }
    RecordReader reader(file_, AnyLengthFrom(*info->offset));
    DecodeOptions options;
    options.limits = AnyLength();
    options.base = base_;
    options.skip_unreadable_metadata = skip_unreadable_metadata;
    CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor, ReadTensorRecordWithMetadata(&reader, options));
    if (!tensor.has_value())
      return absl::DataLossError(absl::StrCat(file_->name(), ": became shorter while it was read"));
    tensor->metadata.name.clear();
    return *std::move(tensor);
  }
  const std::shared_ptr<const ByteSource> file_;
  const std::shared_ptr<const BaseLookup> base_;  // may be null
  const std::vector<TensorInfo> tensors_;
};

class RecordsOutput final : public Output {
 public:
  static absl::StatusOr<std::unique_ptr<Output>> Create(const std::string& path, const OutputOptions& options) {
    PublishOptions publish;
    publish.overwrite = options.overwrite;
    PayloadOptions payload = {options.level};
    CASK_ASSIGN_OR_RETURN(payload.base, OpenBase(options.base));
    std::unique_ptr<RecordsOutput> output(new RecordsOutput(publish, std::move(payload)));
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, output->publish_.Add(path));
    output->writer_.emplace(sink);
    return std::unique_ptr<Output>(std::move(output));
  }

  absl::Status Add(const TensorInfo& info, const DecodedTensor& tensor) override {
    return WriteNamedTensor(info.name, tensor, payload_, &*writer_);
  }
  absl::Status Finish() override { return publish_.Commit(); }

 private:
  RecordsOutput(const PublishOptions& options, PayloadOptions payload)
      : publish_(options), payload_(std::move(payload)) {}

  AtomicPublish publish_;
  const PayloadOptions payload_;
  std::optional<RecordWriter> writer_;  // to a sink of publish_
};

}  // namespace

NamedTensor ExtractName(DecodedTensor tensor, int64_t number) {
  const std::string name = std::exchange(tensor.metadata.name, "");
  TensorInfo info = DescribeTensor(name.empty() ? absl::StrCat(number) : name, tensor);
  return {std::move(info), std::move(tensor)};
}

absl::StatusOr<DecodedTensor> AttachName(const std::string& name, DecodedTensor tensor) {
  std::string& old = tensor.metadata.name;
  if (!old.empty() && old != name) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), ": its metadata has another name, ",
                                                   Quoted(old), "; a record holds one name"));
  }
  old = name;
  return tensor;
}

NamedTensorReader::NamedTensorReader(std::unique_ptr<ByteStream> stream, std::shared_ptr<const BaseLookup> base,
                                     bool skip_unreadable_metadata)
    : reader_(std::move(stream), AnyLengthFrom(0)),
      base_(std::move(base)),
      skip_unreadable_metadata_(skip_unreadable_metadata) {}

absl::StatusOr<std::optional<NamedTensor>> NamedTensorReader::Next() {
  DecodeOptions options;
  options.limits = AnyLength();
  options.base = base_;
  options.skip_unreadable_metadata = skip_unreadable_metadata_;
  const uint64_t offset = reader_.offset();
  CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor, ReadTensorRecordWithMetadata(&reader_, options));
  if (!tensor.has_value()) return std::nullopt;
  NamedTensor named = ExtractName(*std::move(tensor), number_);
  named.info.stored_bytes = reader_.offset() - offset;
  named.info.offset = offset;
  ++number_;
  return named;
}

absl::Status WriteNamedTensor(const std::string& name, const DecodedTensor& tensor, const PayloadOptions& payload,
                              RecordWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const DecodedTensor named, AttachName(name, tensor));
  EncodeOptions options;
  options.layout = StoredLayout::kPreserve;
  options.payload = payload;
  return Annotate(WriteTensorRecord(named.view, named.metadata, options, writer),
                  absl::StrCat("tensor ", Quoted(name)));
}

bool LooksLikeRecords(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, {});
  char header[12];
  return file.ok() && (*file)->size_bytes() >= sizeof(header) && (*file)->ReadAt(0, absl::MakeSpan(header)).ok() &&
         StartsWithRecord({header, sizeof(header)});
}

absl::StatusOr<std::unique_ptr<Input>> OpenRecords(const std::string& path, const InputOptions& options) {
  return RecordsInput::Open(path, options);
}

absl::StatusOr<std::unique_ptr<Output>> CreateRecords(const std::string& path, const OutputOptions& options) {
  return RecordsOutput::Create(path, options);
}

}  // namespace tensorcask::tools
