#include "tensorcask/serialize/archive/formats/tensorproto_format.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/formats/internal/content_blocks.h"
#include "tensorcask/serialize/archive/formats/message_file.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/message_frame.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr absl::string_view kName = "tensorproto";

absl::StatusOr<std::unique_ptr<ArchiveReader>> ReadWhole(const ByteSource& file, const ArchiveReaderOptions& options) {
  return ReadMessageFile(kName, file, static_cast<uint64_t>(options.limits.max_message_bytes), options,
                         [](absl::string_view bytes, const DecodeOptions& decode) {
                           return DecodeSerializedTensorWithMetadata(bytes, decode);
                         });
}

// A large tensor whose elements stay in the file until they are read.
class LargeMessage final : public ArchiveReader {
 public:
  LargeMessage(std::shared_ptr<const ByteSource> file, std::string path, ArchiveReaderOptions options,
               internal::StoredContent content)
      : file_(std::move(file)), path_(std::move(path)), options_(std::move(options)), content_(std::move(content)) {
    entries_.push_back(archive::DescribeContent(NameFromPath(path_), content_));
    entries_.back().stored_bytes = file_->size_bytes();
  }

  absl::string_view format() const override { return kName; }
  const std::string& path() const override { return path_; }
  bool has_names() const override { return false; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> whole, ReadWhole(*file_, options_));
    return whole->Read(name);
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> whole, ReadWhole(*file_, options_));
    return whole->ReadSlice(name, slice);
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> whole, ReadWhole(*file_, options_));
    return whole->ReadWithMetadata(name);
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> whole, ReadWhole(*file_, options_));
    return whole->ReadIgnoringBadMetadata(name);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(Find(name).status());
    CASK_RETURN_IF_ERROR(AsDataLoss(content_.metadata_status, path_));
    return content_.metadata;
  }

 private:
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    CASK_RETURN_IF_ERROR(Find(entry.name).status());
    return archive::OpenContent(file_, content_, entry.name, content_.offset, /*check=*/{});
  }

  const std::shared_ptr<const ByteSource> file_;
  const std::string path_;
  const ArchiveReaderOptions options_;
  const internal::StoredContent content_;
  std::vector<ArchiveEntry> entries_;
};

}  // namespace

ArchiveTraits TensorProtoArchiveFormat::traits() const { return MessageTraits(); }

// A folder of messages is not an archive: saved_model.pb is another message.
std::vector<std::string> TensorProtoArchiveFormat::FindIn(const std::string& /*folder*/,
                                                          absl::Span<const std::string> /*names*/,
                                                          FileSystem* /*file_system*/) const {
  return {};
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> TensorProtoArchiveFormat::Open(
    const std::string& path, const ArchiveReaderOptions& options) const {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  if (file->size_bytes() < archive::kLargeMessageBytes) return ReadWhole(*file, options);
  DecodeOptions decode;
  decode.limits = options.limits;
  decode.unreadable_metadata = options.unreadable_metadata;
  CASK_ASSIGN_OR_RETURN(std::optional<internal::StoredContent> content,
                        internal::FindContent(*file, 0, file->size_bytes(), decode));
  if (!content.has_value()) return ReadWhole(*file, options);
  return std::unique_ptr<ArchiveReader>(
      std::make_unique<LargeMessage>(std::move(file), path, options, *std::move(content)));
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> TensorProtoArchiveFormat::Create(
    const std::string& path, const ArchiveWriterOptions& options) const {
  return CreateTensorProtoFile(path, options);
}

}  // namespace tensorcask
