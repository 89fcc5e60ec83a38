// Record streams of named tensors, in files and in pipes: each record is a TensorProto whose metadata has the name.

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
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tools/formats.h"

namespace tensorcask::tools {

struct NamedTensor {
  TensorInfo info;  // its name, and all else that `ls` tells
  DecodedTensor tensor;
};

// Parts a tensor from the name in its metadata; one without goes by `number`.
NamedTensor TakeName(DecodedTensor tensor, int64_t number);
// The inverse. Error: InvalidArgument if its metadata has another name already: there is room for one.
absl::StatusOr<DecodedTensor> PutName(const std::string& name, DecodedTensor tensor);

// Reads the tensors of a stream, however large, one at a time.
class NamedTensorReader {
 public:
  explicit NamedTensorReader(std::unique_ptr<ByteStream> stream);

  // The next, with its metadata less the name; a record without a name goes by its number, from 0. Nothing at the end.
  // Errors: as ReadTensorRecordWithMetadata.
  absl::StatusOr<std::optional<NamedTensor>> Next();

 private:
  RecordReader reader_;
  int64_t number_ = 0;  // of the next record
};

// Writes the tensor with its metadata, strides and name, encoded above kStored. Errors: as PutName and
// WriteTensorRecord.
absl::Status WriteNamedTensor(const std::string& name, const DecodedTensor& tensor, PayloadLevel level,
                              RecordWriter* writer);

// Whether the file starts with a record; false if it cannot be read.
bool LooksLikeRecords(const std::string& path);

// Reads the whole file once, a record at a time. Errors: as OpenFileSource; DataLoss, also for two tensors of one name.
absl::StatusOr<std::unique_ptr<Input>> OpenRecords(const std::string& path);
absl::StatusOr<std::unique_ptr<Output>> CreateRecords(const std::string& path, const OutputOptions& options);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_RECORD_STREAM_H_
