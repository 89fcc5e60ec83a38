#include "tensorcask/tools/formats.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/writer.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/atomic_publish.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tools/console.h"
#include "tensorcask/tools/record_stream.h"
#include "tensorcask/tools/served_input.h"

namespace tensorcask::tools {
namespace {

// A parsed text message takes many times the size of the text in memory.
constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

// "dir/x.pb" -> "x": the name for a message, which has none.
std::string Stem(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) path.remove_prefix(slash + 1);
  const size_t dot = path.rfind('.');
  if (dot != absl::string_view::npos && dot > 0) path = path.substr(0, dot);
  return std::string(path);
}

// "plain", "encoded default", "encoded high delta".
void SetEncoding(EntryForm form, const PayloadHeader* payload, TensorInfo* info) {
  info->encoding = std::string(EntryFormName(form));
  if (payload == nullptr) return;
  absl::StrAppend(&info->encoding, " ", PayloadLevelName(static_cast<PayloadLevel>(payload->level)),
                  payload->is_delta ? " delta" : "");
  info->decoded_bytes = payload->decoded_bytes();
}

class CheckpointInput final : public Input {
 public:
  static absl::StatusOr<std::unique_ptr<Input>> Open(const std::string& path, const std::string& base) {
    CASK_ASSIGN_OR_RETURN(CheckpointReader reader, OpenCheckpoint(path, base));
    CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
    std::vector<TensorInfo> tensors;
    tensors.reserve(entries.size());
    for (const CheckpointEntry& entry : entries) {
      TensorInfo info;
      info.name = entry.name;
      info.dtype = entry.dtype;
      info.shape = entry.shape;
      SetEncoding(entry.form, entry.payload.get(), &info);
      info.pieces = static_cast<int>(entry.slices.size());
      info.strides = entry.strides;
      info.has_metadata = entry.has_metadata;
      info.stored_bytes = entry.stored_bytes;
      info.shard = entry.shard;
      info.offset = entry.offset;
      tensors.push_back(std::move(info));
    }
    return std::unique_ptr<Input>(new CheckpointInput(std::move(reader), std::move(tensors), !base.empty()));
  }

  absl::string_view format() const override { return kCheckpoint; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override { return WithHint(reader_.Read(name)); }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    return WithHint(reader_.ReadSlice(name, slice));
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    return WithHint(reader_.ReadWithMetadata(name));
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override { return reader_.Metadata(name); }
  absl::StatusOr<std::string> DrawObjects() const override {
    CASK_ASSIGN_OR_RETURN(const ObjectGraph graph, ReadObjectGraph(reader_));
    return graph.ToString([this](absl::string_view key) {
      const absl::StatusOr<CheckpointEntry> entry = reader_.Find(key);
      return entry.ok() ? absl::StrCat(DTypeName(entry->dtype), " ", entry->shape.ToString()) : std::string();
    });
  }
  int num_shards() const override { return reader_.num_shards(); }
  absl::Status CheckFiles() const override {
    for (int shard = 0; shard < reader_.num_shards(); ++shard) {
      FileInfo file;
      const std::string path = reader_.DataPath(shard);
      if (FileSystem::Posix()->Describe(path, &file) < 0) {
        return absl::DataLossError(absl::StrCat(path, ": is missing; the index names ", reader_.num_shards(),
                                                reader_.num_shards() == 1 ? " data file" : " data files"));
      }
    }
    return absl::OkStatus();
  }

 private:
  CheckpointInput(CheckpointReader reader, std::vector<TensorInfo> tensors, bool has_base)
      : reader_(std::move(reader)), tensors_(std::move(tensors)), has_base_(has_base) {}

  template <typename T>
  absl::StatusOr<T> WithHint(absl::StatusOr<T> read) const {
    if (has_base_ || !absl::IsFailedPrecondition(read.status())) return read;
    return absl::FailedPreconditionError(absl::StrCat(read.status().message(), "; give it with --base PATH"));
  }

  CheckpointReader reader_;
  std::vector<TensorInfo> tensors_;
  bool has_base_;
};

// A file that holds one TensorProto.
class MessageInput final : public Input {
 public:
  static absl::StatusOr<std::unique_ptr<Input>> Open(const std::string& path, const InputOptions& options) {
    const bool binary = options.format == kTensorProto;
    const auto limit = binary ? static_cast<uint64_t>(DecodeLimits().max_message_bytes) : kMaxTextBytes;
    CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> file, ReadWholeFile(path, limit));
    const absl::string_view bytes = file->bytes();
    DecodeOptions decode;
    CASK_ASSIGN_OR_RETURN(decode.base, OpenBase(options.base));
    decode.skip_unreadable_metadata = !options.refuse_unreadable_metadata;
    absl::StatusOr<DecodedTensor> tensor =
        binary ? DecodeSerializedTensorWithMetadata(bytes, decode) : DecodeText(bytes, decode);
    if (!tensor.ok()) return AsDataLoss(tensor.status(), path);
    tensor->metadata_status = AsDataLoss(tensor->metadata_status, path);
    TensorInfo info = DescribeTensor(Stem(path), *tensor);
    info.stored_bytes = bytes.size();
    return std::unique_ptr<Input>(new MessageInput(options.format, std::move(info), *std::move(tensor)));
  }

