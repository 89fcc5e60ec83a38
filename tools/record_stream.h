// Record streams of named tensors, in files and pipes. Each record is a TensorProto with the name in its metadata.

#ifndef TENSORCASK_TOOLS_RECORD_STREAM_H_
#define TENSORCASK_TOOLS_RECORD_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tools/formats.h"

namespace tensorcask::tools {

struct NamedTensor {
  TensorInfo info;  // its name, and everything else that `ls` prints
  DecodedTensor tensor;
};

// Moves the name of a tensor from its metadata to the result. A tensor without a name is named by `number`.
NamedTensor ExtractName(DecodedTensor tensor, int64_t number);
// The inverse. Errors: InvalidArgument if the metadata has another name already.
absl::StatusOr<DecodedTensor> AttachName(const std::string& name, DecodedTensor tensor);

// Reads the tensors of a stream, however large, one at a time.
class NamedTensorReader {
 public:
  // `base` resolves deltas; null if none is available. With `skip_unreadable_metadata` a tensor comes without the
  // metadata that cannot be read; its metadata_status then is an error.
  explicit NamedTensorReader(std::unique_ptr<ByteStream> stream, std::shared_ptr<const BaseLookup> base = nullptr,
                             bool skip_unreadable_metadata = false);

  // The next tensor, with its metadata except the name; nullopt at the end. A record without a name is named by its
  // number, from 0. Errors: as ReadTensorRecordWithMetadata.
  absl::StatusOr<std::optional<NamedTensor>> Next();

 private:
  RecordReader reader_;
  const std::shared_ptr<const BaseLookup> base_;  // may be null
  const bool skip_unreadable_metadata_;
  int64_t number_ = 0;  // of the next record
};

// Writes the tensor with its metadata, strides and name; compressed as `payload` says. Errors: as AttachName
// and WriteTensorRecord.
absl::Status WriteNamedTensor(const std::string& name, const DecodedTensor& tensor, const PayloadOptions& payload,
                              RecordWriter* writer);

// True if the file starts with a record. False if it cannot be read.
bool LooksLikeRecords(const std::string& path);

// Reads the whole file once, one record at a time. Errors: as OpenFileSource; DataLoss, also if two tensors have the
// same name.
absl::StatusOr<std::unique_ptr<Input>> OpenRecords(const std::string& path, const InputOptions& options);
absl::StatusOr<std::unique_ptr<Output>> CreateRecords(const std::string& path, const OutputOptions& options);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_RECORD_STREAM_H_
