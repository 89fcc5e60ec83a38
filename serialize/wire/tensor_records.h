// Streams of tensors: each record (records.h) is one TensorProto message, as EncodeTensorTo writes it (zero_copy.h).
//
//   CASK_RETURN_IF_ERROR(WriteTensorRecord(tensor, {}, &writer));
//
//   while (true) {
//     CASK_ASSIGN_OR_RETURN(std::optional<Tensor> tensor, ReadTensorRecord(&reader));
//     if (!tensor.has_value()) break;
//   }

#ifndef TENSORCASK_SERIALIZE_WIRE_TENSOR_RECORDS_H_
#define TENSORCASK_SERIALIZE_WIRE_TENSOR_RECORDS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// Elements go to the sink from where they lie, without a copy of the message in between.
// Errors: as EncodeTensorTo, and nothing was written; of the sink.
absl::Status WriteTensorRecord(const TensorView& tensor, const EncodeOptions& options, RecordWriter* writer);
absl::Status WriteTensorRecord(const TensorView& tensor, const TensorMetadata& metadata, const EncodeOptions& options,
                               RecordWriter* writer);

// The next tensor, in its own memory; nothing at the end. Errors: as RecordReader::Next; as DecodeTensorBytes, with the
// stream and the offset of the record, InvalidArgument as DataLoss. After an error of the second kind the reader goes
// on with the next record.
absl::StatusOr<std::optional<Tensor>> ReadTensorRecord(RecordReader* reader, const DecodeOptions& options = {});
// The same with metadata and strides. A large tensor takes over the memory that its record was read into, so that it is
// in memory once, unless `options` name another allocator than the reader's.
absl::StatusOr<std::optional<DecodedTensor>> ReadTensorRecordWithMetadata(RecordReader* reader,
                                                                          const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_RECORDS_H_
