#include "tensorcask/serialize/wire/tensor_records.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {

absl::Status WriteTensorRecord(const TensorView& tensor, const EncodeOptions& options, RecordWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const uint64_t size_bytes, EncodedTensorBytes(tensor, options));
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> message, TensorBuffer::Allocate(static_cast<size_t>(size_bytes)));
  const absl::Span<char> bytes(static_cast<char*>(message->mutable_data()), message->size_bytes());
  CASK_RETURN_IF_ERROR(EncodeTensorTo(tensor, options, bytes));
  return writer->Write(message->bytes());
}

absl::StatusOr<std::optional<Tensor>> ReadTensorRecord(RecordReader* reader, const DecodeOptions& options) {
  const uint64_t offset = reader->offset();
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> message, reader->Next());
  if (!message.has_value()) return std::nullopt;
  absl::StatusOr<Tensor> tensor = DecodeTensorBytes(*message, options);
  if (tensor.ok()) return *std::move(tensor);
  const absl::Status& status = tensor.status();
  return absl::Status(absl::IsInvalidArgument(status) ? absl::StatusCode::kDataLoss : status.code(),
                      absl::StrCat(reader->source().name(), ": record at ", offset, ": ", status.message()));
}

}  // namespace tensorcask
