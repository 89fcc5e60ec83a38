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

#include "tensorcask/tensor/base/cxx17.h"

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

// The elements go from the buffer of the tensor to the sink; no copy of the message is made. External and mapped memory
// is copied through a block of 256 KiB, so that the record is valid also while another process writes to that memory;
// with EncodeOptions::checksum it is copied whole.
// Errors: those of EncodeTensorTo, and then nothing has been written; those of the sink.
absl::Status WriteTensorRecord(const TensorView& tensor, const EncodeOptions& options, RecordWriter* writer);
absl::Status WriteTensorRecord(const TensorView& tensor, const TensorMetadata& metadata, const EncodeOptions& options,
                               RecordWriter* writer);

// The next tensor, in memory of its own; nullopt at the end.
// Errors: those of RecordReader::Next; those of DecodeSerializedTensor, with the name of the stream and the offset of
// the record, and with DataLoss instead of InvalidArgument. After an error of the second kind the next call reads the
// next record.
absl::StatusOr<std::optional<Tensor>> ReadTensorRecord(RecordReader* reader, const DecodeOptions& options = {});
// The same with metadata and strides. A large tensor acquires the memory that its record was read into, so it is in
// memory only once, unless options.allocator is not the allocator of the reader.
absl::StatusOr<std::optional<DecodedTensor>> ReadTensorRecordWithMetadata(RecordReader* reader,
                                                                          const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_RECORDS_H_
