#include "tensorcask/serialize/archive/tensorproto_format.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/message_file.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

ArchiveTraits TensorProtoArchiveFormat::traits() const { return MessageTraits(); }

// A folder of messages is no archive: saved_model.pb is another message.
std::vector<std::string> TensorProtoArchiveFormat::FindIn(const std::string& /*folder*/,
                                                          absl::Span<const std::string> /*names*/) const {
  return {};
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> TensorProtoArchiveFormat::Open(
    const std::string& path, const ArchiveReaderOptions& options) const {
  return OpenMessageFile(name(), path, static_cast<uint64_t>(options.limits.max_message_bytes), options,
                         [](absl::string_view bytes, const DecodeOptions& decode) {
                           return DecodeSerializedTensorWithMetadata(bytes, decode);
                         });
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> TensorProtoArchiveFormat::Create(
    const std::string& path, const ArchiveWriterOptions& options) const {
  return CreateMessageFile(
      path, options, [](const DecodedTensor& tensor, const EncodeOptions& encode, ByteSink* sink) -> absl::Status {
        CASK_ASSIGN_OR_RETURN(const MessagePieces message, EncodeTensorToPieces(tensor.view, tensor.metadata, encode));
        for (const absl::string_view piece : message.pieces) CASK_RETURN_IF_ERROR(sink->Append(piece));
        return absl::OkStatus();
      });
}

}  // namespace tensorcask
