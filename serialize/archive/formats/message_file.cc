#include "tensorcask/serialize/archive/formats/message_file.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/formats/internal/content_blocks.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

// As ReadWholeFile.
absl::StatusOr<RefPtr<TensorBuffer>> ReadAll(const ByteSource& file, uint64_t max_bytes) {
  if (file.size_bytes() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(file.name(), ": has ", file.size_bytes(), " bytes, the limit is ", max_bytes));
  }
  CASK_ASSIGN_OR_ANNOTATE(RefPtr<TensorBuffer> bytes, TensorBuffer::Allocate(static_cast<size_t>(file.size_bytes())),
                          file.name());
  char* const data = static_cast<char*>(bytes->mutable_data());
  CASK_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(data, bytes->size_bytes())));
  return bytes;
}

class MessageWriter final : public ArchiveWriter {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                               const ArchiveWriterOptions& options, bool in_blocks,
                                                               MessageEncoder encode) {
    PublishOptions publish;
    publish.file_system = options.file_system;
    publish.overwrite = options.overwrite;
    publish.sync = options.sync;
    std::unique_ptr<MessageWriter> writer(
        new MessageWriter(path, publish, options.level, in_blocks, std::move(encode)));
    CASK_ASSIGN_OR_RETURN(writer->sink_, writer->publish_.Add(path));
    return std::unique_ptr<ArchiveWriter>(std::move(writer));
  }

  absl::StatusOr<ReplacedFiles> Start() override { return ReplacedFileAt(path_, file_system_); }
  absl::Status Add(const ArchiveEntry& /*entry*/, const DecodedTensor& tensor) override {
    return UnlessFailed([&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(CountTensor());
      EncodeOptions options;
      options.layout = StoredLayout::kPreserve;
      options.payload.level = level_;
      return encode_(tensor, options, sink_);
    });
  }
  // Encoding looks at samples of the whole tensor before it writes.
  bool writes_in_blocks(const ArchiveEntry& entry) const override {
    return in_blocks_ && level_ == PayloadLevel::kStored && IsFixedSize(entry.dtype) && entry.strides.empty();
  }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    if (!writes_in_blocks(entry)) return ArchiveWriter::AddSlice(entry, metadata, slice, elements);
    const auto begin = [&](uint64_t message_bytes) {
      message_bytes_ = message_bytes;
      return CountTensor();
    };
    return UnlessFailed([&] {
      return slices_.Add(entry, metadata, slice, elements, begin,
                         [&](absl::string_view bytes) { return sink_->Append(bytes); });
    });
  }

 private:
  MessageWriter(std::string path, const PublishOptions& publish, PayloadLevel level, bool in_blocks,
                MessageEncoder encode)
      : path_(std::move(path)),
        file_system_(publish.file_system),
        publish_(publish),
        level_(level),
        in_blocks_(in_blocks),
        encode_(std::move(encode)) {}

  absl::Status CountTensor() {
    if (++count_ <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, ": a message holds exactly one tensor"));
  }

  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(slices_.CheckComplete());
    if (count_ != 1) return absl::FailedPreconditionError(absl::StrCat(path_, ": a message holds exactly one tensor"));
    const uint64_t bytes = sink_->position();
    if (bytes < message_bytes_) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": the message is incomplete: ", message_bytes_ - bytes,
                                                        message_bytes_ - bytes == 1 ? " byte is" : " bytes are",
                                                        " missing"));
    }
    CASK_RETURN_IF_ERROR(publish_.Commit());
    return bytes;
  }

  const std::string path_;
  FileSystem* const file_system_;
  Publication publish_;
  const PayloadLevel level_;
  const bool in_blocks_;
  const MessageEncoder encode_;
  archive::MessageSlices slices_;
  FileSink* sink_ = nullptr;    // the file of publish_
  uint64_t message_bytes_ = 0;  // the size of a message in slices, when it is complete
  int64_t count_ = 0;
};

}  // namespace

ArchiveTraits MessageTraits() {
  ArchiveTraits traits;
  traits.many_tensors = false;
  traits.strides = true;
  traits.metadata = true;
  traits.levels = true;
  traits.strings = true;
  traits.has_signature = false;
  return traits;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenMessageFile(
    absl::string_view format, const std::string& path, uint64_t max_bytes, const ArchiveReaderOptions& options,
    absl::FunctionRef<absl::StatusOr<DecodedTensor>(absl::string_view, const DecodeOptions&)> decode) {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  return ReadMessageFile(format, *file, max_bytes, options, decode);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ReadMessageFile(
    absl::string_view format, const ByteSource& file, uint64_t max_bytes, const ArchiveReaderOptions& options,
    absl::FunctionRef<absl::StatusOr<DecodedTensor>(absl::string_view, const DecodeOptions&)> decode) {
  const std::string& path = file.name();
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> content, ReadAll(file, max_bytes));
  const absl::string_view bytes = content->bytes();
  DecodeOptions decoding;
  decoding.limits = options.limits;
  decoding.base = options.base;
  decoding.unreadable_metadata = options.unreadable_metadata;
  absl::StatusOr<DecodedTensor> tensor = decode(bytes, decoding);
  if (!tensor.ok()) return ExplainContent(AsDataLoss(tensor.status(), path), file, format);
  tensor->metadata_status = AsDataLoss(tensor->metadata_status, path);
  ArchiveEntry entry = DescribeTensor(NameFromPath(path), *tensor);
  entry.stored_bytes = bytes.size();
  KeptTensors tensors;
  tensors.Add({std::move(entry), *std::move(tensor)});
  return MakeDecodedArchive(format, path, std::move(tensors), /*has_names=*/false);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateMessageFile(const std::string& path,
                                                                 const ArchiveWriterOptions& options,
                                                                 MessageEncoder encode) {
  return MessageWriter::Create(path, options, /*in_blocks=*/false, std::move(encode));
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateTensorProtoFile(const std::string& path,
                                                                     const ArchiveWriterOptions& options) {
  return MessageWriter::Create(
      path, options, /*in_blocks=*/true,
      [](const DecodedTensor& tensor, const EncodeOptions& encode, ByteSink* sink) -> absl::Status {
        CASK_ASSIGN_OR_RETURN(const MessagePieces message, EncodeTensorToPieces(tensor.view, tensor.metadata, encode));
        for (const absl::string_view piece : message.pieces) CASK_RETURN_IF_ERROR(sink->Append(piece));
        return absl::OkStatus();
      });
}

}  // namespace tensorcask