  absl::string_view format() const override { return format_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(CheckName(name));
    return tensor_.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_RETURN_IF_ERROR(CheckName(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, tensor_.view.Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(CheckName(name));
    CASK_RETURN_IF_ERROR(tensor_.metadata_status);
    return tensor_;
  }
  absl::StatusOr<DecodedTensor> ReadWithReadableMetadata(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(CheckName(name));
    return tensor_;
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(CheckName(name));
    CASK_RETURN_IF_ERROR(tensor_.metadata_status);
    return tensor_.metadata;
  }
  absl::StatusOr<std::string> DrawObjects() const override {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", format_, " has no objects; only checkpoints of TensorFlow have them"));
  }

 private:
  MessageInput(absl::string_view format, TensorInfo info, DecodedTensor tensor)
      : format_(format), tensors_({std::move(info)}), tensor_(std::move(tensor)) {}

  absl::Status CheckName(absl::string_view name) const {
    if (name == tensors_[0].name) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("no tensor \"", name, "\"; the file holds only \"", tensors_[0].name, "\""));
  }

  // Keeps the first error for the caller. By default protobuf prints all errors.
  class FirstError final : public google::protobuf::io::ErrorCollector {
   public:
    void AddError(int line, int column, const std::string& message) override {
      constexpr size_t kMaxMessageBytes = 200;  // protobuf quotes words of any length
      if (!text.empty()) return;
      text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message.substr(0, kMaxMessageBytes));
    }
    std::string text;
  };

  static absl::StatusOr<DecodedTensor> DecodeText(absl::string_view text, const DecodeOptions& options) {
    google::protobuf::TextFormat::Parser parser;
    FirstError error;
    parser.RecordErrorsTo(&error);
    parser.SetRecursionLimit(DecodeLimits().max_depth);
    TensorProto proto;
    google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
    if (!parser.Parse(&input, &proto)) {
      return absl::InvalidArgumentError(absl::StrCat("not a TensorProto in text form: ", error.text));
    }
    return DecodeTensorWithMetadata(proto, options);
  }

  std::string format_;
  std::vector<TensorInfo> tensors_;
  DecodedTensor tensor_;
};

class CheckpointOutput final : public Output {
 public:
  explicit CheckpointOutput(CheckpointWriter writer) : writer_(std::move(writer)) {}
  absl::Status Add(const TensorInfo& info, const DecodedTensor& tensor) override {
    AddOptions options;
    options.shard = info.shard.value_or(0);
    options.metadata = tensor.metadata;
    options.layout = StoredLayout::kPreserve;
    return writer_.Add(info.name, tensor.view, options);
  }
  absl::Status Finish() override { return writer_.Finish(); }

 private:
  CheckpointWriter writer_;
};

class MessageOutput final : public Output {
 public:
  static absl::StatusOr<std::unique_ptr<Output>> Create(const std::string& path, absl::string_view format,
                                                        const OutputOptions& options) {
    PublishOptions publish;
    publish.overwrite = options.overwrite;
    PayloadOptions payload = {options.level};
    std::unique_ptr<MessageOutput> output(new MessageOutput(publish, std::move(payload), format == kTensorProtoText));
    CASK_ASSIGN_OR_RETURN(output->sink_, output->publish_.Add(path));
    return std::unique_ptr<Output>(std::move(output));
  }

  absl::Status Add(const TensorInfo& /*info*/, const DecodedTensor& tensor) override {
    EncodeOptions options;
    options.layout = StoredLayout::kPreserve;
    options.payload = payload_;
    if (text_) {
      std::string bytes;
      TensorProto proto;
      options.representation = Representation::kValues;  // numbers that a user can read and edit
      CASK_RETURN_IF_ERROR(EncodeTensor(tensor.view, tensor.metadata, options, &proto));
      if (!google::protobuf::TextFormat::PrintToString(proto, &bytes)) {
        return absl::InternalError("protobuf could not print the message");
      }
      return sink_->Append(bytes);
    }
    CASK_ASSIGN_OR_RETURN(const MessagePieces message, EncodeTensorToPieces(tensor.view, tensor.metadata, options));
    for (const absl::string_view piece : message.pieces) CASK_RETURN_IF_ERROR(sink_->Append(piece));
    return absl::OkStatus();
  }
  absl::Status Finish() override { return publish_.Commit(); }

 private:
  MessageOutput(const PublishOptions& options, PayloadOptions payload, bool text)
      : publish_(options), payload_(std::move(payload)), text_(text) {}

  AtomicPublish publish_;
  FileSink* sink_ = nullptr;
  PayloadOptions payload_;
  bool text_;
};

}  // namespace

absl::StatusOr<DecodedTensor> Input::ReadWithReadableMetadata(absl::string_view name) const {
  DecodedTensor bare;
  CASK_ASSIGN_OR_RETURN(bare.view, Read(name));
  return bare;
}

