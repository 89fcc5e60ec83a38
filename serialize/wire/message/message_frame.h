// The bytes of a message around the content of a tensor, for tensors that are written and read in blocks. Internal.
//
//   CASK_ASSIGN_OR_RETURN(const MessageFrame frame, MakeMessageFrame(DType::kFloat32, shape, metadata));
//   CASK_RETURN_IF_ERROR(sink->Append(frame.header));
//   ... the elements, row-major: frame.content_bytes in total ...
//   CASK_RETURN_IF_ERROR(sink->Append(frame.tail));      // the bytes of EncodeTensorTo
//
//   CASK_ASSIGN_OR_RETURN(const std::optional<StoredContent> content, FindContent(*file, 0, file->size_bytes(), {}));
//   if (content.has_value()) ... content->bytes at content->offset of the file ...

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_MESSAGE_FRAME_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_MESSAGE_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::internal {

struct MessageFrame {
  std::string header;
  uint64_t content_bytes = 0;
  std::string tail;

  uint64_t total_bytes() const { return header.size() + content_bytes + tail.size(); }
};

// The frame of the message that EncodeTensorTo writes for a row-major tensor with default options. Requires: the dtype
// has a fixed size. Errors: InvalidArgument for metadata that the tensor cannot have, and for more than 2^63 bytes.
absl::StatusOr<MessageFrame> MakeMessageFrame(DType dtype, const TensorShape& shape, const TensorMetadata& metadata);

// A tensor whose elements are row-major bytes of a file.
struct StoredContent {
  DType dtype = DType::kInvalid;
  TensorShape shape;
  TensorMetadata metadata;
  absl::Status metadata_status;  // as DecodedTensor::metadata_status
  uint64_t offset = 0;           // in the file
  uint64_t bytes = 0;            // a bool among them may have any value
};

// Finds the content of the message that is `message_bytes` at `offset` of `file`. Reads the other fields, 1 MiB at
// most, and no content. Returns nullopt for a message whose elements are not content of a fixed size in row-major
// order, for one with a checksum of the elements, for one with so many other fields, and for a damaged one: the decoder
// of whole messages then decodes it or says what is wrong. Errors: those of the file.
absl::StatusOr<std::optional<StoredContent>> FindContent(const ByteSource& file, uint64_t offset,
                                                         uint64_t message_bytes, const DecodeOptions& options);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_MESSAGE_FRAME_H_
