#include "tensorcask/tools/record_stream.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/io/atomic_publish.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {
namespace {

// Memory follows the bytes that are there, so tensors may be as large as they are.
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
  static absl::StatusOr<std::unique_ptr<Input>> Open(const std::string& path) {
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, {}));
    NamedTensorReader reader(MakeSourceStream(file));
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
    return std::unique_ptr<Input>(new RecordsInput(std::move(file), std::move(tensors)));
  }

  absl::string_view format() const override { return kRecords; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, tensor.view.Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    const auto info = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                       [](const TensorInfo& a, absl::string_view b) { return a.name < b; });
    if (info == tensors_.end() || info->name != name) {
      return absl::NotFoundError(absl::StrCat(file_->name(), ": no tensor ", Quoted(name)));
    }
    RecordReader reader(file_, AnyLengthFrom(*info->offset));
    DecodeOptions options;
    options.limits = AnyLength();
    CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor, ReadTensorRecordWithMetadata(&reader, options));
    if (!tensor.has_value()) return absl::DataLossError(absl::StrCat(file_->name(), ": became shorter"));
    tensor->metadata.name.clear();
    return *std::move(tensor);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.metadata;
  }
  absl::StatusOr<std::string> DrawObjects() const override {
    return absl::InvalidArgumentError("records have no objects; checkpoints of TensorFlow have");
  }

 private:
  RecordsInput(std::shared_ptr<const ByteSource> file, std::vector<TensorInfo> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  const std::shared_ptr<const ByteSource> file_;
  const std::vector<TensorInfo> tensors_;
};

class RecordsOutput final : public Output {
 public:
  static absl::StatusOr<std::unique_ptr<Output>> Create(const std::string& path, const OutputOptions& options) {
    PublishOptions publish;
    publish.overwrite = options.overwrite;
    std::unique_ptr<RecordsOutput> output(new RecordsOutput(publish, options.level));
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, output->publish_.Add(path));
    output->writer_.emplace(sink);
    return std::unique_ptr<Output>(std::move(output));
  }

  absl::Status Add(const TensorInfo& info, const DecodedTensor& tensor) override {
    return WriteNamedTensor(info.name, tensor, level_, &*writer_);
  }
  absl::Status Finish() override { return publish_.Commit(); }

 private:
  RecordsOutput(const PublishOptions& options, PayloadLevel level) : publish_(options), level_(level) {}

  AtomicPublish publish_;
  PayloadLevel level_;
  std::optional<RecordWriter> writer_;  // to a sink of publish_
};

}  // namespace

NamedTensor TakeName(DecodedTensor tensor, int64_t number) {
  const std::string name = std::exchange(tensor.metadata.name, "");
  TensorInfo info = DescribeTensor(name.empty() ? absl::StrCat(number) : name, tensor);
  return {std::move(info), std::move(tensor)};
}

absl::StatusOr<DecodedTensor> PutName(const std::string& name, DecodedTensor tensor) {
  std::string& old = tensor.metadata.name;
  if (!old.empty() && old != name) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), ": its metadata call it ", Quoted(old),
                                                   "; a record has room for one name"));
  }
  old = name;
  return tensor;
}

NamedTensorReader::NamedTensorReader(std::unique_ptr<ByteStream> stream)
    : reader_(std::move(stream), AnyLengthFrom(0)) {}

absl::StatusOr<std::optional<NamedTensor>> NamedTensorReader::Next() {
  DecodeOptions options;
  options.limits = AnyLength();
  const uint64_t offset = reader_.offset();
  CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor, ReadTensorRecordWithMetadata(&reader_, options));
  if (!tensor.has_value()) return std::nullopt;
  NamedTensor named = TakeName(*std::move(tensor), number_);
  named.info.stored_bytes = reader_.offset() - offset;
  named.info.offset = offset;
  ++number_;
  return named;
}

absl::Status WriteNamedTensor(const std::string& name, const DecodedTensor& tensor, PayloadLevel level,
                              RecordWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const DecodedTensor named, PutName(name, tensor));
  EncodeOptions options;
  options.layout = StoredLayout::kPreserve;
  options.level = level;
  absl::Status status = WriteTensorRecord(named.view, named.metadata, options, writer);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("tensor ", Quoted(name), ": ", status.message()));
}

bool LooksLikeRecords(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, {});
  char head[12];
  return file.ok() && (*file)->size_bytes() >= sizeof(head) && (*file)->ReadAt(0, absl::MakeSpan(head)).ok() &&
         StartsWithRecord({head, sizeof(head)});
}

absl::StatusOr<std::unique_ptr<Input>> OpenRecords(const std::string& path) { return RecordsInput::Open(path); }

absl::StatusOr<std::unique_ptr<Output>> CreateRecords(const std::string& path, const OutputOptions& options) {
  return RecordsOutput::Create(path, options);
}

}  // namespace tensorcask::tools
