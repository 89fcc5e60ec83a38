// The formats that the tool reads and writes, behind two small interfaces.
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<Input> input, OpenInput("model.ckpt", {}));
//   for (const TensorInfo& info : input->tensors()) ...
//
// "unix:SOCKET" are the tensors that `tensorcask serve` answers for. Checkpoints and records are recognised by their
// content. A bare protobuf message is not: its format has to be named.

#ifndef TENSORCASK_TOOLS_FORMATS_H_
#define TENSORCASK_TOOLS_FORMATS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {

inline constexpr char kCheckpoint[] = "checkpoint";
inline constexpr char kTensorProto[] = "tensorproto";
inline constexpr char kTensorProtoText[] = "tensorproto-text";
inline constexpr char kRecords[] = "records";
inline constexpr char kServed[] = "served";  // recognised by the path, never named
inline constexpr const char* kFormats[] = {kCheckpoint, kTensorProto, kTensorProtoText, kRecords};

// InvalidArgument, listing the formats there are, unless `format` is one of them or empty.
absl::Status CheckFormat(absl::string_view format);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  TensorShape shape;
  std::string encoding;                   // "plain", "sliced", "encoded high delta", ...
  int pieces = 0;                         // of a sliced one
  std::vector<int64_t> strides;           // elements; empty: row-major
  bool has_metadata = false;              // Input::Metadata says more
  uint64_t stored_bytes = 0;              // in the file
  std::optional<uint64_t> decoded_bytes;  // of an encoded one
  std::optional<int> shard;               // where that is known
  std::optional<uint64_t> offset;
};

// Bytes of the elements in memory; strings: as stored, or decoded, with 8 bytes for each length.
uint64_t ElementBytes(const TensorInfo& info);

// What is known of a tensor outside a checkpoint; stored_bytes is left at 0.
TensorInfo DescribeTensor(std::string name, const DecodedTensor& tensor);

class Input {
 public:
  virtual ~Input() = default;
  virtual absl::string_view format() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;             // by name
  virtual absl::StatusOr<Tensor> Read(absl::string_view name) const = 0;  // row-major
  // From the bytes that hold it, where the format allows.
  virtual absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const = 0;
  virtual absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const = 0;  // and with its strides
  virtual absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const = 0;
  // The objects that TensorFlow saved, as lines. InvalidArgument for a format that has none; NotFound.
  virtual absl::StatusOr<std::string> DrawObjects() const = 0;
  virtual int num_shards() const { return 1; }
  // DataLoss, naming the first, if files of the input are missing.
  virtual absl::Status CheckFiles() const { return absl::OkStatus(); }
};

struct InputOptions {
  std::string format;  // one of the above; "": recognise it
  std::string base;    // the path of the checkpoint that deltas are to; "": none
};

// Errors: InvalidArgument as CheckFormat; NotFound; DataLoss; of a checkpoint, those of its base too.
absl::StatusOr<std::unique_ptr<Input>> OpenInput(const std::string& path, const InputOptions& options);
absl::StatusOr<CheckpointReader> OpenCheckpoint(const std::string& path, const std::string& base);
// Null for "".
absl::StatusOr<std::shared_ptr<const CheckpointReader>> OpenBase(const std::string& path);

struct OutputOptions {
  int num_shards = 1;
  uint64_t alignment = 64;
  bool overwrite = false;
  PayloadLevel level = PayloadLevel::kStored;
  std::string base;  // of a checkpoint: what encoded tensors become deltas to; "": none
};

class Output {
 public:
  virtual ~Output() = default;
  // With its metadata and strides.
  virtual absl::Status Add(const TensorInfo& info, const DecodedTensor& tensor) = 0;
  virtual absl::Status Finish() = 0;  // nothing is at the path before
};

// The format that the name of a file to be written asks for: .pb, .pbtxt and .textproto are messages, .tfrecord and
// .records record files, all else a checkpoint's prefix.
absl::string_view FormatForName(absl::string_view path);
// False for messages.
bool HoldsManyTensors(absl::string_view format);

absl::StatusOr<std::unique_ptr<Output>> CreateOutput(const std::string& path, absl::string_view format,
                                                     const OutputOptions& options);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_H_
