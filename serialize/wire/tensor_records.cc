#include "tensorcask/serialize/wire/tensor_records.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/pieces.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

template <typename Decoded>
absl::StatusOr<std::optional<Decoded>> ReadWith(absl::StatusOr<Decoded> (*decode)(absl::string_view,
                                                                                  const DecodeOptions&),
                                                RecordReader* reader, const DecodeOptions& options) {
  const uint64_t offset = reader->offset();
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> message, reader->Next());
  if (!message.has_value()) return std::nullopt;
  absl::StatusOr<Decoded> tensor = decode(*message, options);
  if (tensor.ok()) return *std::move(tensor);
  const absl::Status& status = tensor.status();
  return absl::Status(absl::IsInvalidArgument(status) ? absl::StatusCode::kDataLoss : status.code(),
                      absl::StrCat(reader->name(), ": record at ", offset, ": ", status.message()));
}

}  // namespace

absl::Status WriteTensorRecord(const TensorView& tensor, const EncodeOptions& options, RecordWriter* writer) {
  return WriteTensorRecord(tensor, TensorMetadata(), options, writer);
}

absl::Status WriteTensorRecord(const TensorView& tensor, const TensorMetadata& metadata, const EncodeOptions& options,
                               RecordWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const MessagePieces message, EncodeTensorToPieces(tensor, metadata, options));
  return writer->Write(message.pieces);
}

absl::StatusOr<std::optional<Tensor>> ReadTensorRecord(RecordReader* reader, const DecodeOptions& options) {
  return ReadWith(DecodeTensorBytes, reader, options);
}

absl::StatusOr<std::optional<DecodedTensor>> ReadTensorRecordWithMetadata(RecordReader* reader,
                                                                          const DecodeOptions& options) {
  return ReadWith(DecodeTensorBytesWithMetadata, reader, options);
}

}  // namespace tensorcask
