#include "tensorcask/serialize/wire/tensor_records.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/changing_memory.h"

namespace tensorcask {
namespace {

// Reads the next record and returns decode(message).
template <typename Decoded, typename Decode>
absl::StatusOr<std::optional<Decoded>> ReadWith(RecordReader* reader, Decode decode) {
  const uint64_t offset = reader->offset();
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> message, reader->Next());
  if (!message.has_value()) return std::nullopt;
  absl::StatusOr<Decoded> tensor = decode(*message);
  if (tensor.ok()) return *std::move(tensor);
  return AsDataLoss(Annotate(tensor.status(), absl::StrCat("record at ", offset)), reader->name());
}

// Decodes the last record of `reader`. A large tensor acquires the memory that the record was read into.
absl::StatusOr<DecodedTensor> DecodeLast(absl::string_view message, const DecodeOptions& options,
                                         RecordReader* reader) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(fields.Read(message, options.limits.max_depth));
  if (!fields.content.empty() && options.allocator == reader->allocator()) {
    if (const std::optional<RecordReader::Kept> kept = reader->KeepLast(fields.content)) {
      internal::WireTensorFields kept_fields;
      kept_fields.ReadChecked(kept->data);
      return internal::TensorDecoder(kept_fields, options).DecodeInPlace(kept->memory, /*writable=*/true);
    }
  }
  return internal::TensorDecoder(fields, options).DecodeWithMetadata();
}

}  // namespace

absl::Status WriteTensorRecord(const TensorView& tensor, const EncodeOptions& options, RecordWriter* writer) {
  return WriteTensorRecord(tensor, TensorMetadata(), options, writer);
}

absl::Status WriteTensorRecord(const TensorView& tensor, const TensorMetadata& metadata, const EncodeOptions& options,
                               RecordWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const MessagePieces message, EncodeTensorToPieces(tensor, metadata, options));
  return writer->Write(message.pieces, internal::MayChange(tensor));
}

absl::StatusOr<std::optional<Tensor>> ReadTensorRecord(RecordReader* reader, const DecodeOptions& options) {
  return ReadWith<Tensor>(reader, [&](absl::string_view message) { return DecodeSerializedTensor(message, options); });
}

absl::StatusOr<std::optional<DecodedTensor>> ReadTensorRecordWithMetadata(RecordReader* reader,
                                                                          const DecodeOptions& options) {
  return ReadWith<DecodedTensor>(reader,
                                 [&](absl::string_view message) { return DecodeLast(message, options, reader); });
}

}  // namespace tensorcask
