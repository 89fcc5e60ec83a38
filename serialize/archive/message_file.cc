#include "tensorcask/serialize/archive/message_file.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/internal/atomic_publish.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

class MessageWriter final : public ArchiveWriter {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                               const ArchiveWriterOptions& options,
                                                               MessageEncoder encode) {
    PublishOptions publish;
    publish.overwrite = options.overwrite;
    publish.sync = options.sync;
    std::unique_ptr<MessageWriter> writer(new MessageWriter(path, publish, options.level, std::move(encode)));
    CASK_ASSIGN_OR_RETURN(writer->sink_, writer->publish_.Add(path));
    return std::unique_ptr<ArchiveWriter>(std::move(writer));
  }

  absl::Status Add(const ArchiveEntry& /*entry*/, const DecodedTensor& tensor) override {
    if (++count_ > 1) return absl::InvalidArgumentError(absl::StrCat(path_, ": a message holds exactly one tensor"));
    EncodeOptions options;
    options.layout = StoredLayout::kPreserve;
    options.payload.level = level_;
    return encode_(tensor, options, sink_);
  }

 private:
  MessageWriter(std::string path, const PublishOptions& publish, PayloadLevel level, MessageEncoder encode)
      : path_(std::move(path)), publish_(publish), level_(level), encode_(std::move(encode)) {}

  absl::StatusOr<uint64_t> Publish() override {
    if (count_ != 1) return absl::FailedPreconditionError(absl::StrCat(path_, ": a message holds exactly one tensor"));
    const uint64_t bytes = sink_->position();
    CASK_RETURN_IF_ERROR(publish_.Commit());
    return bytes;
  }

  const std::string path_;
  AtomicPublish publish_;
  const PayloadLevel level_;
  const MessageEncoder encode_;
  FileSink* sink_ = nullptr;  // of publish_
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
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> file, ReadWholeFile(path, max_bytes, options.read));
  const absl::string_view bytes = file->bytes();
  DecodeOptions decoding;
  decoding.limits = options.limits;
  decoding.base = options.base;
  decoding.skip_unreadable_metadata = !options.refuse_unreadable_metadata;
  absl::StatusOr<DecodedTensor> tensor = decode(bytes, decoding);
  if (!tensor.ok()) return AsDataLoss(tensor.status(), path);
  tensor->metadata_status = AsDataLoss(tensor->metadata_status, path);
  ArchiveEntry entry = DescribeTensor(NameFromPath(path), *tensor);
  entry.stored_bytes = bytes.size();
  std::vector<NamedRecord> tensors;
  tensors.push_back({std::move(entry), *std::move(tensor)});
  return MakeDecodedArchive(format, path, std::move(tensors));
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> CreateMessageFile(const std::string& path,
                                                                 const ArchiveWriterOptions& options,
                                                                 MessageEncoder encode) {
  return MessageWriter::Create(path, options, std::move(encode));
}

}  // namespace tensorcask