uint64_t ElementBytes(const TensorInfo& info) {
  if (info.decoded_bytes) return *info.decoded_bytes;
  const size_t element_size = ElementSize(info.dtype);
  if (element_size == 0) return info.stored_bytes;
  return CheckedMul(static_cast<uint64_t>(info.shape.num_elements()), element_size).value_or(UINT64_MAX);
}

TensorInfo DescribeTensor(std::string name, const DecodedTensor& tensor) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = tensor.view.dtype();
  info.shape = tensor.view.shape();
  const bool row_major = tensor.view.IsContiguous();
  const bool own_dtype = DTypeNumber(info.dtype) >= kFirstOwnDTypeNumber;
  const EntryForm form = tensor.payload != nullptr ? EntryForm::kEncoded
                         : !row_major || own_dtype ? EntryForm::kGuarded
                                                   : EntryForm::kPlain;
  SetEncoding(form, tensor.payload.get(), &info);
  if (!row_major) info.strides.assign(tensor.view.strides().begin(), tensor.view.strides().end());
  info.has_metadata = !tensor.metadata.IsDefault() || !tensor.metadata_status.ok();
  return info;
}

absl::Status CheckFormat(absl::string_view format) {
  if (format.empty() || std::count(std::begin(kFormats), std::end(kFormats), format) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("format \"", format, "\" is not one of ", absl::StrJoin(kFormats, ", ")));
}

bool HoldsManyTensors(absl::string_view format) { return format == kCheckpoint || format == kRecords; }

absl::StatusOr<std::shared_ptr<const BaseLookup>> OpenBase(const std::string& path) {
  if (path.empty()) return nullptr;
  CASK_ASSIGN_OR_RETURN(CheckpointReader base, CheckpointReader::Open(path));
  return std::make_shared<const CheckpointReader>(std::move(base));
}

absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path, const std::string& base) {
  CheckpointReaderOptions options;
  CASK_ASSIGN_OR_RETURN(options.base, OpenBase(base));
  return CheckpointReader::Open(path, options);
}

absl::StatusOr<std::unique_ptr<Input>> OpenInput(const std::string& path, const InputOptions& options) {
  const std::string& format = options.format;
  CASK_RETURN_IF_ERROR(CheckFormat(format));
  if (format == kTensorProto || format == kTensorProtoText) return MessageInput::Open(path, options);
  if (absl::StartsWith(path, kServedPrefix)) return ConnectToServer(path.substr(sizeof(kServedPrefix) - 1));
  if (format == kRecords) return OpenRecords(path, options);
  absl::StatusOr<std::unique_ptr<Input>> input = CheckpointInput::Open(path, options.base);
  if (!input.ok() && format.empty() && LooksLikeRecords(path)) return OpenRecords(path, options);
  // A file that is not a checkpoint may be a bare message, which cannot be recognized.
  FileInfo file;
  if (!input.ok() && !IsProcessError(input.status()) && format.empty() && !absl::EndsWith(path, ".index") &&
      FileSystem::Posix()->Describe(path, &file) == 0 && file.type == FileInfo::Type::kRegular) {
    return absl::Status(input.status().code(),
                        absl::StrCat(path, ": not a checkpoint (no ", path,
                                     ".index beside it); for a message, add --format tensorproto or "
                                     "--format tensorproto-text"));
  }
  return input;
}

absl::string_view FormatForName(absl::string_view path) {
  if (absl::EndsWith(path, ".pb")) return kTensorProto;
  if (absl::EndsWith(path, ".pbtxt") || absl::EndsWith(path, ".textproto")) return kTensorProtoText;
  if (absl::EndsWith(path, ".tfrecord") || absl::EndsWith(path, ".records")) return kRecords;
  return kCheckpoint;
}

absl::StatusOr<std::unique_ptr<Output>> CreateOutput(const std::string& path, absl::string_view format,
                                                     const OutputOptions& options) {
  CASK_RETURN_IF_ERROR(CheckFormat(format));
  if (format.empty()) format = FormatForName(path);
  // A delta names its base by the name of the tensor, which a bare message need not have.
  const bool holds_deltas = format == kCheckpoint || format == kRecords;
  if (!holds_deltas && !options.base.empty() && options.level != PayloadLevel::kStored) {
    return Misuse(absl::StrCat("--base with --level makes deltas, which a ", format,
                               " cannot hold: write a checkpoint or records, or leave out --level or --base"));
  }
  if (format == kRecords) return CreateRecords(path, options);
  if (format != kCheckpoint) return MessageOutput::Create(path, format, options);
  CheckpointWriterOptions writer_options;
  writer_options.num_shards = options.num_shards;
  writer_options.alignment = options.alignment;
  writer_options.overwrite = options.overwrite;
  writer_options.payload.level = options.level;
  writer_options.num_threads = options.num_threads;
  CASK_ASSIGN_OR_RETURN(writer_options.payload.base, OpenBase(options.base));
  const std::string prefix(absl::StripSuffix(path, ".index"));
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, writer_options));
  return std::unique_ptr<Output>(new CheckpointOutput(std::move(writer)));
}

}  // namespace tensorcask::tools
